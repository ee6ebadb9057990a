"""Model weights: safetensors files, read at the disk's speed.

`safe_open` offers what ``safetensors.safe_open`` does: tensors, or parts of them, by name.
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

Tensors for a device of torch go through a ring of at most 128 MiB of host memory, pinned for CUDA,
while others are read.
"""

import mmap
import os
import threading
import weakref
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

from . import _plan, _tensors
from ._default import default_storage
from ._errors import Closed, MillstreamError, invalid
from ._files import Path, Tensor, TensorFile, open_files
from ._native import SharedModel as _SharedModel
from ._native import Storage
from ._native import write_checksums as _write_checksums
from ._tensors import Shards

__all__ = [
    "TensorSlice",
    "iter_tensors",
    "load_file",
    "load_shared",
    "metadata",
    "safe_open",
    "write_checksums",
]

#: Bytes that `iter_tensors` reads ahead of its caller.
WINDOW_BYTES = 96 << 20

_FRAMEWORKS = {
    "numpy": "numpy",
    "np": "numpy",
    "torch": "torch",
    "pt": "torch",
    "pytorch": "torch",
}


def _framework(framework: str | None, device: Any) -> str:
    chosen = framework or ("numpy" if device is None else "torch")
    if chosen not in _FRAMEWORKS:
        raise invalid(f"the framework {chosen!r} is none of {', '.join(_FRAMEWORKS)}")
    if _FRAMEWORKS[chosen] == "numpy" and device is not None:
        raise invalid("arrays of numpy have no device")
    return _FRAMEWORKS[chosen]


def load_file(
    path: Path,
    names: Iterable[str] | None = None,
    device: Any = None,
    *,
    framework: str | None = None,
    shards: Shards | None = None,
    checksums: Path | None = None,
    storage: Storage | None = None,
) -> dict[str, Any]:
    """Loads tensors: all, or those of `names`, from a file, a folder or an index.

    Without a device they are arrays of numpy; with one (such as "cpu" or "cuda:0"), or with
    ``framework="torch"``, tensors of torch.

    `shards` names the tensors of which this process needs one of several equal parts, as one rank
    of a tensor-parallel model: dimension, rank and number of ranks. Little else of them is read:
    rows are one range of the file, and columns pieces of each row; what lies between pieces is read
    with them if it is at most 64 KiB. Other tensors are loaded as a whole.

    `checksums` is a file of `write_checksums` or ``millstream weights hash``: all bytes that are
    read, headers too, are compared with it, each MiB by a worker.

    Raises Corrupt for a file that is damaged or no safetensors file, KeyError for a name that is
    not there, InvalidArgument for a dimension that cannot be shared, and OSError (such as
    FileNotFoundError) for what the system refuses.

    >>> import millstream.safetensors, numpy, os, safetensors.numpy, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> weights = {"up": numpy.arange(8).reshape(4, 2), "down": numpy.arange(8).reshape(2, 4)}
    >>> safetensors.numpy.save_file(weights, path)
    >>> load_file(path, shards={"up": (0, 1, 2), "down": (1, 1, 2)})["down"]
    array([[2, 3],
           [6, 7]])
    """
    chosen = _framework(framework, device)
    with _tensors.Session(storage) as session:
        files = open_files(session.storage, session.queue, [path], checksums)
        jobs = _tensors.wanted(files, names, shards)
        where = _tensors.target(session.storage, chosen, device)
        reader = _tensors.Reader(session, where, jobs, None)
        flat = [job for each in jobs for job in each]
        found = dict(reader.tensors(flat, ordered=False))
    return {job.tensor.name: found[job.tensor.name] for job in flat}


def iter_tensors(
    paths: Path | Iterable[Path],
    names: Iterable[str] | None = None,
    device: Any = None,
    *,
    framework: str | None = None,
    shards: Shards | None = None,
    checksums: Path | None = None,
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
    _check_window(window)
    one = isinstance(paths, (str, bytes, os.PathLike))
    listed: list[Path] = [paths] if one else list(paths)  # type: ignore[list-item, arg-type]

    def iterate() -> Iterator[tuple[str, Any]]:
        with _tensors.Session(storage, retained=window) as session:
            files = open_files(session.storage, session.queue, listed, checksums)
            jobs = _tensors.wanted(files, names, shards)
            where = _tensors.target(session.storage, chosen, device)
            reader = _tensors.Reader(session, where, jobs, window)
            yield from reader.tensors([job for each in jobs for job in each], ordered=False)

    return iterate()


def _check_window(window: int) -> None:
    if window < 1:
        raise invalid("the window must have a byte at least")


def metadata(path: Path, *, storage: Storage | None = None) -> dict[str, str]:
    """The metadata of a file's header; of a sharded model, that of all shards."""
    with _tensors.Session(storage) as session:
        files: list[TensorFile] = open_files(session.storage, session.queue, [path])
    return {key: value for file in files for key, value in file.metadata.items()}


class _SharedMap(mmap.mmap):
    """The memory of a model that processes share. Tensors keep it."""


def load_shared(
    path: Path, group: str, *, framework: str | None = None, storage: Storage | None = None
) -> dict[str, Any]:
    """Loads a model once for all processes of this user and machine that load it as `group`, a
    name of theirs: each byte is read by the process that comes to it first, and they share one
    copy. Returns when all bytes are there, with arrays of numpy, or tensors of torch for the
    processor. What a process writes to them is its own.

    If a process dies, others read what it had begun. The memory, a file in ``/dev/shm``, goes with
    the last process that has tensors of it; after processes that were all killed it stays until the
    group is loaded again.

    Raises InvalidArgument while other processes use the group for other files, and OSError
    (ENOSPC) if ``/dev/shm`` has no room. Linux only.

    >>> import millstream.safetensors, numpy, os, safetensors.numpy, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> safetensors.numpy.save_file({"a": numpy.ones(3)}, path)
    >>> load_shared(path, f"example-{os.getpid()}")
    {'a': array([1., 1., 1.])}
    """
    chosen = default_storage() if storage is None else storage
    host = _tensors.Host(chosen, _framework(framework, None))
    model = _SharedModel(path, group, chosen)
    try:
        # Private: pages that are not written are those of the file.
        memory = _SharedMap(model.fileno(), 0, access=mmap.ACCESS_COPY)
    except BaseException:
        model.leave()
        raise
    # At the end of the process, too.
    weakref.finalize(memory, model.leave)
    return {
        name: host.made((kind, tuple(shape), length), memory, start)
        for name, kind, shape, start, length in model.tensors
    }


def write_checksums(path: Path, out: Path, *, storage: Storage | None = None) -> None:
    """Writes the checksums of a model's files to `out`, as ``millstream weights hash`` does: the
    XXH3-64 of each MiB and the BLAKE3 of each file. The file appears once it is complete.

    >>> import millstream.safetensors, numpy, os, safetensors.numpy, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> safetensors.numpy.save_file({"a": numpy.ones(3)}, path)
    >>> write_checksums(path, path + ".checksums")
    >>> load_file(path, checksums=path + ".checksums")
    {'a': array([1., 1., 1.])}
    """
    _write_checksums(path, out, storage)


# What is read: the name of a tensor, and the region of it, if it is a part.
_Key = tuple[str, _plan.Region | None, tuple[int, ...]]


class safe_open:  # noqa: N801
    """An open model, whose tensors are read when they are asked for: ``safetensors.safe_open``.

    The frameworks are "pt" (or "torch") and "np" (or "numpy"); `device` is one of torch. A folder
    or an index stands for all shards of a model. May be used by several threads.

    Beyond the reference, `prefetch` reads ahead what will be asked for, `tensor_stream` yields
    tensors in file order while others are read, and with `checksums` (see `load_file`) all bytes
    that are read are compared with their checksums. Where the reference raises SafetensorError, the
    exceptions are those of this package: KeyError for a tensor that is not there, IndexError for an
    index out of range, Corrupt, InvalidArgument and Closed. `backend`, by which the reference chooses
    how it reads, is accepted and has no effect.

    >>> import millstream.safetensors, numpy, os, safetensors.numpy, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> safetensors.numpy.save_file({"w": numpy.arange(6).reshape(3, 2)}, path)
    >>> with millstream.safetensors.safe_open(path, framework="np") as model:
    ...     model.keys(), model.get_slice("w").get_shape(), model.get_slice("w")[1:, 0]
    (['w'], [3, 2], array([2, 4]))
    """

    def __init__(
        self,
        filename: Path,
        framework: str,
        device: Any = "cpu",
        *,
        backend: str | None = None,
        checksums: Path | None = None,
        storage: Storage | None = None,
    ) -> None:
        chosen = _framework(framework, None)
        if chosen == "numpy" and device not in (None, "cpu"):
            raise invalid(f"arrays of numpy have no device {device!r}")
        self._session = _tensors.Session(storage)
        self._target = _tensors.target(self._session.storage, chosen, device)
        session = self._session
        self._files = open_files(session.storage, session.queue, [filename], checksums)
        jobs = _tensors.wanted(self._files, None, None)
        self._tensors = {job.tensor.name: job for each in jobs for job in each}
        self._lock = threading.Lock()
        self._ahead: _tensors.Reader | None = None
        self._planned: dict[_Key, _plan.Job] = {}
        self._closed = False

    def __enter__(self) -> "safe_open":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._closed = True
            self._drop_prefetch()
            for file in self._files:
                file.file.close()

    def _drop_prefetch(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
        self._ahead, self._planned = None, {}

    def _tensor(self, name: str) -> _plan.Job:
        if self._closed:
            raise Closed("the model was closed", "closed")
        if not isinstance(name, str):
            raise TypeError(f"the name of a tensor is a str, not {name!r}")
        return self._tensors[name]

    def keys(self) -> list[str]:
        """The names of the tensors, sorted."""
        return sorted(self.offset_keys())

    def offset_keys(self) -> list[str]:
        """The names of the tensors in file order."""
        if self._closed:
            raise Closed("the model was closed", "closed")
        return list(self._tensors)

    def metadata(self) -> dict[str, str] | None:
        """The metadata of the header; None if it has none."""
        found = {key: value for file in self._files for key, value in file.metadata.items()}
        return found or None

    def get_tensor(self, name: str) -> Any:
        """Reads a tensor, and waits for it."""
        job = self._tensor(name)
        return self._read(_plan.whole(job.file, job.tensor))

    def get_tensors(self) -> dict[str, Any]:
        """Reads all tensors."""
        return dict(self.tensor_stream(window=None))

    def get_slice(self, name: str) -> "TensorSlice":
        """A tensor to be indexed: reads nothing before."""
        job = self._tensor(name)
        return TensorSlice(self, job.file, job.tensor)

    def prefetch(
        self, plan: Iterable[str | tuple[str, Any]] | None = None, *, window: int = WINDOW_BYTES
    ) -> None:
        """Begins to read what will be asked for, in this order: names, or pairs of a name and an
        index for its `get_slice`; all tensors in file order by default. Returns at once.

        At most `window` bytes are read and not yet asked for, or one tensor; more are read as they
        are taken. What is asked for out of turn and was not begun is read at once, and each part is
        kept for one call. A second call replaces the plan of the first.
        """
        _check_window(window)
        planned: dict[_Key, _plan.Job] = {}
        for one in self.offset_keys() if plan is None else plan:
            name, index = (one, ...) if isinstance(one, str) else one
            found = self._tensor(name)
            job = _part(found.file, found.tensor, index)
            planned.setdefault(_key(job), job)
        with self._lock:
            self._drop_prefetch()
            jobs = [list(planned.values())]
            ahead = _tensors.Reader(self._session, self._target, jobs, window)
            ahead.submit()
            self._ahead, self._planned = ahead, planned

    def _read(self, job: _plan.Job) -> Any:
        with self._lock:
            planned = self._planned.pop(_key(job), None)
            if planned is not None and self._ahead is not None:
                try:
                    if planned.started or planned.made is not None:
                        return self._ahead.take(planned)
                    planned.dropped = True
                except BaseException as error:
                    self._drop_prefetch()
                    # It may be about another tensor: this one is read by itself.
                    if not isinstance(error, MillstreamError):
                        raise
        reader = _tensors.Reader(self._session, self._target, [[job]], None)
        ((_name, made),) = reader.tensors([job], ordered=False)
        return made

    def tensor_stream(
        self, names: Iterable[str] | None = None, *, window: int | None = WINDOW_BYTES
    ) -> Iterator[tuple[str, Any]]:
        """Yields names and tensors, all or those of `names`, in file order, and reads at most
        `window` bytes ahead, or one tensor, if it is larger."""
        if window is not None:
            _check_window(window)
        chosen = set(self.offset_keys() if names is None else names)
        for name in sorted(chosen):
            self._tensor(name)
        found = [self._tensors[name] for name in self.offset_keys() if name in chosen]
        jobs = [_plan.whole(job.file, job.tensor) for job in found]
        reader = _tensors.Reader(self._session, self._target, [jobs], window)
        return reader.tensors(jobs, ordered=True)


class TensorSlice:
    """A tensor of an open model, of which an index reads a part.

    Indexes are integers, slices with a positive step and without negative bounds, and one ellipsis,
    as in the reference implementation. Only the needed bytes are read, and what lies between them
    if that is at most 64 KiB.
    """

    def __init__(self, model: safe_open, file: TensorFile, tensor: Tensor) -> None:
        self._model, self._file, self._tensor = model, file, tensor

    def get_shape(self) -> list[int]:
        """The shape of the tensor."""
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        """The type of the elements, as the file names it, such as "BF16"."""
        return self._tensor.type

    def __getitem__(self, index: Any) -> Any:
        self._model._tensor(self._tensor.name)
        return self._model._read(_part(self._file, self._tensor, index))


def _part(file: TensorFile, tensor: Tensor, index: Any) -> _plan.Job:
    return _plan.part(file, tensor, *_plan.index_region(tensor.shape, index))


def _key(job: _plan.Job) -> _Key:
    return job.tensor.name, job.region, job.shape
