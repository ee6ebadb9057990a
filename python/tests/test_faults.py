"""Failures, and the exceptions that report them."""

import builtins
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream
import millstream.npy
import millstream.safetensors

Script = Callable[..., subprocess.CompletedProcess[str]]


def test_a_missing_file(storage: millstream.Storage, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        storage.queue().read(tmp_path / "missing").wait()
    error = caught.value
    assert isinstance(error, millstream.MillstreamError) and isinstance(error, millstream.NotFound)
    assert (error.kind, error.path, error.errno) == ("not_found", str(tmp_path / "missing"), 2)
    assert error.filename == error.path and "missing" in str(error)


def test_a_cut_file(storage: millstream.Storage, noise: Path) -> None:
    length = noise.stat().st_size
    destinations: list[Any] = [None, bytearray(1 << 20)]
    for into in destinations:
        with pytest.raises(millstream.PastEnd) as caught:
            storage.queue().read(noise, 3 << 20, 1 << 20, into=into).wait()
        error = caught.value
        assert isinstance(error, EOFError) and isinstance(error, OSError)
        assert (error.path, error.offset, error.length) == (str(noise), 3 << 20, 1 << 20)
        assert str(length) in str(error)


def test_a_directory_and_a_forbidden_file(storage: millstream.Storage, tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        storage.queue().read(tmp_path).wait()
    secret = tmp_path / "secret"
    secret.touch(0o000)
    if os.geteuid() != 0:
        with pytest.raises(PermissionError):
            storage.queue().read(secret, 0, 1).wait()


def test_a_full_disk_is_an_os_error(storage: millstream.Storage) -> None:
    with pytest.raises(OSError) as caught:
        storage.queue().write("/dev/full", b"x").wait()
    assert isinstance(caught.value, millstream.MillstreamError)


def test_bad_destinations(storage: millstream.Storage, noise: Path) -> None:
    queue = storage.queue()
    with pytest.raises((BufferError, TypeError, ValueError)):
        queue.read(noise, 0, 4, into=b"read-only")
    with pytest.raises((BufferError, ValueError)):
        queue.read(noise, 0, 4, into=np.zeros((8, 8), np.uint8)[:, ::2])
    with pytest.raises(TypeError):
        queue.read(noise, 0, 4, into="text")  # type: ignore[call-overload]
    with pytest.raises(millstream.MillstreamError):
        queue.read(noise, 0, 4096, into=bytearray(100)).wait()
    with pytest.raises(ValueError, match="needs a length"):
        queue.read(noise, 100)
    with pytest.raises(OverflowError):
        queue.read(noise, -1, 4)
    with pytest.raises(millstream.InvalidArgument):
        queue.read(noise, 2**64 - 10, 100).wait()


def test_wrong_values_of_arguments_are_invalid(
    storage: millstream.Storage, noise: Path, tmp_path: Path
) -> None:
    queue = storage.queue()
    wrong: list[Callable[..., Any]] = [
        lambda: millstream.Storage(backend="tape"),  # type: ignore[arg-type]
        lambda: millstream.Storage(access="never"),  # type: ignore[arg-type]
        lambda: millstream.Storage(disk_model="floppy"),
        lambda: millstream.Storage(depth=0),
        lambda: storage.queue(priority="urgent"),  # type: ignore[arg-type]
        lambda: storage.queue(capacity=0),
        lambda: queue.read(noise, priority="urgent"),  # type: ignore[call-overload]
        lambda: queue.read(noise, codec="rot13"),  # type: ignore[call-overload]
        lambda: queue.read(noise, timeout=-1.0),
        lambda: queue.read(noise, timeout=float("nan")),
        lambda: queue.read(noise, deadline=float("nan")),
        lambda: queue.read(noise).wait(float("nan")),
        lambda: queue.read(noise, 100),
        lambda: millstream.pack({}, tmp_path / "out", codec="rot13"),  # type: ignore[arg-type]
        lambda: millstream.npy.fromfile(noise, np.dtype(object)),
        lambda: millstream.npy.fromfile(noise, np.uint8, offset=-1),
        lambda: millstream.safetensors.load_file(noise, framework="abacus"),
        lambda: millstream.safetensors.load_file(noise, framework="numpy", device="cpu"),
        lambda: millstream.safetensors.iter_tensors(noise, window=0),
    ]
    for call in wrong:
        with pytest.raises(millstream.InvalidArgument) as caught:
            call()
        assert isinstance(caught.value, ValueError) and caught.value.kind == "invalid_argument"
        assert str(caught.value)


def test_what_objects_show_of_themselves(storage: millstream.Storage, noise: Path) -> None:
    queue, file, group = storage.queue(name="music"), storage.open(noise), millstream.Group()
    batch = queue.batch()
    batch.read(file, 0, 16, group=group)
    assert repr(queue) == '<millstream.Queue "music">'
    assert repr(group) == "<millstream.Group, 1 remaining>"
    assert repr(file) == f'<millstream.File "{noise}">'
    batch.submit()
    file.close()
    assert repr(file) == f'<millstream.File "{noise}", closed>'


def test_memory_is_free_again_once_a_call_has_failed_or_copied_it(
    storage: millstream.Storage, noise: Path, tmp_path: Path
) -> None:
    memory, queue, file = bytearray(8), storage.queue(), storage.open(noise)
    file.close()
    batch = queue.batch()
    for read in (queue.read, batch.read):
        with pytest.raises(millstream.Closed):
            read(file, 0, 8, into=memory)
        memory.append(0)  # Raises BufferError while it is exported.
    package = tmp_path / "package"
    millstream.pack({"a": memory}, package)
    memory.append(0)
    opened = millstream.Package(package, storage)
    with pytest.raises(millstream.PastEnd):
        opened.submit("a", 100, 8, into=memory)
    memory.append(0)
    storage.close()
    with pytest.raises(millstream.Closed):
        queue.replace(package, memory)
    memory.append(0)


def test_a_closed_storage(noise: Path) -> None:
    storage = millstream.Storage()
    queue, file = storage.queue(), storage.open(noise)
    buffer = queue.read(file, 0, 4096).wait()
    assert storage.close() == 0 and storage.closed
    assert storage.close() == 0
    calls: list[Callable[[], object]] = [
        lambda: queue.read(file, 0, 1),
        lambda: queue.read(noise, 0, 1),
        lambda: queue.write(noise, b""),
        lambda: queue.read_many([(file, 0, 1)]),
        lambda: queue.replace(noise, b""),
        lambda: queue.sync(file),
        lambda: storage.queue(),
        lambda: storage.open(noise),
        lambda: storage.buffer(1),
        lambda: storage.start_trace(),
        lambda: millstream.Package(noise, storage),
        lambda: file.size(),
    ]
    for call in calls:
        with pytest.raises(millstream.Closed) as caught:
            call()
        assert isinstance(caught.value, ValueError) and caught.value.kind == "closed"
    file.close()
    assert len(bytes(buffer)) == 4096  # Memory outlives its storage.


def test_closing_cancels_what_waits(noise: Path) -> None:
    storage = millstream.Storage(disk_model="read=1K,latency=200ms,depth=1", depth=1)
    tickets = [storage.queue().read(noise, at * 4096, 4096) for at in range(20)]
    started = time.monotonic()
    storage.close(1)
    assert time.monotonic() - started < 20
    with pytest.raises((millstream.Canceled, millstream.Closed)):
        tickets[-1].wait(5)


def test_a_storage_that_is_dropped_waits_without_the_interpreter_lock(noise: Path) -> None:
    storage = millstream.Storage(disk_model="read=100M,latency=500ms", access="direct")
    array = np.zeros(1 << 18, np.uint8)
    ticket = storage.queue().read(noise, 0, 1 << 18, into=array)
    time.sleep(0.1)  # The read is in flight.
    ticks: list[float] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(0.01):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    started = time.monotonic()
    del storage
    ended = time.monotonic()
    stop.set()
    thread.join()
    assert 0.2 < ended - started < 60
    assert sum(started < at < ended for at in ticks) > 5
    with pytest.raises(millstream.Canceled):
        ticket.wait(1)
    after = array.tobytes()
    time.sleep(0.6)
    assert array.tobytes() == after  # Nobody writes to it once the request has completed.


def test_a_closed_file(storage: millstream.Storage, noise: Path) -> None:
    file = storage.open(noise)
    file.close()
    with pytest.raises(millstream.Closed) as caught:
        storage.queue().read(file)
    assert caught.value.kind == "stale_file"


def test_a_released_buffer(storage: millstream.Storage, noise: Path) -> None:
    buffer = storage.queue().read(noise, 0, 4096).wait()
    view = memoryview(buffer)
    with pytest.raises(BufferError):
        buffer.release()
    view.release()
    with buffer:
        assert len(buffer) == 4096
    buffer.release()
    assert buffer.released
    uses: list[Any] = [memoryview, len, bytes, lambda it: np.frombuffer(it, np.uint8)]
    for use in uses:
        with pytest.raises(millstream.Closed, match="released"):
            use(buffer)
    with pytest.raises(millstream.Closed):
        storage.queue().read(noise, 0, 4096, into=buffer)


def test_a_buffer_that_is_read_into_cannot_be_released(
    slow: millstream.Storage, noise: Path
) -> None:
    buffer = slow.buffer(4096)
    ticket = slow.queue().read(noise, 0, 4096, into=buffer)
    with pytest.raises(BufferError):
        buffer.release()
    ticket.cancel()


def test_a_ticket_of_an_unsubmitted_batch(storage: millstream.Storage, noise: Path) -> None:
    batch = storage.queue().batch()
    ticket = batch.read(noise, 0, 16)
    with pytest.raises(millstream.InvalidArgument) as caught:
        ticket.wait()
    assert caught.value.kind == "not_submitted"
    batch.submit()
    assert len(ticket.wait()) == 16


def test_room_held_by_batches_that_were_not_submitted_is_no_reason_to_wait(
    storage: millstream.Storage, noise: Path
) -> None:
    queue, file = storage.queue(capacity=8), storage.open(noise)
    batches = [queue.batch() for _ in range(4)]
    tickets = [batch.read(file, nth, 1) for nth, batch in enumerate(batches)]
    for target in (file, noise):
        with pytest.raises(millstream.QueueFull):
            queue.read(target, 0, 1)
    for batch in batches:
        batch.submit()
    read = [bytes(buffer) for buffer in millstream.wait_all(tickets)]
    assert b"".join(read) == noise.read_bytes()[:4]
    queue.read(file, 0, 1).wait()
    file.close()
    # The path of the refused read was closed as well, if it was opened before that.
    deadline = time.monotonic() + 10
    while storage.stats()["descriptors"] > 0 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert storage.stats()["descriptors"] == 0


def test_ctrl_c_ends_a_wait_at_once(slow: millstream.Storage, noise: Path) -> None:
    queue = slow.queue()
    group = millstream.Group()
    ticket = queue.read(noise, group=group)
    waits: list[Callable[[], object]] = [
        ticket.wait,
        group.wait,
        queue.drain,
        lambda: millstream.wait_all([ticket]),
    ]
    for wait in waits:
        timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
        timer.start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            wait()
        assert time.monotonic() - started < 60
        timer.join()
    assert not ticket.done()


def test_exceptions_pickle() -> None:
    error = millstream.NotFound("message", "not_found", "/path", 1, 2, "name", 2)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)
    assert isinstance(millstream.TimeoutError("x"), builtins.TimeoutError)


FORK = """
import os, sys, millstream
storage = millstream.Storage()
queue = storage.queue()
file = storage.open(sys.argv[1])
slow = millstream.Storage(disk_model="read=1K,latency=1s")
group = millstream.Group()
slow_queue = slow.queue()
ticket = slow_queue.read(sys.argv[1], group=group)
package = millstream.Package(sys.argv[2], storage)
kept = queue.read(file, 0, 1 << 20).wait()
default = millstream.default_storage()
child = os.fork()
if child == 0:
    refused = 0
    calls = [lambda: queue.read(file, 0, 16).wait(), ticket.wait, group.wait, file.size,
             lambda: storage.queue(), lambda: package.read("a"),
             lambda: package.read_many(["a"]), slow_queue.drain]
    for nth, call in enumerate(calls):
        try:
            call()
            print("call", nth, "did not fail")
        except millstream.MillstreamError as error:
            refused += error.kind in ("closed", "still_held")
    own = millstream.default_storage()
    fine = own is not default and len(own.queue().read(sys.argv[1]).wait()) > 0
    fine = fine and bytes(kept) == open(sys.argv[1], "rb").read(1 << 20)
    storage.close()
    print("refused", refused, "of", len(calls), "own", fine, flush=True)
    sys.exit(0)
_, status = os.waitpid(child, 0)
print("status", status, len(queue.read(file, 0, 16).wait()))
"""


def test_use_after_fork_is_an_error(script: Script, noise: Path, tmp_path: Path) -> None:
    package = tmp_path / "package"
    millstream.pack({"a": b"content"}, package)
    done = script(FORK, noise, package)
    assert done.stdout.splitlines() == ["refused 8 of 8 own True", "status 0 16"], done


FORK_LOOP = """
import asyncio, os, sys, millstream
slow = millstream.Storage(disk_model="read=1K,latency=1s,depth=1", depth=1)
ticket = slow.queue().read(sys.argv[1])
async def pending():
    await ticket
async def read(storage):
    return len(await storage.queue().read(sys.argv[1], 0, 4096))
loop = asyncio.new_event_loop()
task = loop.create_task(pending())
loop.run_until_complete(asyncio.sleep(0))
ready, go = os.pipe()
child = os.fork()
if child == 0:
    os.read(ready, 1)
    own = millstream.Storage()
    print(loop.run_until_complete(read(own)), asyncio.run(read(own)), flush=True)
    os._exit(0)
ticket.cancel()
slow.close(0)  # The loop's descriptor is readable: the child does not take that away.
os.write(go, b"x")
os.waitpid(child, 0)
try:
    loop.run_until_complete(asyncio.wait_for(task, 10))
except millstream.Canceled:
    print("canceled")
"""


def test_loops_of_a_forked_child_and_its_parent_do_not_share_completions(
    script: Script, noise: Path
) -> None:
    done = script(FORK_LOOP, noise)
    assert done.stdout.splitlines() == ["4096 4096", "canceled"], done


EXIT = """
import sys, numpy, millstream
storage = millstream.Storage(disk_model="read=2M,latency=100ms")
queue = storage.queue()
arrays = [numpy.zeros(1 << 18, numpy.uint8) for _ in range(8)]
tickets = [queue.read(sys.argv[1], at << 18, 1 << 18, into=array)
           for at, array in enumerate(arrays)]
detached = [queue.read(sys.argv[1], 0, 1 << 20) and None for _ in range(4)]
async def main():
    await tickets[0]
if sys.argv[2] == "loop":
    import asyncio
    loop = asyncio.new_event_loop()
    task = loop.create_task(main())
    loop.call_later(0.01, loop.stop)
    loop.run_forever()
if sys.argv[2] == "raise":
    raise SystemExit(3)
print("done")
"""


@pytest.mark.parametrize(("how", "code"), [("plain", 0), ("loop", 0), ("raise", 3)])
def test_the_interpreter_ends_with_reads_in_flight(
    script: Script, noise: Path, how: str, code: int
) -> None:
    done = script(EXIT, noise, how)
    assert done.returncode == code, done
    assert "Fatal" not in done.stderr


def test_a_benchmark_that_ctrl_c_ends_leaves_nothing_behind(tmp_path: Path) -> None:
    benchmark = Path(__file__).parents[1] / "benchmark.py"
    started = subprocess.Popen(
        [sys.executable, benchmark, "requests"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    with started:
        assert started.stderr is not None
        while "round 1 of 7" not in (line := started.stderr.readline()):
            assert line, "it ended early"
        assert len(list(tmp_path.iterdir())) == 1
        started.send_signal(signal.SIGINT)
        assert "Traceback" not in started.stderr.read()
    assert started.returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_exceptions_in_callbacks_come_through(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def fail(_bytes: int) -> None:
        raise KeyError("from the callback")

    with pytest.raises(KeyError, match="from the callback"):
        millstream.pack({"a": os.urandom(1 << 20)}, out, progress=fail)
    assert list(tmp_path.iterdir()) == []
    millstream.pack({"a": os.urandom(1 << 20)}, out)
    with millstream.Storage() as storage, pytest.raises(KeyError, match="from the callback"):
        millstream.Package(out, storage).verify(fail)
