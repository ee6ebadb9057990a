"""Experts of a model on demand."""

import runpy
import threading
from pathlib import Path

import numpy as np
import pytest

import millstream

COUNT, BYTES = 32, 9_000


@pytest.fixture
def cache(storage: millstream.Storage, tmp_path: Path) -> millstream.ExpertCache:
    """Two parts of each expert, in two files; each byte is the expert's key."""
    content = b"".join(bytes([key]) * BYTES for key in range(COUNT))
    files = [tmp_path / "up", tmp_path / "down"]
    for file in files:
        file.write_bytes(content)
    experts = [[(0, key * BYTES, BYTES), (1, key * BYTES, BYTES)] for key in range(COUNT)]
    return millstream.ExpertCache(files, experts, 8, storage)


def is_right(expert: tuple[millstream.Buffer, ...], key: int) -> bool:
    return len(expert) == 2 and all(bytes(part) == bytes([key]) * BYTES for part in expert)


def test_experts_have_their_bytes_and_arrays_keep_them(cache: millstream.ExpertCache) -> None:
    assert len(cache) == COUNT
    cache.want([3, 5], deadline=0.002)
    cache.guess([7, 9])
    assert is_right(cache.wait(3), 3) and is_right(cache.wait(5, timeout=60), 5)
    cache.withdraw([7, 9])
    array = np.frombuffer(cache.wait(1)[0], np.uint8)
    assert not array.flags.writeable
    for key in range(COUNT):
        assert is_right(cache.wait(key), key)
    assert (array == 1).all(), "its slot was not used for others"
    assert cache.get(1) is not None
    stats = cache.stats()
    assert stats["misses"] >= COUNT - 8 and stats["evictions"] > 0 and stats["stall"] > 0
    assert stats["read_bytes"] >= COUNT * 2 * BYTES


def test_what_is_held_leaves_no_slot(cache: millstream.ExpertCache) -> None:
    held = [cache.wait(key) for key in range(8)]
    with pytest.raises(millstream.MillstreamError, match="each of the 8 slots"):
        cache.want([20])
    assert cache.get(20) is None
    held.pop()
    assert is_right(cache.wait(20), 20)


def test_wrong_arguments_and_closed_storages(
    cache: millstream.ExpertCache, storage: millstream.Storage, tmp_path: Path
) -> None:
    for call in (cache.want, cache.guess, cache.withdraw):
        with pytest.raises(millstream.InvalidArgument):
            call([COUNT])
    with pytest.raises(millstream.InvalidArgument):
        cache.want([0], deadline=float("nan"))
    up = tmp_path / "up"
    with pytest.raises(millstream.PastEnd):
        millstream.ExpertCache([up], [[(0, COUNT * BYTES, 1)]], 1, storage)
    with pytest.raises(millstream.InvalidArgument):
        millstream.ExpertCache([up], [[(1, 0, 1)]], 1, storage)
    with pytest.raises(millstream.NotFound):
        millstream.ExpertCache([tmp_path / "none"], [[(0, 0, 1)]], 1, storage)
    kept = cache.wait(2)
    storage.close()
    for closed in (lambda: cache.wait(2), lambda: cache.want([2]), lambda: cache.stats()):
        with pytest.raises(millstream.Closed):
            closed()
    assert is_right(kept, 2)


def test_threads_take_turns(cache: millstream.ExpertCache) -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for key in random.integers(0, COUNT, 50):
            if not is_right(cache.wait(int(key)), int(key)):
                wrong.append(int(key))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).parent.parent / "examples" / "experts.py"
    runpy.run_path(str(example), run_name="__main__")
    assert "promotions" in capsys.readouterr().out
