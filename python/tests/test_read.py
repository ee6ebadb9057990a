"""Reads and writes."""

import asyncio
import gc
import json
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream
from millstream import _asyncio, _native


def test_a_whole_file_and_ranges_arrive(storage: millstream.Storage, noise: Path) -> None:
    expected = noise.read_bytes()
    queue = storage.queue()
    assert bytes(queue.read(noise).wait()) == expected
    assert bytes(queue.read(str(noise), 100, 5000).wait()) == expected[100:5100]
    assert bytes(queue.read(bytes(noise), 1 << 20, 1 << 20).wait()) == expected[1 << 20 : 2 << 20]
    with storage.open(noise) as file:
        assert file.size() == len(expected)
        assert bytes(queue.read(file, 7, 1).wait()) == expected[7:8]


def test_a_file_is_loaded_by_one_call(storage: millstream.Storage, noise: Path) -> None:
    assert bytes(storage.load(noise)) == noise.read_bytes()
    small = noise.with_name("small")
    small.write_bytes(b"some bytes")
    assert bytes(millstream.load(small)) == b"some bytes"
    with pytest.raises(millstream.NotFound, match="missing"):
        storage.load(noise.with_name("missing"))


def test_bytes_land_in_any_writable_buffer(storage: millstream.Storage, noise: Path) -> None:
    expected = noise.read_bytes()
    queue = storage.queue()
    for into in (bytearray(4096), np.zeros((16, 64), np.float32), storage.buffer(4096)):
        assert queue.read(noise, 8192, 4096, into=into).wait() is into
        assert bytes(memoryview(into).cast("B")) == expected[8192:12288]
    whole = np.empty(len(expected), np.uint8)
    queue.read(noise, into=whole).wait()
    assert whole.tobytes() == expected


def test_a_buffer_is_seen_by_numpy_without_a_copy(storage: millstream.Storage, noise: Path) -> None:
    buffer = storage.queue().read(noise, 0, 8192).wait()
    array = np.frombuffer(buffer, np.uint8)
    assert array.ctypes.data == buffer.address
    array[0] ^= 0xFF
    assert memoryview(buffer)[0] == array[0]
    assert not buffer.readonly


def test_memory_is_kept_until_the_read_has_completed(noise: Path) -> None:
    with millstream.Storage(disk_model="read=100M,latency=300ms") as storage:
        array = np.zeros(1 << 20, np.uint8)
        gone = weakref.ref(array)
        ticket = storage.queue().read(noise, 0, 1 << 20, into=array)
        with pytest.raises(BufferError):
            bytes_ = bytearray(16)
            other = storage.queue().read(noise, 0, 16, into=bytes_)
            bytes_.extend(b"more")
        other.wait()
        del array
        gc.collect()
        assert gone() is not None
        assert ticket.wait().tobytes() == noise.read_bytes()[: 1 << 20]
        del ticket
        gc.collect()
        assert gone() is None


def test_many_reads_are_one_batch(storage: millstream.Storage, noise: Path) -> None:
    expected = noise.read_bytes()
    queue = storage.queue(capacity=64)  # A full queue waits for room.
    file = storage.open(noise)
    tickets = queue.read_many((file, at * 4096, 4096) for at in range(500))
    for at, buffer in enumerate(millstream.wait_all(tickets)):
        assert bytes(buffer) == expected[at * 4096 : (at + 1) * 4096]
    array = np.zeros((4, 16), np.uint8)
    millstream.wait_all(queue.read_many((file, at * 16, 16, array[at]) for at in range(4)))
    assert array.tobytes() == expected[:64]


def test_a_hundred_thousand_tickets(storage: millstream.Storage, noise: Path) -> None:
    file = storage.open(noise)
    into = bytearray(100_000)
    view = memoryview(into)
    requests = ((file, at, 1, view[at : at + 1]) for at in range(len(into)))
    tickets = storage.queue().read_many(requests)
    results = millstream.wait_all(tickets)
    assert len(results) == len(into) and into == noise.read_bytes()[: len(into)]


def test_at_most_reads_what_there_is_of_a_range(
    storage: millstream.Storage, noise: Path
) -> None:
    expected, queue = noise.read_bytes(), storage.queue()
    begin = len(expected) - 100
    with queue.batch() as batch:
        tickets = [batch.read(noise, begin, 4096, at_most=True)]
        array = np.zeros(4096, np.uint8)
        into = batch.read(noise, begin, 4096, into=array, at_most=True)
    tickets += [
        queue.read(noise, begin, 4096, at_most=True),
        queue.read(noise, begin, at_most=True),
    ]
    for ticket in tickets:
        assert bytes(ticket.wait()) == expected[begin:]
    assert into.wait() is array and array.tobytes() == expected[begin:] + bytes(3996)
    memory = bytearray(4096)
    assert queue.read(noise, begin, into=memory, at_most=True).wait() is memory
    assert memory == array.tobytes()
    assert bytes(queue.read(noise, 0, 10, at_most=True).wait()) == expected[:10]
    for beyond in (len(expected), 2 * len(expected)):
        assert len(queue.read(noise, beyond, 10, at_most=True).wait()) == 0
    with pytest.raises(millstream.PastEnd):
        queue.read(noise, begin, 4096).wait()


def test_writes_appends_and_replaces(storage: millstream.Storage, tmp_path: Path) -> None:
    path = tmp_path / "written"
    queue = storage.queue()
    assert queue.write(path, b"hello world").wait() == 11
    with storage.open(path, write=True) as file:
        assert queue.write(file, np.frombuffer(b"W", np.uint8), 6).wait() == 1
        assert queue.append(file, bytearray(b"!")).wait() == 1
        assert queue.sync(file).wait() is None
    assert path.read_bytes() == b"hello World!"
    assert queue.replace(path, memoryview(b"new")).wait() is None
    assert path.read_bytes() == b"new"


def test_encoded_bytes_are_decoded(storage: millstream.Storage, tmp_path: Path) -> None:
    import zlib

    raw = b"some text " * 100_000
    path = tmp_path / "deflated"
    path.write_bytes(zlib.compress(raw))
    ticket = storage.queue().read(path, codec="zlib", raw_length=len(raw))
    assert bytes(ticket.wait()) == raw
    with pytest.raises(millstream.Corrupt):
        storage.queue().read(path, codec="zlib", raw_length=len(raw) - 1).wait()
    with pytest.raises(ValueError, match="none of stored"):
        storage.queue().read(path, codec="rar")  # type: ignore[call-overload]


def test_groups_count_and_wait(storage: millstream.Storage, noise: Path) -> None:
    group = millstream.Group()
    queue = storage.queue()
    tickets = [queue.read(noise, 0, 1000, group=group) for _ in range(5)]
    tickets.append(queue.read("/no/such/file", 0, 1, group=group))
    group.wait()
    assert (group.succeeded, group.failed, group.bytes, group.remaining) == (5, 1, 5000, 0)
    assert all(ticket.done() for ticket in tickets) and group.done()
    assert [ticket.waits_for() for ticket in tickets] == [None] * 6


def test_a_ticket_tells_what_it_waits_for(storage: millstream.Storage, noise: Path) -> None:
    with storage.queue().batch() as batch:
        ticket = batch.read(noise, 0, 10)
        assert ticket.waits_for() == "submission" and not ticket.done()
    assert len(ticket.wait()) == 10
    assert ticket.waits_for() is None and ticket.done()


def test_a_ticket_tells_what_holds_its_request(
    occupied: millstream.Storage, noise: Path
) -> None:
    def reaches(ticket: millstream.Ticket[millstream.Buffer], cause: str | None) -> None:
        deadline = time.monotonic() + 60
        while ticket.waits_for() != cause:
            assert time.monotonic() < deadline, f"{ticket.waits_for()}, not {cause}"
            time.sleep(0.001)

    behind = occupied.queue().read(noise, 1 << 20, 4096)
    reaches(behind, "device")
    behind.cancel()
    reaches(behind, None)
    with millstream.Storage() as storage:
        limited = storage.queue(bandwidth=1)
        reaches(limited.read(noise, 0, 4096), None)
        held = limited.read(noise, 0, 4096)
        reaches(held, "bandwidth")
        held.cancel()
        reaches(held, None)
        counts = storage.stats()
        assert (counts["blocked_by_application"], counts["windows_outside"]) == (0, 0)


def test_cancel(occupied: millstream.Storage, noise: Path) -> None:
    queue = occupied.queue()
    group = millstream.Group()
    later = [queue.read(noise, 8192 * at, 4096, tag=at, group=group) for at in range(2, 200)]
    later[190].cancel()
    with pytest.raises(millstream.Canceled) as caught:
        later[190].wait(5)
    assert caught.value.kind == "canceled"
    queue.cancel_tagged(0xFFFF_FFFF, 100)
    with pytest.raises(millstream.Canceled):
        later[98].wait(5)
    queue.cancel_group(group)
    group.wait(10)
    assert (group.canceled, group.failed, group.succeeded) == (198, 0, 0)
    assert occupied.stats()["in_flight"] == 1


def test_priorities_are_served_first(noise: Path) -> None:
    with millstream.Storage(disk_model="read=10M,depth=1", depth=1, access="direct") as storage:
        queue = storage.queue()
        order: list[str] = []
        lock = threading.Lock()

        def wait(name: str, ticket: millstream.Ticket[millstream.Buffer]) -> None:
            ticket.wait()
            with lock:
                order.append(name)

        with queue.batch() as batch:
            low = [batch.read(noise, at << 18, 1 << 18, priority="low") for at in range(8)]
            tickets = [("low", ticket) for ticket in low]
            tickets.append(("high", batch.read(noise, 1 << 21, 1 << 18, priority="realtime")))
        threads = [threading.Thread(target=wait, args=one) for one in tickets]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert order.index("high") < 4
    with pytest.raises(ValueError, match="none of low"):
        queue.read(noise, priority="urgent")  # type: ignore[call-overload]


def test_await_in_asyncio(storage: millstream.Storage, noise: Path) -> None:
    expected = noise.read_bytes()

    async def main() -> None:
        queue = storage.queue()
        group = millstream.Group()
        tickets = [queue.read(noise, at * 8192, 8192, group=group) for at in range(300)]
        for at, buffer in enumerate(await asyncio.gather(*tickets)):
            assert bytes(buffer) == expected[at * 8192 : (at + 1) * 8192]
        await group
        assert await tickets[0] is tickets[0].wait()
        with pytest.raises(FileNotFoundError):
            await queue.read("/no/such/file")

    asyncio.run(main())
    asyncio.run(main())  # In a new loop.


def test_awaits_that_are_given_up_leave_nothing_behind(
    storage: millstream.Storage, noise: Path
) -> None:
    async def main() -> None:
        group, batch = millstream.Group(), storage.queue().batch()
        batch.read(noise, 0, 16, group=group)
        for _ in range(1000):
            task = asyncio.ensure_future(group)
            await asyncio.sleep(0)  # It has registered.
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        bridge = _asyncio._bridges[asyncio.get_running_loop()]
        batch.submit()
        group.wait()
        storage.close()  # No thread wakes anyone from here on.
        assert bridge.completions.take() == [] and bridge.waiting == {}

    asyncio.run(main())


def test_of_many_waiters_those_that_remain_are_woken(
    occupied: millstream.Storage, noise: Path
) -> None:
    group, completions, other = millstream.Group(), _native.Completions(), _native.Completions()
    ticket = occupied.queue().read(noise, 1 << 20, 4096, group=group)
    waitables: list[Any] = [ticket, group]
    for nth, waitable in enumerate(waitables):
        for token in range(100):
            assert not waitable._notify(completions, 100 * nth + token)
            assert not waitable._notify(other, 100 * nth + token)
        for token in range(99):
            waitable._forget(completions, 100 * nth + token)
    ticket.cancel()
    occupied.close(0)
    assert sorted(completions.take()) == [99, 199] and sorted(other.take()) == list(range(200))


class Owner(bytearray):
    """Memory with attributes."""


def test_cycles_through_tickets_are_collected(storage: millstream.Storage, noise: Path) -> None:
    owner = Owner(4096)
    group, queue = millstream.Group(), storage.queue()
    ticket = queue.read(noise, 0, 4096, into=owner, group=group)
    buffer = queue.read(noise, 0, 4096).wait()
    owner.__dict__ = {"parts": [ticket, buffer, group, queue]}
    ticket.wait()
    gone = [weakref.ref(one) for one in (owner, ticket, buffer, queue)]
    del owner, ticket, buffer, group, queue
    assert all(one() is not None for one in gone)
    gc.collect()
    assert [one() for one in gone] == [None] * len(gone)


def test_memory_of_a_pending_read_is_not_collected(
    occupied: millstream.Storage, noise: Path
) -> None:
    owner: Any = Owner(4096)
    owner.ticket = occupied.queue().read(noise, 1 << 20, 4096, into=owner)
    kept: Any = weakref.ref(owner)
    del owner
    gc.collect()
    assert kept() is not None
    kept().ticket.cancel()
    with pytest.raises(millstream.Canceled):
        kept().ticket.wait()
    gc.collect()
    assert kept() is None


def test_canceling_a_task_cancels_its_request(
    occupied: millstream.Storage, noise: Path
) -> None:
    async def main() -> None:
        queue = occupied.queue()
        ticket = queue.read(noise, 1 << 20, 1 << 20)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(ticket, 0.1)
        with pytest.raises(millstream.Canceled):
            await asyncio.wait_for(asyncio.ensure_future(ticket), 10)

    asyncio.run(main())


def test_two_threads_wait_for_one_ticket_while_a_third_cancels(
    occupied: millstream.Storage, noise: Path
) -> None:
    queue = occupied.queue()
    ticket = queue.read(noise, 1 << 20, 4096)
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            ticket.wait(30)
        except millstream.Canceled as error:
            caught.append(error)

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    ticket.cancel()
    for thread in threads:
        thread.join(30)
    assert len(caught) == 2


def test_other_threads_run_during_a_wait(slow: millstream.Storage, noise: Path) -> None:
    ticket = slow.queue().read(noise)
    counted = 0

    def count() -> None:
        nonlocal counted
        for _ in range(10):
            time.sleep(0.01)
            counted += 1

    thread = threading.Thread(target=count)
    thread.start()
    with pytest.raises(TimeoutError):
        ticket.wait(0.5)
    thread.join()
    assert counted == 10


def test_stats_and_traces(storage: millstream.Storage, noise: Path) -> None:
    storage.start_trace()
    storage.queue(name="traced").read(noise).wait()
    stats = storage.stats()
    assert stats["done"] == 1 and stats["raw_bytes"] == noise.stat().st_size
    events = json.loads(storage.take_trace())["traceEvents"]
    assert any(event["ph"] == "X" for event in events)


def test_the_environment_does_not_choose_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = set()
    for value in ("threads", "uring", "tape"):
        monkeypatch.setenv("MILLSTREAM_BACKEND", value)
        with millstream.Storage() as storage:
            devices.add(storage.device)
    assert len(devices) == 1


def test_a_disk_model_slows_reads_down(noise: Path) -> None:
    with millstream.Storage(disk_model="read=10M", access="direct") as storage:
        started = time.monotonic()
        storage.queue().read(noise, 0, 2 << 20).wait()
        assert time.monotonic() - started > 0.15
    with pytest.raises(ValueError, match="hdd"):
        millstream.Storage(disk_model="floppy")
