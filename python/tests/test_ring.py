"""Tensors for devices go through a bounded ring of host memory."""

import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import millstream
from millstream import _plan, _ring, _tensors
from millstream._plan import Job
from millstream._types import numpy_type
from millstream.safetensors import iter_tensors, load_file, safe_open


class Copies:
    """An event of a device that copies late: when it is waited for, or asked often enough."""

    def __init__(self, copies: list[Callable[[], None]], delay: int) -> None:
        self.copies, self.delay = copies, delay

    def query(self) -> bool:
        self.delay -= 1
        if self.delay < 0:
            self.synchronize()
        return self.delay < 0

    def synchronize(self) -> None:
        for copy in self.copies:
            copy()
        self.copies = []


class Device:
    """A device whose memory is numpy's: a slot that is used again before its copies are done gives
    wrong bytes, and so does a tensor that is used before."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.slots, self.events = 0, list[Copies]()
        self.begun: list[Callable[[], None]] = []
        self.delivered: list[int] = []

    def slot(self, length: int) -> tuple[Any, np.ndarray]:
        self.slots += length
        memory = np.full(length, 0xEE, np.uint8)
        return memory, memory

    def allocate(self, job: Job) -> np.ndarray:
        return np.full(job.length, 0xDD, np.uint8)

    def copy(self, into: Any, at: int, slot: Any, start: int, length: int) -> None:
        def copy() -> None:
            into[at : at + length] = slot[start : start + length]

        self.begun.append(copy)

    def record(self) -> Copies | None:
        if self.random.random() < 0.3:
            for copy in self.begun:
                copy()
            self.begun = []
            return None
        self.events.append(Copies(self.begun, self.random.randint(0, 3)))
        self.begun = []
        return self.events[-1]

    def tensor(self, job: Job, memory: Any, start: int) -> Any:
        kind = numpy_type(job.tensor.type)
        if job.length == 0:
            return np.zeros(job.shape, kind)
        return memory.view(kind).reshape(job.shape)

    def deliver(self, made: Any) -> Any:
        self.delivered.append(id(made))
        return made

    def synchronize(self) -> None:
        for event in self.events:
            event.synchronize()


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    seed = random.randrange(2**32)
    print("seed", seed)  # Shown on failure.
    device = Device(seed)
    monkeypatch.setattr(_tensors, "target", lambda *_: device)
    return device


@pytest.fixture(params=[8 << 20, 1 << 20, 4096])
def slot_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The length of a slot; a ring has sixteen."""
    length: int = request.param
    monkeypatch.setattr(_plan, "SLOT_BYTES", length)
    monkeypatch.setattr(_ring, "SLOT_BYTES", length)
    monkeypatch.setattr(_ring, "RING_BYTES", 16 * length)
    monkeypatch.setattr(_tensors, "RING_BYTES", 16 * length)
    return length


@pytest.fixture
def model(tmp_path: Path) -> tuple[Path, dict[str, np.ndarray]]:
    random_ = np.random.default_rng(5)
    tensors: dict[str, np.ndarray] = {"empty": np.zeros((0, 3), np.float32)}
    for nth in range(60):
        shape = (int(random_.integers(1, 900)), int(random_.integers(1, 90)))
        kind = [np.uint8, np.float16, np.float64][nth % 3]
        tensors[f"w{nth}"] = random_.integers(0, 200, shape).astype(kind)
    tensors["large"] = random_.integers(0, 2**60, (300, 1200))
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(tensors, path)
    return path, tensors


def test_every_tensor_arrives_through_the_ring(
    model: tuple[Path, dict[str, np.ndarray]],
    device: Device,
    slot_bytes: int,
    storage: millstream.Storage,
) -> None:
    path, tensors = model
    loaded = load_file(path, device="device", storage=storage)
    device.synchronize()
    assert loaded.keys() == tensors.keys() and device.slots <= 16 * slot_bytes
    for name, one in tensors.items():
        assert loaded[name].shape == one.shape and loaded[name].tobytes() == one.tobytes(), name


def test_parts_arrive_through_the_ring(
    model: tuple[Path, dict[str, np.ndarray]],
    device: Device,
    slot_bytes: int,
    storage: millstream.Storage,
) -> None:
    path, tensors = model
    shards = {"large": (1, 3, 4)}
    part = load_file(path, ["large"], device="device", shards=shards, storage=storage)["large"]
    model_ = safe_open(path, "torch", "device", storage=storage)
    rows, columns = (model_.get_slice("large")[index] for index in (slice(9, 99), (..., 7)))
    device.synchronize()
    assert np.array_equal(part, tensors["large"][:, 900:])
    assert np.array_equal(rows, tensors["large"][9:99])
    assert np.array_equal(columns, tensors["large"][:, 7])


@pytest.mark.parametrize("window", [1, 100_000, 96 << 20])
def test_iterating_uses_a_ring_of_the_window(
    model: tuple[Path, dict[str, np.ndarray]], device: Device, slot_bytes: int, window: int
) -> None:
    path, tensors = model
    found = dict(iter_tensors(path, device="device", window=window))
    device.synchronize()
    assert found.keys() == tensors.keys() and device.slots <= max(window, slot_bytes)
    assert all(found[name].tobytes() == one.tobytes() for name, one in tensors.items())


def test_a_device_that_fails_ends_the_load(
    model: tuple[Path, dict[str, np.ndarray]], device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy(*_: Any) -> None:
        raise RuntimeError("the device is lost")

    monkeypatch.setattr(device, "copy", copy)
    with pytest.raises(RuntimeError, match="lost"):
        load_file(model[0], device="device")


MEMORY = """
import resource, sys, numpy
from millstream import _tensors
from millstream.safetensors import iter_tensors, load_file

class Device:
    def slot(self, length):
        memory = numpy.empty(length, numpy.uint8)
        return memory, memory
    def allocate(self, job): return [0]
    def copy(self, into, at, slot, start, length):
        into[0] += int(slot[start : start + length].view(numpy.uint64).sum())
    def record(self): return None
    def tensor(self, job, memory, start): return memory
    def deliver(self, made): return made

_tensors.target = lambda *_: Device()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
total = sum(one[0] for one in load_file(sys.argv[1], device="device").values())
print(total, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
"""


def test_loading_for_a_device_needs_little_host_memory(
    script: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    tensors = {f"w{nth}": np.full(8 << 20, nth, np.uint64) for nth in range(12)}
    safetensors.numpy.save_file(tensors, path)
    del tensors
    done = script(MEMORY, path)
    assert done.returncode == 0, done
    total, peak = map(int, done.stdout.split())
    assert total == (8 << 20) * sum(range(12))
    # Of 768 MiB.
    assert peak < 256 << 20


class Streams:
    """What `TorchDevice` uses of torch, with a log of what is done on which stream."""

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.now: Any = "caller"
        self.uint8, self.cuda, fake = "uint8", self, self

        class Stream:
            def __init__(self, _device: Any) -> None:
                pass

            def __str__(self) -> str:
                return "own"

        class Memory:
            def __init__(self, name: str) -> None:
                self.name = name

            def __getitem__(self, _range: slice) -> "Memory":
                return self

            def copy_(self, _part: Any, non_blocking: bool) -> None:
                fake.log.append(("copy", str(fake.now), non_blocking))

            def record_stream(self, stream: Any) -> None:
                fake.log.append(("keep", stream.name))

        self.Stream, self.memory = Stream, Memory

    def is_available(self) -> bool:
        return True

    @contextmanager
    def stream(self, stream: Any) -> Iterator[None]:
        before, self.now = self.now, stream
        yield
        self.now = before

    def empty(self, _length: int, **_options: Any) -> Any:
        self.log.append(("allocate", str(self.now)))
        return self.memory("made")

    def current_stream(self, _device: Any) -> Any:
        def wait(other: Any) -> None:
            self.log.append(("wait", str(other)))

        return SimpleNamespace(name=str(self.now), wait_stream=wait)


def test_memory_is_filled_on_one_stream_and_given_to_that_of_the_caller() -> None:
    torch: Any = Streams()
    device = _tensors.TorchDevice(torch, SimpleNamespace(type="cuda"))
    made = device.allocate(SimpleNamespace(length=8))  # type: ignore[arg-type]
    with torch.stream("another"):
        device.copy(made, 0, torch.memory("slot"), 0, 8)
        assert device.deliver(made) is made
    assert torch.log == [
        ("allocate", "own"),
        ("copy", "own", True),
        ("wait", "own"),
        ("keep", "another"),
    ]
