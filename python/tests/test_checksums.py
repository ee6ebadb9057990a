"""Reads that are compared with checksums."""

import errno
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import millstream
from millstream.safetensors import iter_tensors, load_file, safe_open, write_checksums

MIB = 1 << 20


@pytest.fixture
def tensors() -> dict[str, np.ndarray]:
    random_ = np.random.default_rng(7)
    made: dict[str, np.ndarray] = {"large": random_.integers(0, 2**60, (1000, 700))}
    for nth in range(40):
        length = int(random_.integers(1, 300_000 if nth % 4 else 2_000_000))
        made[f"w{nth}"] = random_.integers(0, 250, length).astype(np.uint8)
    made["wide"] = random_.integers(0, 2**60, (12, 40_000))
    return made


@pytest.fixture
def model(tmp_path: Path, tensors: dict[str, np.ndarray]) -> tuple[Path, Path]:
    path, sums = tmp_path / "model.safetensors", tmp_path / "sums"
    safetensors.numpy.save_file(tensors, path)
    write_checksums(path, sums)
    return path, sums


def same(ours: dict[str, Any], theirs: dict[str, np.ndarray]) -> None:
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        assert ours[name].dtype == array.dtype and ours[name].shape == array.shape
        assert ours[name].tobytes() == array.tobytes(), name
        assert ours[name].flags.writeable and ours[name].flags.aligned


def test_an_intact_model_is_loaded(
    model: tuple[Path, Path], tensors: dict[str, np.ndarray], storage: millstream.Storage
) -> None:
    path, sums = model
    same(load_file(path, checksums=sums, storage=storage), tensors)
    before = storage.stats()["stored_bytes"]
    same(load_file(path, checksums=sums, storage=storage), tensors)
    # Each block is read once, and the first for the header.
    assert storage.stats()["stored_bytes"] - before <= path.stat().st_size + MIB
    for window in (1, 3 * MIB):
        same(dict(iter_tensors(path, checksums=sums, window=window, storage=storage)), tensors)
    shards = {"large": (1, 1, 2), "wide": (1, 1, 2)}
    before = storage.stats()["stored_bytes"]
    loaded = load_file(path, ["large", "wide"], shards=shards, checksums=sums, storage=storage)
    wanted = tensors["large"].nbytes + tensors["wide"].nbytes
    assert storage.stats()["stored_bytes"] - before <= wanted + 5 * MIB
    expected = {name: np.split(tensors[name], 2, 1)[1].copy() for name in shards}
    same(loaded, expected)
    with safe_open(path, "np", checksums=sums, storage=storage) as opened:
        opened.prefetch(["w3", ("wide", (slice(3, 5), slice(9, 99)))])
        same({"w": opened.get_tensor("w3")}, {"w": tensors["w3"]})
        part = opened.get_slice("wide")[3:5, 9:99]
        assert part.tobytes() == tensors["wide"][3:5, 9:99].tobytes()
        same(dict(opened.tensor_stream()), tensors)


def test_every_damaged_byte_is_noticed(
    model: tuple[Path, Path], tensors: dict[str, np.ndarray]
) -> None:
    path, sums = model
    seed = random.randrange(2**32)
    print("seed", seed)  # Shown on failure.
    random_ = random.Random(seed)
    good = path.read_bytes()
    for nth in range(30):
        # The header now and then, in which a change may be refused itself.
        header = 8 + int.from_bytes(good[:8], "little")
        at = random_.randrange(header if nth % 5 == 0 else len(good))
        damaged = bytearray(good)
        damaged[at] ^= 1 << random_.randrange(8)
        path.write_bytes(damaged)
        for whole in (True, False):
            with pytest.raises(millstream.Corrupt, match="checksum") as caught:
                load_file(path, checksums=sums) if whole else list(
                    iter_tensors(path, checksums=sums)
                )
            assert caught.value.path == str(path)
            assert caught.value.offset == at - at % MIB
    path.write_bytes(good)
    same(load_file(path, checksums=sums), tensors)


def test_checksums_of_another_model(model: tuple[Path, Path], tmp_path: Path) -> None:
    path, sums = model
    other = tmp_path / "other.safetensors"
    os.rename(path, other)
    with pytest.raises(FileNotFoundError, match="another model") as caught:
        load_file(other, checksums=sums)
    assert caught.value.filename == str(other)
    safetensors.numpy.save_file({"a": np.ones(3)}, path)
    with pytest.raises(millstream.Corrupt, match="bytes, but its checksums"):
        load_file(path, checksums=sums)


def test_files_of_checksums_that_lie(model: tuple[Path, Path]) -> None:
    path, sums = model
    good = sums.read_bytes()
    for end in (*range(0, len(good), 7), len(good) - 1):
        for bad in (good[:end], good[:end] + bytes([good[end] ^ 4]) + good[end + 1 :]):
            sums.write_bytes(bad)
            with pytest.raises(millstream.Corrupt) as caught:
                load_file(path, checksums=sums)
            assert caught.value.path == str(sums) and caught.value.offset is not None
    with pytest.raises(FileNotFoundError):
        load_file(path, checksums=sums.with_name("missing"))
    with pytest.raises(IsADirectoryError):
        load_file(path, checksums=sums.parent)


def test_checksums_appear_once_they_are_complete(model: tuple[Path, Path], tmp_path: Path) -> None:
    path, _sums = model
    with pytest.raises(millstream.NotFound) as caught:
        write_checksums(path, tmp_path / "missing" / "sums")
    assert caught.value.path == str(tmp_path / "missing" / "sums")
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(millstream.InvalidArgument, match="the model itself"):
        write_checksums(path, path)
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(millstream.Corrupt):
        write_checksums(damaged, tmp_path / "new")
    assert not (tmp_path / "new").exists()
