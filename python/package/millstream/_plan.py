"""Which bytes of a file hold a part of a tensor, and which reads load them. Pure.

A `Job` is a part of a tensor that is wanted. Its bytes are pieces: runs, or runs at equal distances
(columns). Runs that lie near to one another are read together with what lies between them, as a
disk reads 64 KiB in about the time that another operation takes; others are read one by one.
"""

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ._errors import invalid
from ._files import Tensor, TensorFile
from ._types import numpy_type

# Tensors below it share a request with their neighbors, up to as many bytes. The engine splits
# longer requests into blocks.
SHARED_BYTES = 1 << 20
# Bytes of a block with a checksum.
CHECKED_BYTES = 1 << 20
# Most bytes of a read from which parts are copied, and of a slot of the ring.
SLOT_BYTES = 8 << 20
# Most bytes between two runs that are read together.
_GAP_BYTES_MAX = 64 << 10
_INDEX_MAX = 2**63 - 1

# In each dimension first index, count and step.
Region = tuple[tuple[int, int, int], ...]


@dataclass(slots=True, eq=False)
class Job:
    """A part of a tensor that is read: all of it without a region."""

    file: TensorFile
    tensor: Tensor
    shape: tuple[int, ...]
    length: int
    region: Region | None = None
    # Pieces that have not arrived; until it is planned, unknown.
    left: int = 0
    started: bool = False
    # No longer wanted, and not started.
    dropped: bool = False
    # Its memory, if it has several pieces or is copied; then the tensor.
    memory: Any = None
    made: Any = None


@dataclass(slots=True, eq=False)
class Piece:
    """Bytes of a job: `length` bytes of the file, and where in the job's memory they begin. With
    `runs` only some of them: distance and count, outermost first, of runs of `run` bytes."""

    job: Job
    at: int
    offset: int
    length: int
    run: int
    runs: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True, eq=False)
class Read:
    """One request. Its bytes become the memory of its jobs ("keep"), land in that of its only one
    ("into"), or are copied there ("copy")."""

    file: TensorFile
    offset: int
    length: int
    how: str
    pieces: list[Piece] = field(default_factory=list)


def whole(file: TensorFile, tensor: Tensor) -> Job:
    return Job(file, tensor, tensor.shape, tensor.length)


def part(file: TensorFile, tensor: Tensor, region: Region, shape: tuple[int, ...]) -> Job:
    """The job of a region. Raises InvalidArgument if its elements are no whole bytes."""
    if all(one == (0, size, 1) for one, size in zip(region, tensor.shape, strict=True)):
        return Job(file, tensor, shape, tensor.length)
    length = _itemsize(tensor)
    for _first, count, _step in region:
        length *= count
    return Job(file, tensor, shape, length, region)


def _itemsize(tensor: Tensor) -> int:
    kind = numpy_type(tensor.type)
    if kind is None:
        raise invalid(f"tensor {tensor.name!r}: parts of {tensor.type} cannot be read")
    return int(kind.itemsize)


def index_region(shape: tuple[int, ...], index: Any) -> tuple[Region, tuple[int, ...]]:
    """The region that an index means, and the shape of the result. As the reference
    implementation: integers, slices with a positive step and without negative bounds, and one
    ellipsis. Raises IndexError for what is out of range, InvalidArgument for other indexes."""
    parts = list(index) if isinstance(index, tuple) else [index]
    ellipses = [nth for nth, one in enumerate(parts) if one is Ellipsis]
    if len(ellipses) > 1:
        raise invalid("an index has at most one ellipsis")
    if len(parts) - len(ellipses) > len(shape):
        raise IndexError(f"{len(parts)} indexes, but the tensor has {len(shape)} dimensions")
    missing = [slice(None)] * (len(shape) - len(parts) + len(ellipses))
    at = ellipses[0] if ellipses else len(parts)
    parts[at : at + len(ellipses)] = missing
    region, kept = [], []
    for dimension, (one, size) in enumerate(zip(parts, shape, strict=True)):
        if isinstance(one, slice):
            region.append(_slice(one, size, dimension))
            kept.append(region[-1][1])
            continue
        try:
            number = operator.index(one)
        except TypeError:
            raise invalid(f"the index {one!r} is no integer, slice or ellipsis") from None
        if not -size <= number < size:
            raise IndexError(f"index {number} of dimension {dimension}, which has {size}")
        region.append((number % size, 1, 1))
    return tuple(region), tuple(kept)


def _slice(one: slice, size: int, dimension: int) -> tuple[int, int, int]:
    start = 0 if one.start is None else operator.index(one.start)
    stop = size if one.stop is None else operator.index(one.stop)
    step = 1 if one.step is None else operator.index(one.step)
    if step < 1:
        raise invalid(f"the step {step} is not positive")
    if min(start, stop) < 0 or max(start, stop) > _INDEX_MAX:
        raise OverflowError(f"{start}:{stop}: a bound is negative or above 64 bits")
    if stop > size or start > stop or start == size > 0:
        raise IndexError(f"{start}:{stop} of dimension {dimension}, which has {size}")
    return start, -(-(stop - start) // step), step


def shard(file: TensorFile, tensor: Tensor, how: tuple[int, int, int]) -> Job:
    """The part of one rank: of `world` equal parts of a dimension that of the index `rank`."""
    dimension, rank, world = map(operator.index, how)
    if not 0 <= rank < world:
        raise invalid(f"tensor {tensor.name!r}: no rank {rank} of {world}")
    if not -len(tensor.shape) <= dimension < len(tensor.shape):
        raise invalid(f"tensor {tensor.name!r} has no dimension {dimension}: {tensor.shape}")
    size = tensor.shape[dimension]
    if size % world:
        cause = f"dimension {dimension} has {size} indices, which {world} ranks cannot share"
        raise invalid(f"tensor {tensor.name!r}: {cause}")
    count = size // world
    shape = list(tensor.shape)
    shape[dimension] = count
    region = [(0, size, 1) for size in tensor.shape]
    region[dimension] = (rank * count, count, 1)
    return part(file, tensor, tuple(region), tuple(shape))


def _layout(job: Job, region: Region) -> tuple[int, int, list[tuple[int, int]]]:
    """Where a region begins, the bytes of a run, and distances and counts of runs, outermost
    first: without dimensions of one index, and with those joined that follow one another."""
    run, offset = _itemsize(job.tensor), job.tensor.offset
    runs: list[tuple[int, int]] = []
    stride = run
    dimensions = list(zip(region, job.tensor.shape, strict=True))
    for (first, count, step), size in reversed(dimensions):
        offset += first * stride
        distance = step * stride
        stride *= size
        if count == 1:
            continue
        if not runs and distance == run:
            run *= count
        elif runs and distance == runs[0][0] * runs[0][1]:
            runs[0] = (runs[0][0], runs[0][1] * count)
        else:
            runs.insert(0, (distance, count))
    return offset, run, runs


def pieces(job: Job) -> list[Piece]:
    """The pieces of a job in file order, each of at most `SLOT_BYTES` if it has several runs."""
    if job.length == 0:
        return []
    if job.region is None:
        return [Piece(job, 0, job.tensor.offset, job.length, job.length)]
    offset, run, runs = _layout(job, job.region)
    # Of each level: the bytes from the first to the last of all below, those of the job alone, and
    # whether no gap is too long.
    spans, sizes, near = [run], [run], [True]
    for distance, count in reversed(runs):
        near.append(near[-1] and distance - spans[-1] <= _GAP_BYTES_MAX)
        spans.append(spans[-1] + (count - 1) * distance)
        sizes.append(sizes[-1] * count)
    found: list[Piece] = []

    def add(at: int, offset: int, level: int) -> None:
        if level == 0:
            found.append(Piece(job, at, offset, run, run))
            return
        distance, count = runs[-level]
        span, size = spans[level - 1], sizes[level - 1]
        if near[level] and span <= SLOT_BYTES:
            most = (SLOT_BYTES - span) // distance + 1
            for nth in range(0, count, most):
                number = min(most, count - nth)
                length = (number - 1) * distance + span
                below = ((distance, number), *runs[len(runs) - level + 1 :])
                start = offset + nth * distance
                found.append(Piece(job, at + nth * size, start, length, run, below))
            return
        for nth in range(count):
            add(at + nth * size, offset + nth * distance, level - 1)

    add(0, offset, len(runs))
    return found


def _cut(piece: Piece, unit: int, middle: bool) -> Iterator[Piece]:
    """A run in parts that cross no multiple of `unit`, but with `middle` all whole units in one."""
    end = piece.offset + piece.length
    while not piece.runs and end > (piece.offset // unit + 1) * unit:
        first = (piece.offset // unit + 1) * unit
        if middle and piece.offset % unit == 0 and end - piece.offset >= unit:
            first = end - end % unit
        if first == end:
            break
        length = first - piece.offset
        yield Piece(piece.job, piece.at, piece.offset, length, length)
        left = end - first
        piece = Piece(piece.job, piece.at + length, first, left, left)
    yield piece


def reads(jobs: Iterable[Job], slots: bool) -> Iterator[Read]:
    """The reads of jobs, in their order. With `slots` each lands in a slot, and is copied from it.
    Of files with checksums no block is read twice, unless it is for columns."""
    unit = SLOT_BYTES if slots else CHECKED_BYTES
    last: Read | None = None
    for job in jobs:
        found, checked = pieces(job), job.file.checksums is not None
        if slots or checked:
            found = [one for piece in found for one in _cut(piece, unit, not slots)]
        job.left = len(found)
        for piece in found:
            if piece.runs or slots:
                how = "copy"
            elif checked:
                how = "into" if piece.offset % unit == 0 and piece.length >= unit else "copy"
            else:
                how = "into" if len(found) > 1 else "keep"
            # A block with a checksum is read as a whole.
            gap_max = CHECKED_BYTES if checked else _GAP_BYTES_MAX
            if last is not None and _joins(last, piece, how, unit, gap_max):
                last.pieces.append(piece)
                last.length = piece.offset + piece.length - last.offset
                continue
            if last is not None:
                yield last
            last = Read(job.file, piece.offset, piece.length, how, [piece])
    if last is not None:
        yield last


def _joins(last: Read, piece: Piece, how: str, unit: int, gap_max: int) -> bool:
    """Whether a piece is read with the one before: a small tensor that follows another and shares
    its memory, or a run that is copied and lies near, in the same unit of the file."""
    if last.file is not piece.job.file or last.how != how or last.pieces[-1].runs or piece.runs:
        return False
    gap = piece.offset - last.offset - last.length
    if how == "keep":
        return gap == 0 and last.length + piece.length <= SHARED_BYTES
    end = piece.offset + piece.length
    near = 0 <= gap <= gap_max
    return how == "copy" and near and (end - 1) // unit == last.offset // unit
