"""Reading of tensors: which bytes become one request, and how many at a time."""

import importlib
import select
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from types import TracebackType
from typing import Any

import numpy as np

from ._default import default_storage
from ._errors import invalid
from ._files import Tensor, TensorFile
from ._native import Completions, File, Queue, Storage, Ticket
from ._types import numpy_type, torch_type

# Tensors below it share a request with their neighbors, up to as many bytes. The engine splits
# longer requests into blocks.
_SHARED_BYTES = 1 << 20


@dataclass(slots=True)
class Span:
    """Neighboring tensors that are read by one request."""

    file: File
    tensors: list[Tensor]
    offset: int
    length: int


def wanted(files: list[TensorFile], names: Iterable[str] | None) -> list[tuple[File, list[Tensor]]]:
    """Tensors of each file that are wanted.

    Raises KeyError for a name that no file has, and InvalidArgument for one that several have.
    """
    known: set[str] = set()
    for file in files:
        for tensor in file.tensors:
            if tensor.name in known:
                raise invalid(f"the tensor {tensor.name!r} is in several files")
            known.add(tensor.name)
    if names is None:
        return [(file.file, file.tensors) for file in files]
    chosen = {names} if isinstance(names, str) else set(names)
    for name in sorted(chosen - known):
        raise KeyError(name)
    return [(file.file, [one for one in file.tensors if one.name in chosen]) for file in files]


def _spans(file: File, tensors: list[Tensor]) -> Iterator[Span]:
    span: Span | None = None
    for tensor in tensors:
        joins = span is not None and span.offset + span.length == tensor.offset
        if span is not None and joins and span.length + tensor.length <= _SHARED_BYTES:
            span.tensors.append(tensor)
            span.length += tensor.length
            continue
        if span is not None:
            yield span
        span = Span(file, [tensor], tensor.offset, tensor.length)
    if span is not None:
        yield span


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

    def tensors(
        self,
        wanted: list[tuple[File, list[Tensor]]],
        framework: str,
        device: Any,
        window: int | None,
    ) -> Iterator[tuple[str, Any]]:
        """Tensors in the order in which they arrive, with at most `window` bytes read ahead."""
        by_file = [_spans(file, tensors) for file, tensors in wanted]
        # Files in turns, so that all are read at once.
        spans = deque(span for row in zip_longest(*by_file) for span in row if span is not None)
        convert = _Torch(device) if framework == "torch" else _Numpy()
        for span, memory in self._arrivals(spans, convert, window):
            while span.tensors:
                tensor = span.tensors.pop()
                start = tensor.offset - span.offset
                made = convert.tensor(tensor, memory, start)
                if not span.tensors:
                    # The caller may be the only one who keeps the memory.
                    del memory
                yield tensor.name, made
                del made

    def _arrivals(
        self, spans: deque[Span], convert: "_Numpy | _Torch", window: int | None
    ) -> Iterator[tuple[Span, Any]]:
        completions = Completions()
        poller = select.poll()
        poller.register(completions.fileno(), select.POLLIN)
        pending: dict[int, tuple[Span, Ticket[Any], Any]] = {}
        ahead, token = 0, 0
        try:
            while spans or pending:
                with self.queue.batch() as batch:
                    submitted = []
                    while spans and (
                        window is None or not ahead or ahead + spans[0].length <= window
                    ):
                        span = spans.popleft()
                        memory = convert.memory(span.length)
                        into = None if memory is None else memory.numpy()
                        ticket = batch.read(span.file, span.offset, span.length, into=into)
                        pending[token] = (span, ticket, memory)
                        del into, memory
                        submitted.append(token)
                        ahead, token = ahead + span.length, token + 1
                arrived = [one for one in submitted if pending[one][1]._notify(completions, one)]
                if not arrived:
                    poller.poll()
                    arrived = completions.take()
                for one in arrived:
                    span, ticket, memory = pending[one]
                    if not ticket.done() and not ticket._notify(completions, one):
                        continue
                    del pending[one]
                    arrived_in = ticket.wait()
                    memory = arrived_in if memory is None else memory
                    del ticket, arrived_in
                    yield span, memory
                    del memory
                    ahead -= span.length
        finally:
            for _span, ticket, _memory in pending.values():
                ticket.cancel()


class _Numpy:
    """Makes arrays of numpy."""

    def memory(self, length: int) -> None:
        """Memory to read into: the library's."""

    def tensor(self, tensor: Tensor, memory: Any, start: int) -> Any:
        kind = numpy_type(tensor.type)
        if kind is None:
            return np.frombuffer(memory, np.uint8, tensor.length, start)
        if tensor.length == 0:
            return np.empty(tensor.shape, kind)
        count = tensor.length // kind.itemsize
        array = np.frombuffer(memory, kind, count, start)
        if not array.flags.aligned:
            array = array.copy()
        return array.reshape(tensor.shape)


class _Torch:
    """Makes tensors of torch. For CUDA devices bytes are read into pinned memory, and copied from
    there while others are read; torch keeps that memory until the copy is done."""

    def __init__(self, device: Any) -> None:
        self.torch: Any = importlib.import_module("torch")
        self.device = self.torch.device("cpu" if device is None else device)
        self.pinned = self.device.type == "cuda" and self.torch.cuda.is_available()

    def memory(self, length: int) -> Any:
        if not self.pinned or length == 0:
            return None
        return self.torch.empty(length, dtype=self.torch.uint8, pin_memory=True)

    def tensor(self, tensor: Tensor, memory: Any, start: int) -> Any:
        torch = self.torch
        kind = torch_type(tensor.type)
        if tensor.length == 0:
            return torch.empty(tensor.shape, dtype=kind or torch.uint8, device=self.device)
        if self.pinned:
            # A slice of the tensor itself: by its storage torch knows the memory that a copy uses.
            raw = memory[start : start + tensor.length]
        else:
            raw = torch.frombuffer(memory, dtype=torch.uint8, count=tensor.length, offset=start)
        if kind is None:
            return raw.to(self.device, non_blocking=self.pinned)
        if raw.data_ptr() % kind.itemsize:
            raw = raw.clone()
        made = raw.view(kind).reshape(tensor.shape)
        return made.to(self.device, non_blocking=self.pinned)
