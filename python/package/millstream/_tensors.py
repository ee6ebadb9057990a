"""Reading of tensors: how many requests at a time, and into which memory."""

import importlib
import select
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import chain, zip_longest
from types import TracebackType
from typing import Any

import numpy as np

from . import _plan
from ._default import default_storage
from ._errors import invalid
from ._files import Tensor, TensorFile
from ._native import Completions, Queue, Storage, Ticket
from ._plan import Job, Read
from ._ring import RING_BYTES, Device, Ring, gather
from ._types import numpy_type, torch_type

Shards = Mapping[str, tuple[int, int, int]]

# Reads in flight at a time, far below what a queue has room for.
_FLYING_MAX = 4096

# The longest that is loaded: a sparse file of any length takes no room.
_BYTES_MAX = 8 << 40


def wanted(
    files: list[TensorFile], names: Iterable[str] | None, shards: Shards | None
) -> list[list[Job]]:
    """For each file what is wanted of it, in file order.

    Raises KeyError for a name that no file has, and InvalidArgument for one that several have.
    """
    known: set[str] = set()
    for file in files:
        for tensor in file.tensors:
            if tensor.name in known:
                raise invalid(f"the tensor {tensor.name!r} is in several files")
            known.add(tensor.name)
    chosen = known if names is None else {names} if isinstance(names, str) else set(names)
    for name in sorted((chosen | set(shards or ())) - known):
        raise KeyError(name)

    def job(file: TensorFile, tensor: Tensor) -> Job:
        how = (shards or {}).get(tensor.name)
        return _plan.whole(file, tensor) if how is None else _plan.shard(file, tensor, how)

    jobs = [[job(file, one) for one in file.tensors if one.name in chosen] for file in files]
    if sum(one.length for each in jobs for one in each) > _BYTES_MAX:
        raise invalid(f"tensors of more than {_BYTES_MAX} bytes")
    return jobs


class Session:
    """A queue for reading tensors, of a given storage, the default one or, if the memory that it
    keeps for reuse is to be bounded, one of its own."""

    def __init__(self, storage: Storage | None, retained: int | None = None) -> None:
        self._own = storage is None and retained is not None
        if storage is None:
            storage = Storage(retained_bytes=retained) if self._own else default_storage()
        self.storage = storage
        self.queue: Queue = storage.queue(name="safetensors")

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._own:
            self.storage.close()


class Reader:
    """Reads jobs in their order. Jobs that were started and not given back have at most `window`
    bytes together, or are one job; what is copied goes through at most `RING_BYTES` more. Used by
    one thread at a time."""

    def __init__(
        self,
        session: Session,
        target: "Host | Device",
        jobs: list[list[Job]],
        window: int | None,
    ) -> None:
        self._session, self._target, self._window = session, target, window
        self._ring = None if isinstance(target, Host) else Ring(target, window or RING_BYTES)
        for job in chain.from_iterable(jobs):
            if job.length == 0:
                job.made = target.tensor(job, b"", 0)
        by_file = [_plan.reads(each, self._ring is not None) for each in jobs]
        # Files in turns, so that all are read at once.
        turns = chain.from_iterable(zip_longest(*by_file))
        self._reads = (read for read in turns if read is not None)
        self._next = next(self._reads, None)
        self._flying: dict[int, tuple[Read, Ticket[Any], Any]] = {}
        self._arrived: deque[int] = deque()
        self._completions: Completions | None = None
        self._poller = select.poll()
        self._token, self._ahead, self._copied_bytes = 0, 0, 0
        self._failed: BaseException | None = None

    def close(self) -> None:
        """Cancels what is in flight."""
        for _read, ticket, _memory in self._flying.values():
            ticket.cancel()
        self._flying.clear()
        self._next = None

    def give_back(self, job: Job) -> None:
        """Lets go of a job whose tensor the caller has."""
        self._ahead -= job.length
        job.made = None

    def submit(self, at_least_one: bool = False) -> None:
        """Submits the reads that fit into memory. Waits for nothing but copies of the device, and
        only if nothing is in flight. After an error the reader reads nothing more."""
        first = self._token
        try:
            self._submit(at_least_one)
        except BaseException as error:
            self.close()
            self._failed = error
            raise
        self._watch(first)

    def _submit(self, at_least_one: bool) -> None:
        with self._session.queue.batch() as batch:
            while (read := self._next) is not None:
                read.pieces = [piece for piece in read.pieces if not piece.job.dropped]
                if not read.pieces:
                    self._next = next(self._reads, None)
                    continue
                if not self._fits(read, at_least_one):
                    break
                memory = None
                if self._ring is not None:
                    memory = self._ring.take(not self._flying)
                    if memory is None:
                        break
                for job in {id(piece.job): piece.job for piece in read.pieces}.values():
                    self._ahead += 0 if job.started else job.length
                    job.started = True
                    if read.how != "keep" and job.memory is None:
                        job.memory = self._target.allocate(job)
                into = None if memory is None else memory[1][: read.length]
                if read.how == "into":
                    at = read.pieces[0].at
                    into = read.pieces[0].job.memory[at : at + read.length]
                elif read.how == "copy":
                    self._copied_bytes += read.length
                file, checks = read.file.file, read.file.checksums
                ticket = (
                    batch.read(file, read.offset, read.length, into=into)
                    if checks is None
                    else batch._read_checked(file, (read.offset, read.length), checks, into)
                )
                self._flying[self._token] = (read, ticket, memory)
                del into, memory
                self._token += 1
                self._next = next(self._reads, None)

    def _fits(self, read: Read, at_least_one: bool) -> bool:
        if not self._flying and (at_least_one or not self._ahead):
            return True
        copied = self._copied_bytes + read.length if read.how == "copy" else 0
        if len(self._flying) >= _FLYING_MAX or (self._flying and copied > RING_BYTES):
            return False
        jobs = {id(piece.job): piece.job for piece in read.pieces}.values()
        # The rest of a job that was started is always read: it would never complete.
        if self._window is None or any(job.started for job in jobs):
            return True
        return self._ahead + sum(job.length for job in jobs) <= self._window

    def _watch(self, first: int) -> None:
        """Has the reads from a token on reported. A lone one is waited for without that."""
        if self._completions is None:
            if len(self._flying) < 2:
                return
            self._completions = Completions()
            self._poller.register(self._completions.fileno(), select.POLLIN)
            first = min(self._flying)
        for token in range(first, self._token):
            flying = self._flying.get(token)
            if flying is not None and flying[1]._notify(self._completions, token):
                self._arrived.append(token)

    def _wait(self) -> int:
        """Waits for a read, and returns its token."""
        if self._completions is None:
            (token,) = self._flying
            return token
        while True:
            while self._arrived:
                token = self._arrived.popleft()
                ticket = self._flying[token][1]
                if ticket.done() or ticket._notify(self._completions, token):
                    return token
            self._poller.poll()
            self._arrived.extend(self._completions.take())

    def arrive(self) -> list[Job]:
        """Waits for a read, and returns the jobs that it completed, in their order. Some job must
        be incomplete."""
        if self._failed is not None:
            raise self._failed
        if not self._flying:
            self.submit(at_least_one=True)
        read, ticket, memory = self._flying.pop(self._wait())
        if read.how == "copy":
            self._copied_bytes -= read.length
        result: Any = ticket.wait()
        if read.how == "keep" or memory is None:
            memory = result
        del ticket, result
        made = []
        for piece in read.pieces:
            job, start = piece.job, piece.offset - read.offset
            if self._ring is not None:
                self._ring.copy(piece, memory, start)
            elif read.how == "copy":
                source = np.frombuffer(memory, np.uint8)
                gather(piece, source, start, job.memory[piece.at :])
            job.left -= 1
            if job.left == 0:
                kept = (memory, start) if read.how == "keep" else (job.memory, 0)
                job.made, job.memory = self._target.tensor(job, *kept), None
                made.append(job)
        if self._ring is not None:
            self._ring.give_back(memory)
        return made

    def take(self, job: Job) -> Any:
        """Waits for one of the reader's jobs that were started, and returns its tensor."""
        while job.made is None:
            self.arrive()
        made = self._target.deliver(job.made)
        self.give_back(job)
        # An error is about other tensors: whoever asks for one of these gets it.
        with suppress(Exception):
            self.submit()
        return made

    def tensors(self, jobs: list[Job], ordered: bool) -> Iterator[tuple[str, Any]]:
        """Yields the tensors of the reader's jobs as they arrive, or in the order of the jobs."""
        try:
            if ordered:
                for job in jobs:
                    while job.made is None:
                        self.submit()
                        self.arrive()
                    yield job.tensor.name, self._target.deliver(job.made)
                    self.give_back(job)
                return
            left = len(jobs)
            made = [job for job in jobs if job.made is not None]
            while left:
                left -= len(made)
                while made:
                    job = made.pop()
                    yield job.tensor.name, self._target.deliver(job.made)
                    self.give_back(job)
                if left:
                    self.submit()
                    made = self.arrive()
        finally:
            self.close()


def target(storage: Storage, framework: str, device: Any) -> "Host | Device":
    """Where tensors of a framework live."""
    if framework == "numpy" or device is None:
        return Host(storage, framework)
    torch = importlib.import_module("torch")
    chosen = torch.device(device)
    return Host(storage, framework) if chosen.type == "cpu" else TorchDevice(torch, chosen)


class Host:
    """Memory of this process: arrays of numpy, or tensors of torch."""

    def __init__(self, storage: Storage, framework: str) -> None:
        self._storage = storage
        self._torch: Any = importlib.import_module("torch") if framework == "torch" else None

    def allocate(self, job: Job) -> Any:
        memory: Any = self._storage.buffer(job.length)
        return np.frombuffer(memory, np.uint8)

    def tensor(self, job: Job, memory: Any, start: int) -> Any:
        return self.made((job.tensor.type, job.shape, job.length), memory, start)

    def deliver(self, made: Any) -> Any:
        return made

    def made(self, about: tuple[str, tuple[int, ...], int], memory: Any, start: int) -> Any:
        """A tensor of a type, shape and length in bytes that is in memory."""
        word, shape, length = about
        if self._torch is None:
            return self._array(about, memory, start)
        kind = torch_type(word)
        if length == 0:
            return self._torch.empty(shape, dtype=kind or self._torch.uint8)
        uint8 = self._torch.uint8
        raw = self._torch.frombuffer(memory, dtype=uint8, count=length, offset=start)
        if kind is None:
            return raw
        if raw.data_ptr() % kind.itemsize:
            raw = raw.clone()
        return raw.view(kind).reshape(shape)

    def _array(self, about: tuple[str, tuple[int, ...], int], memory: Any, start: int) -> Any:
        word, shape, length = about
        kind = numpy_type(word)
        if kind is None:
            return np.frombuffer(memory, np.uint8, length, start)
        if length == 0:
            return np.empty(shape, kind)
        array = np.frombuffer(memory, kind, length // kind.itemsize, start)
        if not array.flags.aligned:
            array = array.copy()
        return array.reshape(shape)


class TorchDevice:
    """Memory of a device of torch. For CUDA slots are pinned, and copies go on while others are
    read: on a stream of their own, as callers may use another stream in each call."""

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch, self._device = torch, device
        is_cuda = device.type == "cuda" and torch.cuda.is_available()
        self._stream = torch.cuda.Stream(device) if is_cuda else None

    def _on_stream(self) -> AbstractContextManager[Any]:
        if self._stream is None:
            return nullcontext()
        on: AbstractContextManager[Any] = self._torch.cuda.stream(self._stream)
        return on

    def slot(self, length: int) -> tuple[Any, Any]:
        pinned = self._stream is not None
        memory = self._torch.empty(length, dtype=self._torch.uint8, pin_memory=pinned)
        return memory, memory.numpy()

    def allocate(self, job: Job) -> Any:
        with self._on_stream():
            return self._torch.empty(job.length, dtype=self._torch.uint8, device=self._device)

    def copy(self, into: Any, at: int, slot: Any, start: int, length: int) -> None:
        # A slice of the tensor itself: by its storage torch knows the pinned memory that is used.
        part = slot[start : start + length]
        with self._on_stream():
            into[at : at + length].copy_(part, non_blocking=self._stream is not None)

    def record(self) -> Any:
        if self._stream is None:
            return None
        event = self._torch.cuda.Event()
        event.record(self._stream)
        return event

    def deliver(self, made: Any) -> Any:
        if self._stream is not None:
            current = self._torch.cuda.current_stream(self._device)
            current.wait_stream(self._stream)
            # Freed, its memory is used again only after what the caller's stream does by then.
            made.record_stream(current)
        return made

    def tensor(self, job: Job, memory: Any, start: int) -> Any:
        kind = torch_type(job.tensor.type)
        if job.length == 0:
            shape, kind = job.shape, kind or self._torch.uint8
            return self._torch.empty(shape, dtype=kind, device=self._device)
        return memory if kind is None else memory.view(kind).reshape(job.shape)
