"""`safe_open`, compared with the reference implementation; parts of tensors; reading ahead."""

import json
import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import millstream
from millstream import _plan
from millstream.safetensors import load_file, safe_open

SHAPES: list[tuple[int, ...]] = [(), (7,), (5, 6), (3, 4, 5), (2, 1, 3, 2), (64, 33), (1, 1)]
SHAPES += [(3, 2000)]
KINDS: list[Any] = [np.int16, np.float32, np.uint8, np.float64, np.complex64, np.bool_]


@pytest.fixture
def random_() -> random.Random:
    seed = random.randrange(2**32)
    print("seed", seed)  # Shown on failure.
    return random.Random(seed)


@pytest.fixture
def tensors() -> dict[str, np.ndarray]:
    random_ = np.random.default_rng(1)
    made = {}
    for nth, shape in enumerate(SHAPES):
        kind = KINDS[nth % len(KINDS)]
        made[f"t{nth}"] = random_.integers(0, 2 if kind == np.bool_ else 250, shape).astype(kind)
    return made


@pytest.fixture
def path(tmp_path: Path, tensors: dict[str, np.ndarray]) -> Path:
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(tensors, path, {"k": "v"})
    return path


def same(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs) and ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape and ours.tobytes() == theirs.tobytes()


def test_the_same_answers_as_the_reference(path: Path, storage: millstream.Storage) -> None:
    theirs: Any
    with (
        safe_open(path, "np", storage=storage) as ours,
        safetensors.safe_open(path, "np") as theirs,
    ):
        assert ours.keys() == theirs.keys() and ours.metadata() == theirs.metadata()
        assert ours.offset_keys() == theirs.offset_keys()
        for name in theirs.keys():
            same(ours.get_tensor(name), theirs.get_tensor(name))
            our_slice, their_slice = ours.get_slice(name), theirs.get_slice(name)
            assert our_slice.get_shape() == their_slice.get_shape()
            assert our_slice.get_dtype() == their_slice.get_dtype()
        every = ours.get_tensors()
        assert list(every) == list(theirs.get_tensors())
        assert all(every[name].tobytes() == theirs.get_tensor(name).tobytes() for name in every)
    safetensors.numpy.save_file({}, path)
    assert safe_open(path, framework="numpy").metadata() is None


def any_index(random_: random.Random, shape: tuple[int, ...]) -> Any:
    """An index, mostly a valid one."""
    count = random_.randint(0, len(shape))
    parts: list[Any] = []
    for size in shape[:count]:
        if random_.random() < 0.3:
            parts.append(random_.randint(-size, size - 1))
            continue
        start = random_.choice([None, random_.randint(0, size - 1)])
        stop = random_.choice([None, random_.randint(start or 0, size)])
        step = random_.choice([None, None, 1, 2, 3])
        parts.append(slice(start, stop, step))
    if random_.random() < 0.3:
        # From the end, as what is behind the ellipsis.
        parts.insert(random_.randint(0, len(parts)), ...)
    if random_.random() < 0.05:
        wrong: list[Any] = [None, 1.5, "a", [0], [0, 1], ..., 2**70]
        wrong += [slice(0, 2**70), slice(-3, None)]
        wrong += [slice(None, None, -1), slice(None, None, 0), slice(1.0, 2)]
        wrong += [10**6, -(10**6), slice(0, 10**6)]
        at = random_.randint(0, len(parts))
        # One thing that is wrong: of several, either may be reported.
        parts[at : at + random_.randint(0, len(parts) == len(shape))] = [random_.choice(wrong)]
    return parts[0] if len(parts) == 1 and random_.random() < 0.5 else tuple(parts)


# What the reference raises, and what is raised here.
ERRORS: dict[Any, Any] = {
    safetensors.SafetensorError: (IndexError, millstream.InvalidArgument),
    OverflowError: (OverflowError, IndexError, millstream.InvalidArgument),
    TypeError: (TypeError, IndexError),
}


@pytest.mark.parametrize("sizes", [None, (64, 8), (100, 0), (4096, 64)])
def test_any_index_gives_what_the_reference_gives(
    path: Path,
    random_: random.Random,
    sizes: tuple[int, int] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if sizes is not None:
        # So that small tensors have many pieces, too.
        monkeypatch.setattr(_plan, "SLOT_BYTES", sizes[0])
        monkeypatch.setattr(_plan, "_GAP_BYTES_MAX", sizes[1])
    theirs: Any = safetensors.safe_open(path, "np")
    ours, refused = safe_open(path, "np"), 0
    for _ in range(500):
        nth = random_.randrange(len(SHAPES))
        index = any_index(random_, SHAPES[nth])
        try:
            expected = theirs.get_slice(f"t{nth}")[index]
        except tuple(ERRORS) as error:
            with pytest.raises(ERRORS[type(error)]):
                print(index, ours.get_slice(f"t{nth}")[index])
            refused += 1
            continue
        except BaseException as error:
            # The reference panics where a slice ends before it begins.
            assert "PanicException" in type(error).__name__, (index, error)
            continue
        part = ours.get_slice(f"t{nth}")[index]
        assert part.flags.writeable and part.flags.aligned
        same(part, expected)
    assert refused > 0


def test_indexes_beyond_the_reference(path: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.safetensors"
    safetensors.numpy.save_file({"e": np.zeros((0, 3), np.float32)}, empty)
    part = safe_open(empty, "np").get_slice("e")
    for index in (slice(None), slice(0, 0), ..., (slice(None), 1), (slice(None), slice(1, 2))):
        same(part[index], np.zeros((0, 3), np.float32)[index])
    with pytest.raises(IndexError):
        part[0]
    with pytest.raises(IndexError):
        safe_open(path, "np").get_slice("t1")[4:2]


def test_what_is_wrong_is_refused_as_by_the_reference(path: Path) -> None:
    for framework, device in [("jaxx", "cpu"), ("np", "cuda:0")]:
        with pytest.raises(safetensors.SafetensorError):
            safetensors.safe_open(path, framework, device)
        with pytest.raises(millstream.InvalidArgument):
            safe_open(path, framework, device)
    for opener in (safe_open, safetensors.safe_open):
        missing: Any = opener
        with pytest.raises(FileNotFoundError):
            missing(path.with_name("missing"), "np")
        with pytest.raises(TypeError):
            missing(path)
        with pytest.raises((KeyError, safetensors.SafetensorError)):
            missing(path, "np").get_tensor("missing")
        with pytest.raises((KeyError, safetensors.SafetensorError)):
            missing(path, "np").get_slice("missing")
        with pytest.raises(TypeError):
            missing(path, "np").get_tensor(3)
    broken = path.with_name("broken")
    broken.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(safetensors.SafetensorError):
        safetensors.safe_open(broken, "np")
    with pytest.raises(millstream.Corrupt):
        safe_open(broken, "np")


def test_a_closed_model_is_refused(path: Path) -> None:
    with safe_open(path, "np") as model:
        part = model.get_slice("t1")
        model.prefetch()
    for use in (
        lambda: model.keys(),
        lambda: model.offset_keys(),
        lambda: model.get_tensor("t1"),
        lambda: model.get_slice("t1"),
        lambda: model.prefetch(),
        lambda: model.tensor_stream(),
        lambda: part[0],
    ):
        with pytest.raises(millstream.Closed):
            use()


def test_types_that_numpy_lacks(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    path = tmp_path / "types.safetensors"
    tensors = {
        name: np.arange(12).reshape(3, 4).astype(getattr(ml_dtypes, name))
        for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")
    }
    names = {"bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}
    header, data = {}, b""
    for name, one in tensors.items():
        place = [len(data), len(data) + one.nbytes]
        kind = names.get(name, "F8_E8M0")
        header[name] = {"dtype": kind, "shape": [3, 4], "data_offsets": place}
        data += one.tobytes()
    header["q"] = {"dtype": "F4", "shape": [2, 4], "data_offsets": [len(data), len(data) + 4]}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data + bytes([1, 2, 3, 4]))
    with safe_open(path, "np") as model:
        for name, one in tensors.items():
            same(model.get_tensor(name), one)
            same(model.get_slice(name)[1:, ::2], one[1:, ::2])
        assert model.get_slice("q").get_dtype() == "F4"
        assert model.get_slice("q")[...].tolist() == model.get_tensor("q").tolist() == [1, 2, 3, 4]
        with pytest.raises(ValueError, match="F4"):
            model.get_slice("q")[0]


def cold(path: Path) -> None:
    file = os.open(path, os.O_RDWR)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


@pytest.fixture
def wide(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """A matrix whose rows are far from one another."""
    path = tmp_path / "wide.safetensors"
    matrix = np.random.default_rng(2).integers(0, 2**60, (24, 50_000))
    safetensors.numpy.save_file({"w": matrix, "x": np.ones(7)}, path)
    return path, matrix


def stored(storage: millstream.Storage) -> int:
    return storage.stats()["stored_bytes"]


def test_only_the_needed_bytes_are_read(wide: tuple[Path, np.ndarray]) -> None:
    path, matrix = wide
    with millstream.Storage() as own, safe_open(path, "np", storage=own) as model:
        part = model.get_slice("w")
        before = stored(own)
        assert before < 2 << 20  # The header.
        cases: list[tuple[Any, int]] = [
            (3, 400_000),
            (slice(2, 4), 800_000),
            ((slice(None), slice(0, 100)), 24 * 800),
            ((slice(5, 7), slice(10, 30_000, 7)), 2 * 240_000),
            ((slice(None), 49_999), 24 * 8),
        ]
        for index, most in cases:
            same(part[index], matrix[index])
            assert stored(own) - before <= most
            before = stored(own)


def test_columns_that_are_near_are_read_together(tmp_path: Path) -> None:
    path = tmp_path / "narrow.safetensors"
    matrix = np.arange(3000 * 1000, dtype=np.float32).reshape(3000, 1000)
    safetensors.numpy.save_file({"w": matrix}, path)
    with millstream.Storage() as own, safe_open(path, "np", storage=own) as model:
        done = own.stats()["done"]
        same(model.get_slice("w")[:, 250:500], matrix[:, 250:500])
        assert own.stats()["done"] - done <= 3


def test_what_is_prefetched_is_there_when_it_is_asked_for(
    path: Path, tensors: dict[str, np.ndarray], storage: millstream.Storage
) -> None:
    with safe_open(path, "np", storage=storage) as model:
        model.prefetch()
        for name in model.offset_keys():
            same(model.get_tensor(name), tensors[name])
        model.prefetch(["t3", ("t5", (slice(3, 9), slice(2, 5))), ("t5", 4), "t3"], window=1)
        done = storage.stats()["done"]
        same(model.get_slice("t5")[4], tensors["t5"][4])  # Out of turn.
        same(model.get_slice("t5")[3:9, 2:5], tensors["t5"][3:9, 2:5])
        same(model.get_tensor("t3"), tensors["t3"])
        assert storage.stats()["done"] - done <= 3
        same(model.get_tensor("t3"), tensors["t3"])  # Each is kept for one call.
        with pytest.raises(KeyError):
            model.prefetch(["missing"])
        with pytest.raises(ValueError, match="window"):
            model.prefetch(window=0)


def test_prefetching_keeps_its_window(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    tensors = {f"w{nth:02}": np.full(1 << 20, nth, np.uint16) for nth in range(20)}
    safetensors.numpy.save_file(tensors, path)
    with millstream.Storage() as own, safe_open(path, "np", storage=own) as model:
        before = stored(own)
        model.prefetch(window=5 << 20)
        for nth, name in enumerate(model.offset_keys()):
            if nth % 3 == 0:  # The others stay untaken for a while.
                assert model.get_tensor(name)[0] == nth
            assert stored(own) - before <= (5 + 2 * nth + 2) << 20
        for nth, name in enumerate(model.offset_keys()):
            if nth % 3:
                assert model.get_tensor(name)[0] == nth


def test_prefetch_of_a_file_that_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "cut.safetensors"
    safetensors.numpy.save_file({f"w{nth}": np.ones(1 << 18) for nth in range(4)}, path)
    with millstream.Storage() as own, safe_open(path, "np", storage=own) as model:
        first, *_, last = model.offset_keys()
        os.truncate(path, 3 << 20)
        model.prefetch()
        for _ in range(2):
            with pytest.raises((millstream.PastEnd, millstream.IoError)) as caught:
                model.get_tensor(last)
            assert caught.value.path == str(path)
        # The error of another tensor is not that of this one.
        model.prefetch([last, first])
        assert model.get_tensor(first).sum() == 1 << 18


def test_the_stream_keeps_the_order_of_the_file(
    path: Path, tensors: dict[str, np.ndarray], storage: millstream.Storage
) -> None:
    with safe_open(path, "np", storage=storage) as model:
        for window in (1, 100_000, None):
            names = []
            for name, one in model.tensor_stream(window=window):
                same(one, tensors[name])
                names.append(name)
            assert names == model.offset_keys()
        assert [name for name, _ in model.tensor_stream(["t2", "t1"])] == [
            name for name in model.offset_keys() if name in ("t1", "t2")
        ]
        with pytest.raises(KeyError):
            model.tensor_stream(["missing"])
        with pytest.raises(ValueError, match="window"):
            model.tensor_stream(window=0)


def test_a_stream_that_is_dropped_cancels_its_reads(path: Path, slow: millstream.Storage) -> None:
    model = safe_open(path, "np")
    tensors = model.tensor_stream()
    next(tensors)
    tensors.close()  # type: ignore[attr-defined]
    assert model.get_tensor("t1") is not None


def test_threads_share_a_model(path: Path, tensors: dict[str, np.ndarray]) -> None:
    with safe_open(path, "np") as model, ThreadPoolExecutor(8) as pool:
        model.prefetch()
        names = [*tensors, *tensors, *tensors]
        barrier = threading.Barrier(8)

        def read(name: str) -> Any:
            if not barrier.broken:
                try:
                    barrier.wait(1)
                except threading.BrokenBarrierError:
                    pass
            return model.get_tensor(name)

        for name, one in zip(names, pool.map(read, names), strict=True):
            same(one, tensors[name])


def test_a_folder_is_a_model(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"a": np.ones(3)}, tmp_path / "model.safetensors")
    assert safe_open(tmp_path, "np").get_tensor("a").sum() == 3


@pytest.fixture
def matrices(tmp_path: Path) -> Iterator[tuple[Path, dict[str, np.ndarray]]]:
    random_ = np.random.default_rng(3)
    tensors: dict[str, np.ndarray] = {
        "up": random_.standard_normal((512, 768)).astype(np.float32),
        "down": random_.standard_normal((768, 512)).astype(np.float32),
        "wide": random_.standard_normal((8, 80_000)),
        "experts": random_.integers(0, 99, (4, 6, 8, 10)).astype(np.int8),
        "norm": random_.standard_normal(768),
    }
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(tensors, path)
    yield path, tensors


@pytest.mark.parametrize("world", [1, 2, 4])
def test_a_rank_gets_its_part(
    matrices: tuple[Path, dict[str, np.ndarray]], world: int, storage: millstream.Storage
) -> None:
    path, tensors = matrices
    dimensions = {"up": 0, "down": 1, "wide": -1, "experts": 2}
    for rank in range(world):
        shards = {name: (dimension, rank, world) for name, dimension in dimensions.items()}
        loaded = load_file(path, shards=shards, storage=storage)
        assert loaded.keys() == tensors.keys()
        for name, one in tensors.items():
            if name in dimensions:
                one = np.ascontiguousarray(np.split(one, world, dimensions[name])[rank])
            same(loaded[name], one)


def test_a_rank_reads_little_more_than_its_part(wide: tuple[Path, np.ndarray]) -> None:
    path, matrix = wide
    for dimension in (0, 1):
        with millstream.Storage() as own:
            loaded = load_file(path, shards={"w": (dimension, 1, 2)}, storage=own)
            same(loaded["w"], np.ascontiguousarray(np.split(matrix, 2, dimension)[1]))
            # And the header, which is read with up to a MiB.
            assert stored(own) <= matrix.nbytes // 2 + (1 << 20) + 4096


@pytest.mark.parametrize(
    "how", [(0, 2, 2), (0, -1, 2), (0, 0, 0), (2, 0, 2), (-3, 0, 2), (0, 0, 5)]
)
def test_parts_that_do_not_exist(
    matrices: tuple[Path, dict[str, np.ndarray]], how: tuple[int, int, int]
) -> None:
    with pytest.raises(millstream.InvalidArgument, match="'up'"):
        load_file(matrices[0], shards={"up": how})


def test_parts_of_missing_tensors(matrices: tuple[Path, dict[str, np.ndarray]]) -> None:
    with pytest.raises(KeyError, match="missing"):
        load_file(matrices[0], shards={"missing": (0, 0, 2)})
    with pytest.raises(TypeError):
        load_file(matrices[0], shards={"up": (0, 0.5, 2)})  # type: ignore[dict-item]
