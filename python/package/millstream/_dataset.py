"""Records of a package, for training."""

import os
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from ._default import default_storage
from ._errors import Changed, invalid
from ._native import Buffer, Package, Storage, Ticket

_T = TypeVar("_T")


class Dataset(Generic[_T]):
    """Random access to the entries of a package: ``len(dataset)``, ``dataset[i]``, and epochs in
    shuffled order that read ahead.

    `names` chooses entries and their order (a pattern or a list; all, in the order of their names,
    by default); `decode` turns a Buffer into a sample. It has the methods that torch's DataLoader
    asks of a dataset, and reads each of its batches by one call; torch is not needed.

    Short records that are read at random are best packed with ``share_below=0``: each is then one
    read of its own.

    Threads share the storage: the one given, or the process's default one. After a fork, and after
    unpickling, a worker opens the package in its own default storage.

    >>> import millstream, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "records.mpak")
    >>> _ = millstream.pack({f"{nth:02}": b"%d" % nth for nth in range(10)}, path)
    >>> dataset = millstream.Dataset(path, decode=lambda buffer: int(bytes(buffer)))
    >>> len(dataset), dataset[3], dataset[-1]
    (10, 3, 9)
    >>> list(dataset.epoch(shuffle=False))
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    >>> sorted(dataset.epoch(seed=1)) == list(range(10))
    True
    """

    @overload
    def __init__(
        self: "Dataset[Buffer]",
        path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        names: str | Iterable[str] | None = None,
        *,
        decode: None = None,
        storage: Storage | None = None,
        verify: bool = True,
    ) -> None: ...
    @overload
    def __init__(
        self,
        path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        names: str | Iterable[str] | None = None,
        *,
        decode: Callable[[Buffer], _T],
        storage: Storage | None = None,
        verify: bool = True,
    ) -> None: ...
    def __init__(
        self,
        path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        names: str | Iterable[str] | None = None,
        *,
        decode: Callable[[Buffer], _T] | None = None,
        storage: Storage | None = None,
        verify: bool = True,
    ) -> None:
        self.path = os.fsdecode(path)
        self._decode = decode
        self._verify = verify
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._package: Package | None = Package(self.path, storage, verify=verify)
        self.root = self._package.root
        if names is None or isinstance(names, str):
            chosen = self._package.names(names)
        else:
            chosen = list(names)
        # Numbers of entries: they hold for every process that opens the same package.
        self._entries = [self._entry(self._package, name) for name in chosen]

    @staticmethod
    def _entry(package: Package, name: str) -> int:
        found = package.lookup(name)
        if found is None:
            raise KeyError(name)
        return found.index

    def _open(self) -> Package:
        """The package, in a storage of this process."""
        if self._process != os.getpid():
            # Another thread of the parent may have held the lock.
            self._lock, self._package, self._process = threading.Lock(), None, os.getpid()
        with self._lock:
            if self._package is None:
                package = Package(self.path, default_storage(), verify=self._verify)
                if package.root != self.root:
                    cause = f'"{self.path}": the package was replaced by another one'
                    raise Changed(cause, "changed", self.path)
                self._package = package
            return self._package

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None, "_package": None, "_process": 0}

    def _made(self, buffer: Buffer) -> _T:
        made: Any = buffer if self._decode is None else self._decode(buffer)
        return made  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: int) -> _T:
        return self._made(self._open().read(self._entries[index]))

    def __getitems__(self, indices: Sequence[int]) -> list[_T]:
        """Samples of several indices, read as one batch."""
        buffers = self._open().read_many([self._entries[index] for index in indices])
        return [self._made(buffer) for buffer in buffers]

    def __iter__(self) -> Iterator[_T]:
        return self.epoch(shuffle=False)

    def epoch(
        self,
        seed: int | None = None,
        *,
        shuffle: bool = True,
        prefetch: int = 64,
        part: tuple[int, int] = (0, 1),
    ) -> Iterator[_T]:
        """Yields all samples once, in an order that `seed` determines, with `prefetch` requests in
        flight. ``part=(rank, count)`` yields every `count`-th sample of that order from the
        `rank`-th on: workers with the same seed share an epoch."""
        rank, count = part
        if prefetch < 1 or not 0 <= rank < count:
            raise invalid("prefetch is at least 1, and the part one of those there are")
        order = list(self._entries)
        if shuffle:
            random.Random(seed).shuffle(order)
        return self._epoch(order[rank::count], prefetch)

    def _epoch(self, order: list[int], prefetch: int) -> Iterator[_T]:
        package = self._open()
        ahead: deque[Ticket[Buffer]] = deque()
        try:
            for entry in order:
                ahead.append(package.submit(entry))
                if len(ahead) >= prefetch:
                    yield self._made(ahead.popleft().wait())
            while ahead:
                yield self._made(ahead.popleft().wait())
        finally:
            for ticket in ahead:
                ticket.cancel()
