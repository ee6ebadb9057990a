"""Models that processes load together."""

import glob
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import millstream
from millstream.safetensors import load_shared

# Loads a model, tells what it has read, and waits for the others.
LOADER = """
import sys, zlib
import millstream.safetensors
from millstream._native import SharedModel
path, group = sys.argv[1:]
own = SharedModel(path, group, None)
tensors = millstream.safetensors.load_shared(path, group)
sums = {name: zlib.crc32(array.tobytes()) for name, array in tensors.items()}
tensors["large"][0] = 1
print(own.read_bytes, sums, flush=True)
sys.stdin.read()
own.leave()
"""


@pytest.fixture
def tensors() -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    return {
        "large": random.integers(0, 255, 70 << 20, dtype=np.uint8),
        "small": random.random((30, 40)),
        "none": np.empty((0, 3), np.float32),
    }


@pytest.fixture
def model(tmp_path: Path, tensors: dict[str, np.ndarray]) -> Path:
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(tensors, path)
    return path


def in_memory(group: str) -> list[str]:
    return glob.glob(f"/dev/shm/*millstream-{group}")


def test_processes_read_each_byte_once_and_leave_nothing(model: Path) -> None:
    group = f"python-{os.getpid()}"
    command = [sys.executable, "-c", LOADER, str(model), group]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    loaders = [subprocess.Popen(command, **pipes) for _ in range(4)]  # type: ignore[call-overload]
    try:
        told = [loader.stdout.readline().split(maxsplit=1) for loader in loaders]
        assert in_memory(group)
        assert sum(int(read) for read, _sums in told) == model.stat().st_size
        assert len({sums for _read, sums in told}) == 1, "what one writes is its own"
    finally:
        for loader in loaders:
            loader.communicate()
    assert [loader.returncode for loader in loaders] == [0] * 4
    assert not in_memory(group)


def test_tensors_are_those_of_the_file_and_keep_the_memory(
    model: Path, tensors: dict[str, np.ndarray], storage: millstream.Storage
) -> None:
    group = f"kept-{os.getpid()}"
    loaded = load_shared(model, group, storage=storage)
    assert loaded.keys() == tensors.keys()
    for name, array in tensors.items():
        np.testing.assert_array_equal(loaded[name], array, strict=True)
    storage.close()
    part = loaded["small"][3:5]
    del loaded
    assert in_memory(group)
    np.testing.assert_array_equal(part, tensors["small"][3:5])
    del part
    assert not in_memory(group)


def test_a_group_in_use_for_another_model_is_refused(model: Path, tmp_path: Path) -> None:
    group = f"refused-{os.getpid()}"
    other = tmp_path / "other.safetensors"
    safetensors.numpy.save_file({"a": np.ones(3)}, other)
    loaded = load_shared(model, group)
    with pytest.raises(millstream.InvalidArgument, match="other files"):
        load_shared(other, group)
    del loaded
    assert load_shared(other, group)["a"].sum() == 3
    with pytest.raises(millstream.InvalidArgument):
        load_shared(other, "a/b")
    with pytest.raises(FileNotFoundError):
        load_shared(tmp_path / "missing", group)
