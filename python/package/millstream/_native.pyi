"""The native module. What is documented here is offered by `millstream`."""

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, Self, TypeVar, final, overload

from typing_extensions import Buffer as _Exporter

# Before Python 3.12 numpy does not say in its types that arrays export their memory.
class _Array(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

BufferProtocol = _Exporter | _Array

_T = TypeVar("_T")
_R = TypeVar("_R", covariant=True)
_B = TypeVar("_B", bound=BufferProtocol)
_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
_Name = str | bytes
_Item = BufferProtocol | os.PathLike[str] | str
_Priority = Literal["low", "normal", "high", "realtime"]
_Access = Literal["auto", "direct", "buffered"]
_Codec = Literal["stored", "zlib", "gzip", "deflate", "zstd", "lz4", "lz4-block", "gdeflate"]
_Request = tuple["_Path | File", int, int | None]
_RequestInto = tuple["_Path | File", int, int | None, BufferProtocol | None]

__version__: str

@final
class Buffer:
    @property
    def nbytes(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def readonly(self) -> bool: ...
    @property
    def released(self) -> bool: ...
    def release(self) -> None: ...
    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

@final
class Ticket(Generic[_R]):
    def wait(self, timeout: float | None = None) -> _R: ...
    def done(self) -> bool: ...
    def waits_for(self) -> str | None: ...
    def cancel(self) -> None: ...
    def reprioritize(self, priority: _Priority, deadline: float | None = None) -> None: ...
    def _notify(self, completions: Completions, token: int) -> bool: ...
    def _forget(self, completions: Completions, token: int) -> None: ...
    def __await__(self) -> Generator[Any, None, _R]: ...
    @classmethod
    def __class_getitem__(cls, result: object) -> Any: ...

@final
class Group:
    def __new__(cls) -> Self: ...
    @property
    def remaining(self) -> int: ...
    @property
    def succeeded(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def canceled(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    def done(self) -> bool: ...
    def wait(self, timeout: float | None = None) -> None: ...
    def _notify(self, completions: Completions, token: int) -> bool: ...
    def _forget(self, completions: Completions, token: int) -> None: ...
    def __await__(self) -> Generator[Any, None, None]: ...

@final
class Completions:
    def __new__(cls) -> Self: ...
    def fileno(self) -> int: ...
    def take(self) -> list[int]: ...

@final
class Checksums:
    def __new__(cls, path: _Path) -> Self: ...
    def file(self, path: _Path, length: int) -> FileChecksums: ...

@final
class FileChecksums: ...

@final
class Storage:
    def __new__(
        cls,
        *,
        backend: Literal["auto", "uring", "threads"] = "auto",
        access: _Access = "auto",
        depth: int | None = None,
        block_bytes: int | None = None,
        staging_bytes: int | None = None,
        retained_bytes: int | None = None,
        descriptors: int | None = None,
        workers: int | None = None,
        disk_model: str | None = None,
    ) -> Self: ...
    def queue(
        self,
        *,
        priority: _Priority = "normal",
        capacity: int | None = None,
        bandwidth: int | None = None,
        name: str = "",
    ) -> Queue: ...
    def open(
        self,
        path: _Path,
        *,
        write: bool = False,
        create: bool = False,
        exclusive: bool = False,
        truncate: bool = False,
        access: _Access | None = None,
    ) -> File: ...
    def load(self, path: _Path) -> Buffer: ...
    def buffer(self, length: int) -> Buffer: ...
    @property
    def device(self) -> str: ...
    @property
    def device_reason(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def stats(self) -> dict[str, int]: ...
    def start_trace(self) -> None: ...
    def take_trace(self) -> bytes: ...
    def close(self, timeout: float = 5.0) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

@final
class File:
    @property
    def path(self) -> str: ...
    def size(self) -> int: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

class _Requests:
    @overload
    def read(
        self,
        file: _Path | File,
        offset: int = 0,
        length: int | None = None,
        *,
        into: None = None,
        at_most: bool = False,
        codec: _Codec | None = None,
        raw_length: int | None = None,
        priority: _Priority | None = None,
        deadline: float | None = None,
        timeout: float | None = None,
        tag: int = 0,
        group: Group | None = None,
    ) -> Ticket[Buffer]: ...
    @overload
    def read(
        self,
        file: _Path | File,
        offset: int = 0,
        length: int | None = None,
        *,
        into: _B,
        at_most: bool = False,
        codec: _Codec | None = None,
        raw_length: int | None = None,
        priority: _Priority | None = None,
        deadline: float | None = None,
        timeout: float | None = None,
        tag: int = 0,
        group: Group | None = None,
    ) -> Ticket[_B]: ...
    def write(
        self,
        file: _Path | File,
        data: BufferProtocol,
        offset: int = 0,
        *,
        priority: _Priority | None = None,
        deadline: float | None = None,
        timeout: float | None = None,
        tag: int = 0,
        group: Group | None = None,
    ) -> Ticket[int]: ...

@final
class Queue(_Requests):
    def read_many(
        self,
        requests: Iterable[_Request | _RequestInto],
        *,
        priority: _Priority | None = None,
        tag: int = 0,
        group: Group | None = None,
    ) -> list[Ticket[Any]]: ...
    def append(
        self,
        file: _Path | File,
        data: BufferProtocol,
        *,
        priority: _Priority | None = None,
        tag: int = 0,
        group: Group | None = None,
    ) -> Ticket[int]: ...
    def sync(self, file: File) -> Ticket[None]: ...
    def replace(
        self,
        path: _Path,
        data: BufferProtocol,
        *,
        priority: _Priority | None = None,
        tag: int = 0,
        group: Group | None = None,
    ) -> Ticket[None]: ...
    def batch(self) -> Batch: ...
    def cancel_tagged(self, mask: int, value: int) -> None: ...
    def cancel_group(self, group: Group) -> None: ...
    @property
    def live(self) -> int: ...
    def drain(self, timeout: float | None = None) -> None: ...

@final
class Batch(_Requests):
    def _read_checked(
        self,
        file: File,
        range: tuple[int, int],
        checksums: FileChecksums,
        into: BufferProtocol | None,
    ) -> Ticket[Any]: ...
    def submit(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

@final
class Entry:
    @property
    def name(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def blocks(self) -> int: ...

@final
class Verification:
    @property
    def entries(self) -> int: ...
    @property
    def raw_bytes(self) -> int: ...
    @property
    def blocks(self) -> int: ...
    @property
    def signed(self) -> bool: ...
    @property
    def failures(self) -> int: ...
    @property
    def errors(self) -> list[str]: ...

@final
class Packed:
    @property
    def entries(self) -> int: ...
    @property
    def duplicates(self) -> int: ...
    @property
    def blocks(self) -> int: ...
    @property
    def raw_bytes(self) -> int: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def root(self) -> bytes: ...

@final
class PackPlan:
    def __new__(
        cls,
        source: _Path | Mapping[str, _Item] | Iterable[tuple[_Name, _Item]],
        *,
        codec: Literal["auto"] | _Codec = "auto",
        level: int | None = None,
        block_bytes: int | None = None,
        share_below: int | None = None,
        order: Sequence[_Name] | None = None,
        fold_case: bool = False,
    ) -> Self: ...
    @property
    def blocks(self) -> int: ...
    def raw_bytes(self, first: int, end: int) -> int: ...
    def ranges(self, raw_bytes: int) -> list[tuple[int, int]]: ...
    def task(self, first: int, end: int) -> bytes: ...
    def write(self, encoded: Iterable[bytes], out: _Path) -> Packed: ...

@final
class ExpertCache:
    def __new__(
        cls,
        files: Sequence[_Path],
        experts: Sequence[Sequence[tuple[int, int, int]]],
        slots: int,
        storage: Storage | None = None,
    ) -> Self: ...
    def __len__(self) -> int: ...
    def want(self, keys: Sequence[int], *, deadline: float | None = None) -> None: ...
    def guess(self, keys: Sequence[int]) -> None: ...
    def withdraw(self, keys: Sequence[int]) -> None: ...
    def release(self, keys: Sequence[int]) -> None: ...
    def get(self, key: int) -> tuple[Buffer, ...] | None: ...
    def wait(self, key: int, timeout: float | None = None) -> tuple[Buffer, ...]: ...
    def stats(self) -> dict[str, float]: ...

@final
class Archive:
    def __len__(self) -> int: ...
    def __contains__(self, name: _Name, /) -> bool: ...
    @property
    def path(self) -> str: ...
    def names(self, pattern: str | None = None) -> list[str]: ...
    def lookup(self, name: _Name) -> Entry | None: ...
    @overload
    def submit(
        self,
        entry: _Name | int,
        offset: int = 0,
        length: int | None = None,
        *,
        into: None = None,
        priority: _Priority | None = None,
        deadline: float | None = None,
        timeout: float | None = None,
        tag: int = 0,
        group: Group | None = None,
    ) -> Ticket[Buffer]: ...
    @overload
    def submit(
        self,
        entry: _Name | int,
        offset: int = 0,
        length: int | None = None,
        *,
        into: _B,
        priority: _Priority | None = None,
        deadline: float | None = None,
        timeout: float | None = None,
        tag: int = 0,
        group: Group | None = None,
    ) -> Ticket[_B]: ...
    @overload
    def read(
        self,
        entry: _Name | int,
        offset: int = 0,
        length: int | None = None,
        *,
        into: None = None,
    ) -> Buffer: ...
    @overload
    def read(
        self, entry: _Name | int, offset: int = 0, length: int | None = None, *, into: _B
    ) -> _B: ...

@final
class Package:
    def __new__(
        cls, path: _Path, storage: Storage | None = None, *, verify: bool = True
    ) -> Self: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: _Name, /) -> bool: ...
    @property
    def path(self) -> str: ...
    @property
    def root(self) -> bytes: ...
    def names(self, pattern: str | None = None) -> list[str]: ...
    def lookup(self, name: _Name) -> Entry | None: ...
    @overload
    def submit(
        self,
        entry: _Name | int,
        offset: int = 0,
        length: int | None = None,
        *,
        into: None = None,
        priority: _Priority | None = None,
        deadline: float | None = None,
        timeout: float | None = None,
        tag: int = 0,
        group: Group | None = None,
    ) -> Ticket[Buffer]: ...
    @overload
    def submit(
        self,
        entry: _Name | int,
        offset: int = 0,
        length: int | None = None,
        *,
        into: _B,
        priority: _Priority | None = None,
        deadline: float | None = None,
        timeout: float | None = None,
        tag: int = 0,
        group: Group | None = None,
    ) -> Ticket[_B]: ...
    @overload
    def read(
        self,
        entry: _Name | int,
        offset: int = 0,
        length: int | None = None,
        *,
        into: None = None,
    ) -> Buffer: ...
    @overload
    def read(
        self, entry: _Name | int, offset: int = 0, length: int | None = None, *, into: _B
    ) -> _B: ...
    def read_many(
        self,
        entries: Iterable[_Name | int],
        *,
        priority: _Priority | None = None,
        timeout: float | None = None,
    ) -> list[Buffer]: ...
    def verify(self, progress: Callable[[int], object] | None = None) -> Verification: ...

def pack(
    source: _Path | Mapping[str, _Item] | Iterable[tuple[_Name, _Item]],
    out: _Path,
    *,
    codec: Literal["auto"] | _Codec = "auto",
    level: int | None = None,
    block_bytes: int | None = None,
    share_below: int | None = None,
    threads: int = 0,
    order: Sequence[_Name] | None = None,
    fold_case: bool = False,
    progress: Callable[[int], object] | None = None,
) -> Packed: ...
def encode_task(task: bytes) -> bytes: ...
def open_archive(
    path: _Path, storage: Storage | None = None, *, verify: bool = True
) -> Archive: ...
def wait_all(tickets: Iterable[Ticket[_T]], timeout: float | None = None) -> list[_T]: ...
def parse_safetensors(
    head: bytes, file_bytes: int, path: str
) -> tuple[int, dict[str, str], list[tuple[str, str, list[int], int, int]]]: ...
@final
class SharedModel:
    def __new__(cls, path: _Path, group: str, storage: Storage | None) -> Self: ...
    @property
    def read_bytes(self) -> int: ...
    @property
    def tensors(self) -> list[tuple[str, str, list[int], int, int]]: ...
    def fileno(self) -> int: ...
    def leave(self) -> None: ...

def write_checksums(path: _Path, out: _Path, storage: Storage | None) -> None: ...
def _after_fork() -> None: ...
def _close_all() -> None: ...
