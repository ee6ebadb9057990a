"""Packing on a cluster, and the steps of it."""

import contextlib
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream
import millstream.ray

WORDS = [b"open", b"portable", b"batched", b"queue", b"ring", b"decode", b"\n", b"\0\0\0"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files that shrink, in more blocks than a task has."""
    rng = random.Random(20)
    source = tmp_path / "source"
    (source / "texts").mkdir(parents=True)
    for nth in range(60):
        text = b" ".join(rng.choices(WORDS, k=rng.randrange(1, 800)))
        (source / "texts" / f"{nth:02}.txt").write_bytes(text)
    for nth in range(4):
        text = b" ".join(rng.choices(WORDS, k=200_000))
        (source / f"big{nth}").write_bytes(text)
    (source / "empty").write_bytes(b"")
    return source


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """A Ray of two processes on this machine."""
    ray = pytest.importorskip("ray")
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=256 << 20,
        logging_level="ERROR",
    )
    yield ray
    ray.shutdown()


def _encoded(plan: millstream.PackPlan, task_bytes: int) -> list[bytes]:
    tasks = (plan.task(*blocks) for blocks in plan.ranges(task_bytes))
    return [millstream.encode_task(task) for task in tasks]


def test_processes_encode_what_one_machine_packs(folder: Path, tmp_path: Path) -> None:
    one, many = tmp_path / "one.mpak", tmp_path / "many.mpak"
    packed = millstream.pack(folder, one, codec="zstd")
    plan = millstream.PackPlan(folder, codec="zstd")
    ranges = plan.ranges(1 << 20)
    assert ranges[0][0] == 0 and ranges[-1][1] == plan.blocks == packed.blocks
    assert sum(plan.raw_bytes(*blocks) for blocks in ranges) == packed.raw_bytes
    tasks = [plan.task(*blocks) for blocks in ranges]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        written = plan.write(pool.imap(millstream.encode_task, tasks), many)
    assert many.read_bytes() == one.read_bytes()
    assert written.root == packed.root


def test_results_of_another_plan_are_refused(folder: Path, tmp_path: Path) -> None:
    plan = millstream.PackPlan(folder, codec="lz4")
    encoded = _encoded(plan, 1 << 20)
    other = _encoded(millstream.PackPlan({"big0": bytes(700_000)}), 1 << 20)
    out = tmp_path / "out.mpak"
    for wrong in [[], encoded[:-1], encoded[1:], other, [b""], [encoded[0][:-1]], [*encoded, b"x"]]:
        with pytest.raises(millstream.MillstreamError):
            plan.write(wrong, out)
        assert not out.exists()
    with pytest.raises(IndexError):
        plan.task(0, plan.blocks + 1)
    with pytest.raises(millstream.Corrupt):
        millstream.encode_task(b"no task")
    with pytest.raises(TypeError):
        plan.write([1], out)  # type: ignore[list-item]


def test_what_the_results_raise_ends_the_packing(folder: Path, tmp_path: Path) -> None:
    plan = millstream.PackPlan(folder)

    def failing() -> Iterator[bytes]:
        yield from _encoded(plan, 1 << 20)[:1]
        raise LookupError("a worker is gone")

    with pytest.raises(LookupError, match="a worker is gone"):
        plan.write(failing(), tmp_path / "out.mpak")
    assert os.listdir(tmp_path) == ["source"]


def test_a_cluster_writes_the_same_bytes(ray: Any, folder: Path, tmp_path: Path) -> None:
    for codec in ("auto", "zstd"):
        one, many = tmp_path / f"{codec}-one.mpak", tmp_path / f"{codec}-many.mpak"
        packed = millstream.pack(folder, one, codec=codec)
        seen: list[int] = []
        millstream.ray.pack(folder, many, codec=codec, task_bytes=1 << 19, progress=seen.append)
        assert many.read_bytes() == one.read_bytes()
        assert seen == sorted(seen) and len(seen) > 4 and seen[-1] == packed.raw_bytes


def test_bytes_that_are_in_no_file_travel_with_the_tasks(ray: Any, tmp_path: Path) -> None:
    items = {f"{nth}": os.urandom(1000) * 500 for nth in range(4)}
    out = tmp_path / "out.mpak"
    millstream.ray.pack(items, out, codec="lz4", task_bytes=1 << 19)
    with millstream.Storage() as storage:
        package = millstream.Package(out, storage)
        assert {name: bytes(package.read(name)) for name in package.names()} == items


class _Interrupted:
    """A Ray that is interrupted while it waits for its second task."""

    class exceptions:
        RayTaskError = LookupError

    def __init__(self) -> None:
        self.tasks: list[bytes] = []
        self.canceled: list[int] = []

    def remote(self, task: bytes) -> int:
        self.tasks.append(task)
        return len(self.tasks) - 1

    def get(self, task: int) -> bytes:
        if task == 1:
            raise KeyboardInterrupt
        return millstream.encode_task(self.tasks[task])

    def cancel(self, task: int) -> None:
        self.canceled.append(task)
        raise RuntimeError("it has ended")


def test_an_interruption_cancels_all_tasks_that_have_not_ended(tmp_path: Path) -> None:
    fake = _Interrupted()
    plan = millstream.PackPlan({str(nth): os.urandom(300_000) for nth in range(8)})
    encoded = millstream.ray._Cluster(fake, fake).encoded(plan, 1 << 18, 4, None)
    with pytest.raises(KeyboardInterrupt):
        plan.write(encoded, tmp_path / "out.mpak")
    assert len(fake.tasks) == 5 and fake.canceled == [1, 2, 3, 4]
    assert os.listdir(tmp_path) == []


def _encoders() -> list[int]:
    """The processes that encode for Ray."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if b"ray::_encode" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (OSError, ValueError):
            pass
    return found


def test_the_task_of_a_worker_that_dies_is_run_again(
    ray: Any, folder: Path, tmp_path: Path
) -> None:
    one, many = tmp_path / "one.mpak", tmp_path / "many.mpak"
    killed: list[int] = []

    def kill() -> None:
        deadline = time.monotonic() + 60
        while not killed and time.monotonic() < deadline:
            for process in _encoders()[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                    killed.append(process)
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    # As slow as can be, so that the worker dies in the middle of it.
    millstream.ray.pack(folder, many, codec="zstd", level=19, task_bytes=16 << 20)
    killer.join()
    assert killed
    millstream.pack(folder, one, codec="zstd", level=19)
    assert many.read_bytes() == one.read_bytes()


def test_a_file_that_changed_since_it_was_planned_is_an_error(
    ray: Any, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.mpak"
    big = folder / "big3"

    def change(_done: int) -> None:
        big.write_bytes(big.read_bytes()[::-1])

    with pytest.raises(millstream.Changed) as raised:
        millstream.ray.pack(folder, out, task_bytes=1 << 18, tasks_in_flight=1, progress=change)
    assert raised.value.path == str(big)
    assert os.listdir(tmp_path) == ["source"]


def test_an_exception_of_progress_ends_the_packing(ray: Any, folder: Path, tmp_path: Path) -> None:
    def stop(_done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        millstream.ray.pack(folder, tmp_path / "out.mpak", task_bytes=1 << 18, progress=stop)
    assert os.listdir(tmp_path) == ["source"]
