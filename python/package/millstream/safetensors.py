"""Model weights: safetensors files, read at the disk's speed.

`load_file` returns what ``safetensors.numpy.load_file`` (or, with a device, ``safetensors.torch``)
returns, and `iter_tensors` yields tensors in the order in which they arrive, in bounded memory.
Several files are read at once; a folder, or its ``model.safetensors.index.json``, stands for all
shards of a model. Headers are refused as the reference implementation refuses them, and so are
names that stand there twice.

>>> import millstream.safetensors, numpy, os, safetensors.numpy, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
>>> safetensors.numpy.save_file({"weight": numpy.eye(2, dtype=numpy.float32)}, path)
>>> millstream.safetensors.load_file(path)
{'weight': array([[1., 0.],
       [0., 1.]], dtype=float32)}

Arrays of numpy: bfloat16 and the types of one byte are those of the package ``ml_dtypes`` if it is
installed; else bfloat16 arrives as uint16 and those of one byte as uint8. Types of less than a byte
arrive as a flat uint8 array of their packed bytes. Arrays can be written to. Tensors of a MiB and
more have memory of their own; smaller neighbors share theirs.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from . import _tensors
from ._errors import invalid
from ._files import Path, TensorFile, open_files
from ._native import Storage

__all__ = ["iter_tensors", "load_file", "metadata"]

#: Bytes that `iter_tensors` reads ahead of its caller.
WINDOW_BYTES = 96 << 20


def _framework(framework: str | None, device: Any) -> str:
    chosen = framework or ("numpy" if device is None else "torch")
    if chosen not in ("numpy", "torch"):
        raise invalid(f"the framework {chosen!r} is none of numpy, torch")
    if chosen == "numpy" and device is not None:
        raise invalid("arrays of numpy have no device")
    return chosen


def load_file(
    path: Path,
    names: Iterable[str] | None = None,
    device: Any = None,
    *,
    framework: str | None = None,
    storage: Storage | None = None,
) -> dict[str, Any]:
    """Loads tensors: all, or those of `names`, from a file, a folder or an index.

    Without a device they are arrays of numpy; with one (such as "cpu" or "cuda:0"), or with
    ``framework="torch"``, tensors of torch. To a CUDA device they go through pinned memory, while
    others are read.

    Raises Corrupt for a file that is damaged or no safetensors file, KeyError for a name that is
    not there, and OSError (such as FileNotFoundError) for what the system refuses.
    """
    chosen = _framework(framework, device)
    with _tensors.Session(storage) as session:
        files = open_files(session.storage, session.queue, [path])
        wanted = _tensors.wanted(files, names)
        found = dict(session.tensors(wanted, chosen, device, None))
    order = [tensor.name for file in files for tensor in file.tensors]
    return {name: found[name] for name in order if name in found}


def iter_tensors(
    paths: Path | Iterable[Path],
    names: Iterable[str] | None = None,
    device: Any = None,
    *,
    framework: str | None = None,
    window: int = WINDOW_BYTES,
    storage: Storage | None = None,
) -> Iterator[tuple[str, Any]]:
    """Yields names and tensors in the order in which they arrive; see `load_file`.

    At most `window` bytes are read ahead, or one tensor, if it is larger: a caller who keeps none
    needs memory for the largest tensor and the window. An iterator that is dropped cancels what is
    in flight.

    >>> import millstream.safetensors, numpy, os, safetensors.numpy, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> safetensors.numpy.save_file({"a": numpy.ones(3), "b": numpy.zeros(2)}, path)
    >>> sorted((name, tensor.sum()) for name, tensor in iter_tensors(path))
    [('a', np.float64(3.0)), ('b', np.float64(0.0))]
    """
    chosen = _framework(framework, device)
    if window < 1:
        raise invalid("the window must have a byte at least")
    listed = [paths] if _is_path(paths) else list(paths)  # type: ignore[arg-type]
    return _iterate(listed, names, (chosen, device), window, storage)  # type: ignore[arg-type]


def _is_path(paths: object) -> bool:
    return isinstance(paths, (str, bytes)) or hasattr(paths, "__fspath__")


def _iterate(
    paths: list[Path],
    names: Iterable[str] | None,
    kind: tuple[str, Any],
    window: int,
    storage: Storage | None,
) -> Iterator[tuple[str, Any]]:
    with _tensors.Session(storage, retained=window) as session:
        files = open_files(session.storage, session.queue, paths)
        yield from session.tensors(_tensors.wanted(files, names), *kind, window)


def metadata(path: Path, *, storage: Storage | None = None) -> dict[str, str]:
    """The metadata of a file's header; of a sharded model, that of all shards."""
    with _tensors.Session(storage) as session:
        files: list[TensorFile] = open_files(session.storage, session.queue, [path])
    return {key: value for file in files for key, value in file.metadata.items()}
