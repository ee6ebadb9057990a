"""Files of a model: what a path stands for, and the headers."""

import json
import os
from dataclasses import dataclass

from ._errors import Corrupt
from ._native import (
    Checksums,
    File,
    FileChecksums,
    Queue,
    Storage,
    parse_safetensors,
    wait_all,
)

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"

# Read in the hope that it holds the whole header, as it does for models of some thousand tensors.
_HEAD_BYTES = 1 << 20

# As long as a header may be.
_INDEX_BYTES_MAX = 100_000_000


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor and where its bytes are."""

    name: str
    type: str
    shape: tuple[int, ...]
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class TensorFile:
    """An open file and its tensors, in the order of their bytes."""

    path: str
    file: File
    tensors: list[Tensor]
    metadata: dict[str, str]
    # What bytes that are read are compared with.
    checksums: FileChecksums | None


def _corrupt(path: str, cause: str) -> Corrupt:
    return Corrupt(f'"{path}" (offset 0): {cause}', "corrupt", path, 0)


def _shards(storage: Storage, queue: Queue, index: str) -> dict[str, set[str]]:
    """Files of an index, each with the names of its tensors."""
    with storage.open(index) as file:
        length = file.size()
        if length > _INDEX_BYTES_MAX:
            raise _corrupt(index, f"an index of {length} bytes is longer than {_INDEX_BYTES_MAX}")
        text = bytes(queue.read(file, 0, length).wait())
    try:
        parsed = json.loads(text)
        named = parsed["weight_map"].items()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _corrupt(index, f"the index is invalid: {error!r}") from error
    folder = os.path.dirname(index)
    shards: dict[str, set[str]] = {}
    for name, file in named:
        # Nothing outside the folder: the index may come from anywhere.
        if not isinstance(file, str) or file in ("", ".", "..") or "/" in file or "\0" in file:
            raise _corrupt(index, f"{name!r} lies in {file!r}, which is no name of a file")
        shards.setdefault(os.path.join(folder, file), set()).add(name)
    return shards


def _expand(storage: Storage, queue: Queue, paths: list[Path]) -> dict[str, set[str] | None]:
    """All files that paths mean, with the names to be taken of each; None for all."""
    files: dict[str, set[str] | None] = {}
    for given in paths:
        path = os.fsdecode(given)
        if os.path.isdir(path):
            index = os.path.join(path, INDEX)
            path = index if os.path.exists(index) else os.path.join(path, SINGLE)
        if path.endswith(".json"):
            files.update(_shards(storage, queue, path))
        else:
            files[path] = None
    return files


def _heads(
    queue: Queue, files: list[tuple[File, int, FileChecksums | None]], length: int
) -> list[bytes]:
    """The first bytes of files: at most `length` of each."""
    with queue.batch() as batch:
        tickets = [
            batch.read(file, 0, min(size, length))
            if checksums is None
            else batch._read_checked(file, (0, min(size, length)), checksums, None)
            for file, size, checksums in files
        ]
    return [bytes(head) for head in wait_all(tickets)]


def open_files(
    storage: Storage, queue: Queue, paths: list[Path], checksums: Path | None = None
) -> list[TensorFile]:
    """Opens files and reads their headers, those of all files at once."""
    known = None if checksums is None else Checksums(checksums)
    wanted = _expand(storage, queue, paths)
    opened = [storage.open(path) for path in wanted]
    lengths = [file.size() for file in opened]
    checks = [
        None if known is None else known.file(path, length)
        for path, length in zip(wanted, lengths, strict=True)
    ]
    each = list(zip(opened, lengths, checks, strict=True))
    heads = _heads(queue, each, _HEAD_BYTES)
    files = []
    for (path, names), one, head in zip(wanted.items(), each, heads, strict=True):
        file, length, check = one
        needed, metadata, rows = parse_safetensors(head, length, path)
        if needed > len(head):
            (head,) = _heads(queue, [one], needed)
            needed, metadata, rows = parse_safetensors(head, length, path)
        tensors = [Tensor(name, kind, tuple(shape), *place) for name, kind, shape, *place in rows]
        if names is not None:
            missing = names.difference(tensor.name for tensor in tensors)
            if missing:
                raise _corrupt(path, f"the index says that it holds {min(missing)!r}")
            tensors = [tensor for tensor in tensors if tensor.name in names]
        files.append(TensorFile(path, file, tensors, metadata, check))
    return files
