"""Arrays in files: ``.npy``, ``.npz`` and raw bytes.

>>> import millstream.npy, numpy, os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "arrays.npz")
>>> numpy.savez(path, a=numpy.arange(3), b=numpy.eye(2))
>>> arrays = millstream.npy.load(path)
>>> sorted(arrays), arrays["a"]
(['a', 'b'], array([0, 1, 2]))

Arrays of Python objects are refused: they are pickles, which can run any code.
"""

import ast
import io
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._default import default_storage
from ._errors import Corrupt, MillstreamError, invalid
from ._native import Buffer, File, Queue, Storage, Ticket, wait_all

__all__ = ["fromfile", "load"]

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

# Holds the header of almost every array.
_HEAD_BYTES = 4096
# The longest header that is read; numpy's own limit is 10,000 by default.
_HEADER_BYTES_MAX = 1 << 20
# What this version of numpy makes.
_DIMENSIONS_MAX = 64 if int(np.__version__.split(".")[0]) >= 2 else 32
_LOCAL_HEADER_BYTES = 30
# Members of an archive that are requested before any is looked at: each takes a page at least.
_MEMBERS_AT_ONCE = 1000
# No deflate stream grows by more when it is decoded.
_DEFLATE_RATIO_MAX = 1032
# A unit of time with a divisor, as in "m8[s/2]".
_DIVISOR = re.compile(r"\[[^]]*/")


@dataclass(frozen=True, slots=True)
class _Header:
    shape: tuple[int, ...]
    fortran: bool
    type: np.dtype[Any]
    offset: int
    length: int


def _wrong(path: str, offset: int, cause: str) -> Corrupt:
    return Corrupt(f'"{path}" (offset {offset}): {cause}', "corrupt", path, offset)


def _parse(head: bytes, place: tuple[str, int]) -> _Header:
    """The header that `head` begins with; `place` is where it is, for errors."""
    stream = io.BytesIO(head)
    try:
        version = np.lib.format.read_magic(stream)
        if version == (3, 0):
            stream = _as_version_2(head)
        if version == (1, 0):
            read, length_bytes = np.lib.format.read_array_header_1_0, 2
        elif version in ((2, 0), (3, 0)):
            read, length_bytes = np.lib.format.read_array_header_2_0, 4
        else:
            raise ValueError(f"the version {version} is unknown")
        _refuse_divisors(stream.getvalue()[stream.tell() :], length_bytes)
        shape, fortran, kind = read(stream, max_header_size=_HEADER_BYTES_MAX)
    except Exception as error:
        raise _wrong(*place, f"no array of numpy: {error}") from error
    if kind.hasobject:
        raise _wrong(*place, "the array holds Python objects")
    if kind.itemsize == 0:
        raise _wrong(*place, "the elements of the array have no bytes")
    if kind.subdtype is not None:
        raise _wrong(*place, "the elements of the array are arrays")
    if len(shape) > _DIMENSIONS_MAX:
        raise _wrong(*place, "the array has too many dimensions")
    if any(one < 0 for one in shape):
        raise _wrong(*place, "a dimension is negative")
    length = math.prod(shape) * kind.itemsize
    if math.prod(max(one, 1) for one in shape) * kind.itemsize >= 1 << 63:
        raise _wrong(*place, "the dimensions are too large")
    return _Header(shape, fortran, kind, _header_bytes(head), length)


def _refuse_divisors(header: bytes, length_bytes: int) -> None:
    """Raises ValueError for a type whose unit of time has a divisor. numpy writes none, and divides
    by one that is zero, which ends the process."""
    length = int.from_bytes(header[:length_bytes], "little")
    text = header[length_bytes:][:length].decode("latin1")
    try:
        fields = ast.literal_eval(text)
        kind = fields.get("descr") if isinstance(fields, dict) else fields
        refused = any(_DIVISOR.search(one) for one in _types(kind, True))
    except SyntaxError:
        # numpy may try once more without the suffixes of integers of Python 2.
        refused = "/" in text or "\\" in text
    if refused:
        raise ValueError("a unit of time has a divisor")


def _types(value: Any, has_fields: bool) -> Iterator[str]:
    """All strings in a type that numpy may take for types, so not the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode("latin1")
    elif isinstance(value, dict):
        # Lists in it are of types, not of fields.
        for pair in value.items():
            yield from _types(pair, False)
    elif isinstance(value, (list, tuple, set)):
        for one in value:
            is_field = has_fields and isinstance(value, list) and isinstance(one, tuple)
            yield from _types(one[1:] if is_field else one, has_fields)


def _as_version_2(head: bytes) -> io.BytesIO:
    """The length and header of an array of version 3, which is in UTF-8, for which numpy has no
    public reader: in ASCII both versions are the same."""
    size = _header_bytes(head)
    if size > len(head):
        raise ValueError("the header is cut")
    text = head[12:size].decode("utf-8").encode("ascii", "backslashreplace")
    return io.BytesIO(struct.pack("<I", len(text)) + text)


def _header_bytes(head: bytes) -> int:
    """How long the header says that it is; 0 if it does not."""
    if len(head) < 12 or head[:6] != b"\x93NUMPY":
        return 0
    if head[6] == 1:
        return 10 + int(struct.unpack("<H", head[8:10])[0])
    return 12 + int(struct.unpack("<I", head[8:12])[0])


def _array(header: _Header, memory: Any, start: int) -> np.ndarray[Any, np.dtype[Any]]:
    if header.length == 0:
        # Writable, as the others are.
        memory, start = bytearray(), 0
    count = header.length // header.type.itemsize
    array: np.ndarray[Any, np.dtype[Any]] = np.frombuffer(memory, header.type, count, start)
    if not array.flags.aligned:
        array = array.copy()
    return array.reshape(header.shape, order="F" if header.fortran else "C")


def load(path: Path, *, storage: Storage | None = None) -> Any:
    """Loads an array from a ``.npy`` file, or a dict of all arrays from a ``.npz`` file.

    Stored members of a ``.npz`` file are read straight into their arrays, deflated ones decoded on
    worker threads; all are compared with their checksums. Raises Corrupt for what is damaged, no
    such file, or an array of Python objects.
    """
    storage = storage or default_storage()
    queue, name = storage.queue(name="npy"), os.fsdecode(path)
    with storage.open(name) as file:
        length = file.size()
        head = bytes(queue.read(file, 0, min(length, _HEAD_BYTES)).wait())
        if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
            return _load_zip(queue, file, name, length)
        needed = _header_bytes(head)
        if len(head) < needed <= min(length, _HEADER_BYTES_MAX):
            head = bytes(queue.read(file, 0, needed).wait())
        header = _parse(head, (name, 0))
        if header.length > length - header.offset:
            raise _wrong(name, length, f"the array has {header.length} bytes, the file ends here")
        return _array(header, queue.read(file, header.offset, header.length).wait(), 0)


class _Tail(io.RawIOBase):
    """A file to be read in pieces: how zipfile finds the directory."""

    def __init__(self, queue: Queue, file: File, length: int) -> None:
        self.queue, self.file, self.length, self.at = queue, file, length, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self.at, os.SEEK_END: self.length}[whence]
        if base + offset < 0:
            raise OSError("a place before the file")
        self.at = base + offset
        return self.at

    def readinto(self, into: Any) -> int:
        count = max(min(len(into), self.length - self.at), 0)
        if count:
            into[:count] = bytes(self.queue.read(self.file, self.at, count).wait())
        self.at += count
        return count


def _load_zip(queue: Queue, file: File, path: str, length: int) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(io.BufferedReader(_Tail(queue, file, length), 1 << 16)) as archive:
            members = [one for one in archive.infolist() if one.filename.endswith(".npy")]
    except MillstreamError:
        raise
    except Exception as error:
        raise _wrong(path, 0, f"no zip file: {error}") from error
    for one in members:
        if one.header_offset < 0 or one.header_offset + _LOCAL_HEADER_BYTES > length:
            raise _wrong(path, 0, f"{one.filename!r} lies outside the file")
    if sum(one.compress_size for one in members) > length:
        raise _wrong(path, 0, "members share their bytes, and could decode to any size")
    arrays: dict[str, Any] = {}
    for first in range(0, len(members), _MEMBERS_AT_ONCE):
        arrays |= _members(queue, file, path, members[first : first + _MEMBERS_AT_ONCE], length)
    return arrays


def _members(
    queue: Queue, file: File, path: str, members: list[zipfile.ZipInfo], length: int
) -> dict[str, Any]:
    # A member's bytes follow its own header, whose length only that header tells.
    heads = wait_all(
        queue.read_many((file, one.header_offset, _LOCAL_HEADER_BYTES) for one in members)
    )
    tickets: list[Ticket[Buffer]] = []
    for one, head in zip(members, heads, strict=True):
        tickets.append(_member(queue, file, path, one, bytes(head), length))
    arrays: dict[str, Any] = {}
    for one, ticket in zip(members, tickets, strict=True):
        memory = ticket.wait()
        if zlib.crc32(memory) != one.CRC:
            raise _wrong(path, one.header_offset, f"the checksum of {one.filename!r} differs")
        header = _parse(bytes(memoryview(memory)[:_HEADER_BYTES_MAX]), (path, one.header_offset))
        if header.offset + header.length > len(memory):
            raise _wrong(path, one.header_offset, f"{one.filename!r} ends too early")
        arrays[one.filename.removesuffix(".npy")] = _array(header, memory, header.offset)
    return arrays


def _member(
    queue: Queue, file: File, path: str, one: zipfile.ZipInfo, head: bytes, length: int
) -> Ticket[Buffer]:
    """Requests a member of a zip file, decoded."""
    at = one.header_offset
    if head[:4] != b"PK\x03\x04":
        raise _wrong(path, at, f"{one.filename!r} has no header")
    if one.flag_bits & 1:
        raise _wrong(path, at, f"{one.filename!r} is encrypted")
    name_bytes, extra_bytes = struct.unpack("<HH", head[26:30])
    start = at + _LOCAL_HEADER_BYTES + name_bytes + extra_bytes
    if start + one.compress_size > length:
        raise _wrong(path, at, f"{one.filename!r} reaches past the end of the file")
    if one.compress_type == zipfile.ZIP_STORED and one.compress_size == one.file_size:
        return queue.read(file, start, one.compress_size)
    if one.compress_type == zipfile.ZIP_DEFLATED:
        raw = one.file_size
        if raw > one.compress_size * _DEFLATE_RATIO_MAX:
            raise _wrong(path, at, f"{one.filename!r} cannot decode to {raw} bytes")
        return queue.read(file, start, one.compress_size, codec="deflate", raw_length=raw)
    raise _wrong(path, at, f"{one.filename!r} is compressed in a way that is not supported")


def fromfile(
    path: Path,
    dtype: Any = np.float64,
    count: int = -1,
    offset: int = 0,
    *,
    storage: Storage | None = None,
) -> np.ndarray[Any, np.dtype[Any]]:
    """Reads `count` elements (-1: all) of a raw file from byte `offset` on, as numpy.fromfile, but
    a file that holds fewer is an error.

    >>> import millstream.npy, tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(bytes([9, 1, 0, 2, 0]))
    ...     file.flush()
    ...     millstream.npy.fromfile(file.name, "<u2", offset=1)
    array([1, 2], dtype=uint16)
    """
    kind = np.dtype(dtype)
    if kind.hasobject or kind.itemsize == 0:
        raise invalid(f"elements of type {kind} cannot be read from a file")
    if offset < 0 or count < -1:
        raise invalid("offset and count must not be negative")
    storage = storage or default_storage()
    with storage.open(path) as file:
        if count < 0:
            count = max(file.size() - offset, 0) // kind.itemsize
        if count == 0:
            return np.empty(0, kind)
        memory: Any = storage.queue(name="npy").read(file, offset, count * kind.itemsize).wait()
    array = np.frombuffer(memory, kind, count)
    return array if array.flags.aligned else array.copy()
