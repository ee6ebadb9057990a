"""A bounded ring of host memory, through which tensors go to the memory of a device."""

from collections import deque
from typing import Any, Protocol

import numpy as np

from ._plan import SLOT_BYTES, Job, Piece

# At most so much host memory is pinned, however large a model is. Copies of eight slots go on
# while eight others are read.
RING_BYTES = 16 * SLOT_BYTES


class Device(Protocol):
    """Memory that the processor does not write to. Copies may go on after `copy` returns."""

    def slot(self, length: int) -> tuple[Any, np.ndarray[Any, Any]]:
        """Host memory from which the device copies, and its bytes as an array."""

    def allocate(self, job: Job) -> Any:
        """Memory of the device for a job."""

    def copy(self, into: Any, at: int, slot: Any, start: int, length: int) -> None:
        """Begins to copy bytes of a slot."""

    def record(self) -> Any:
        """An event with `query` and `synchronize`, which happens once all copies that were begun
        are done; None if they are."""

    def tensor(self, job: Job, memory: Any, start: int) -> Any:
        """The tensor in the memory of a job."""

    def deliver(self, made: Any) -> Any:
        """A tensor for its caller: what the device does for the caller from now on finds all bytes
        there."""


class Ring:
    """Slots of host memory. Each is used by one read, then by copies, and is free once these are
    done."""

    def __init__(self, device: Device, most: int) -> None:
        self.device = device
        # Slots that were not allocated yet.
        self._unused = max(1, min(most, RING_BYTES) // SLOT_BYTES)
        self._free: list[Any] = []
        self._copied: deque[tuple[Any, Any]] = deque()

    def take(self, wait: bool) -> Any:
        """A slot: its memory and its array; None if none is free and the caller does not wait."""
        while self._copied and (self._copied[0][0] is None or self._copied[0][0].query()):
            self._free.append(self._copied.popleft()[1])
        if self._free:
            return self._free.pop()
        if self._unused:
            self._unused -= 1
            return self.device.slot(SLOT_BYTES)
        if not wait or not self._copied:
            return None
        event, slot = self._copied.popleft()
        event.synchronize()
        return slot

    def copy(self, piece: Piece, slot: Any, start: int) -> None:
        """Copies a piece that begins at `start` of the slot to the memory of its job."""
        length = gather(piece, slot[1], start, None)
        at = 0 if piece.runs else start
        self.device.copy(piece.job.memory, piece.at, slot[0], at, length)

    def give_back(self, slot: Any) -> None:
        """Frees a slot once the copies that were begun are done."""
        self._copied.append((self.device.record(), slot))


def gather(piece: Piece, source: np.ndarray[Any, Any], start: int, into: Any) -> int:
    """Copies the runs of a piece, which begins at `start` of the source, one after the other to
    `into`, or, without it, to the front of the source itself, unless they follow one another
    already. Returns how many bytes they have."""
    counts = [count for _distance, count in piece.runs]
    length = int(np.prod(counts, dtype=np.int64)) * piece.run
    if not piece.runs:
        if into is not None:
            into[:length] = source[start : start + length]
        return length
    word = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}.get(piece.run, f"V{piece.run}")
    distances = [distance for distance, _count in piece.runs]
    runs = np.ndarray(counts, word, source.data, start, distances)
    into = source[:length] if into is None else into[:length]
    # Of memory that overlaps numpy makes a copy first.
    np.ndarray(counts, word, into.data)[...] = runs
    return length
