"""Records of a package."""

import multiprocessing
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

import millstream

COUNT = 500


def number(buffer: millstream.Buffer) -> int:
    """Decodes a record; a function of the module, so that it can be pickled."""
    return int(bytes(buffer).split()[1])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "records.mpak"
    millstream.pack({f"{nth:04}": b"record %d" % nth for nth in range(COUNT)}, made)
    return made


def test_random_access(path: Path, storage: millstream.Storage) -> None:
    dataset = millstream.Dataset(path, decode=number, storage=storage)
    assert len(dataset) == COUNT
    assert [dataset[at] for at in (0, 7, -1)] == [0, 7, COUNT - 1]
    assert dataset.__getitems__([5, 3, 5]) == [5, 3, 5]
    with pytest.raises(IndexError):
        dataset[COUNT]
    assert list(dataset) == list(range(COUNT))
    raw = millstream.Dataset(path, ["0002", "0001"], storage=storage)
    assert [bytes(record) for record in raw] == [b"record 2", b"record 1"]
    assert len(millstream.Dataset(path, "00?5", storage=storage)) == 10
    with pytest.raises(KeyError):
        millstream.Dataset(path, ["missing"], storage=storage)


def test_epochs(path: Path, storage: millstream.Storage) -> None:
    dataset = millstream.Dataset(path, decode=number, storage=storage)
    first, again = list(dataset.epoch(1)), list(dataset.epoch(1, prefetch=1))
    other = list(dataset.epoch(2, prefetch=1000))
    assert first == again != other
    assert sorted(first) == sorted(other) == list(range(COUNT))
    assert list(dataset.epoch(shuffle=False)) == list(range(COUNT))
    parts = [list(dataset.epoch(1, part=(rank, 3))) for rank in range(3)]
    assert [parts[nth % 3][nth // 3] for nth in range(COUNT)] == first
    for wrong in ({"prefetch": 0}, {"part": (3, 3)}):
        with pytest.raises(ValueError):
            dataset.epoch(**wrong)


def test_an_epoch_that_is_dropped_cancels_its_reads(path: Path) -> None:
    with millstream.Storage() as opening:
        millstream.Package(path, opening)
    with millstream.Storage(disk_model="read=1M,latency=5ms,depth=1", depth=1) as slow:
        epoch = millstream.Dataset(path, storage=slow).epoch(1, prefetch=200)
        next(epoch)
        epoch.close()  # type: ignore[attr-defined]
        assert slow.stats()["done"] < 150


def test_exceptions_of_decode_come_through(path: Path) -> None:
    def fail(_buffer: millstream.Buffer) -> int:
        raise ZeroDivisionError

    dataset = millstream.Dataset(path, decode=fail)
    with pytest.raises(ZeroDivisionError):
        dataset[0]
    with pytest.raises(ZeroDivisionError):
        next(dataset.epoch())


def test_threads_share_the_storage(path: Path, storage: millstream.Storage) -> None:
    dataset = millstream.Dataset(path, decode=number, storage=storage)
    found: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: found.append(list(dataset.epoch(3)))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(one == found[0] for one in found)
    assert storage.stats()["opens"] <= 2


def _sum(dataset: "millstream.Dataset[int]", rank: int, out: "multiprocessing.Queue[int]") -> None:
    out.put(sum(dataset.epoch(5, part=(rank, 2))))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_open_their_own_storage(path: Path, method: str) -> None:
    context = multiprocessing.get_context(method)
    with millstream.Storage() as storage:
        dataset = millstream.Dataset(path, decode=number, storage=storage)
        assert dataset[3] == 3
        out = context.Queue()
        make: Any = context.Process  # type: ignore[attr-defined]
        workers = [make(target=_sum, args=(dataset, rank, out)) for rank in range(2)]
        for worker in workers:
            worker.start()
        total = sum(out.get(timeout=60) for _ in workers)
        for worker in workers:
            worker.join(60)
            assert worker.exitcode == 0
        assert total == sum(range(COUNT)) and dataset[4] == 4


def test_pickling_notices_a_package_that_was_replaced(path: Path) -> None:
    dataset = millstream.Dataset(path, decode=number)
    pickled = pickle.dumps(dataset)
    assert pickle.loads(pickled)[9] == 9
    del dataset  # A storage keeps a file open while a package of it is in use.
    millstream.pack({"0000": b"other 5"}, path)
    with pytest.raises(millstream.Changed, match="replaced"):
        pickle.loads(pickled)[0]


def test_torch_loads_it(path: Path) -> None:
    data = pytest.importorskip("torch.utils.data")
    dataset = millstream.Dataset(path, decode=number)
    for workers in (0, 2):
        loader = data.DataLoader(dataset, batch_size=50, shuffle=True, num_workers=workers)
        assert sorted(int(one) for batch in loader for one in batch) == list(range(COUNT))
