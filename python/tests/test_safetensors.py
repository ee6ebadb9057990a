"""Model weights, compared with the reference implementation."""

import json
import os
import random
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import millstream
from millstream.safetensors import iter_tensors, load_file, metadata

TYPES: list[Any] = [np.float64, np.float32, np.float16, np.int64, np.uint64, np.int32, np.uint32]
TYPES += [np.int16, np.uint16, np.int8, np.uint8, np.bool_, np.complex64]


def model(seed: int, count: int = 40, largest: int = 1 << 20) -> dict[str, np.ndarray]:
    """Tensors of all types and of many lengths."""
    random_ = np.random.default_rng(seed)
    made: dict[str, np.ndarray] = {"empty": np.zeros((0, 3), np.float32)}
    made["scalar"] = np.array(7, np.int64)
    for nth in range(count):
        kind = np.dtype(TYPES[nth % len(TYPES)])
        length = int(random_.integers(1, largest if nth % 4 == 0 else 5000))
        raw = random_.bytes(length * kind.itemsize)
        array = np.frombuffer(raw, np.uint8 if kind == np.bool_ else kind)
        made[f"layer.{nth}.weight"] = array % 2 == 0 if kind == np.bool_ else array
    made["matrix"] = random_.standard_normal((300, 700)).astype(np.float32)
    return made


def same(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> None:
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        assert ours[name].dtype == array.dtype and ours[name].shape == array.shape, name
        assert ours[name].tobytes() == array.tobytes(), name
        assert ours[name].flags.writeable and ours[name].flags.aligned


@pytest.mark.parametrize("seed", range(4))
def test_the_same_tensors_as_the_reference(
    storage: millstream.Storage, tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(model(seed), path, {"format": "np", "seed": str(seed)})
    expected = safetensors.numpy.load_file(path)
    same(load_file(path, storage=storage), expected)
    same(dict(iter_tensors(path, storage=storage, window=1 << 20)), expected)
    same(dict(iter_tensors([path])), expected)
    assert metadata(path, storage=storage) == {"format": "np", "seed": str(seed)}
    chosen = ["matrix", "scalar", "layer.3.weight"]
    same(load_file(path, chosen, storage=storage), {name: expected[name] for name in chosen})
    with pytest.raises(KeyError, match="missing"):
        load_file(path, ["missing"], storage=storage)


def test_cold_files_are_read_past_the_page_cache(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file({"w": np.arange(1 << 21, dtype=np.float32)}, path)
    file = os.open(path, os.O_RDWR)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)
    with millstream.Storage() as own:
        array = load_file(path, storage=own)["w"]
        assert array[12345] == 12345 and array.sum(dtype=np.float64) == (1 << 20) * ((1 << 21) - 1)
        stats = own.stats()
    if stats["direct_operations"] == 0:
        pytest.skip("the file system has no direct I/O")
    assert stats["staging_peak_bytes"] < 2 << 20  # Straight into the array's memory.


def test_sharded_models(storage: millstream.Storage, tmp_path: Path) -> None:
    tensors = model(9)
    weight_map = {}
    for shard in range(3):
        part = {name: tensors[name] for nth, name in enumerate(tensors) if nth % 3 == shard}
        file = f"model-{shard}-of-3.safetensors"
        safetensors.numpy.save_file(part, tmp_path / file, {f"shard{shard}": "yes"})
        weight_map.update(dict.fromkeys(part, file))
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
    for path in (index, tmp_path, str(tmp_path), os.fsencode(index)):
        same(load_file(path, storage=storage), tensors)
    files = sorted(tmp_path.glob("*.safetensors"))
    same(dict(iter_tensors(files, storage=storage)), tensors)
    assert metadata(tmp_path) == {"shard0": "yes", "shard1": "yes", "shard2": "yes"}
    with pytest.raises(ValueError, match="several files"):
        dict(iter_tensors([files[0], _copy(files[0])]))


def _copy(path: Path) -> Path:
    other = path.with_name("copy.safetensors")
    other.write_bytes(path.read_bytes())
    return other


@pytest.mark.parametrize("file", ["../secret", "/etc/passwd", "", "..", "a/b", 5, None])
def test_an_index_names_no_file_elsewhere(tmp_path: Path, file: object) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": file}}))
    with pytest.raises(millstream.Corrupt):
        load_file(index)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": 5}', "{", "[" * 100_000, "\xff"])
def test_invalid_indexes(tmp_path: Path, text: str) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_bytes(text.encode("latin-1"))
    with pytest.raises(millstream.Corrupt) as caught:
        load_file(index)
    assert caught.value.path == str(index)


def test_an_index_that_promises_too_much(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"a": np.ones(3)}, tmp_path / "x.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "x.safetensors", "b": "x.safetensors"}}))
    with pytest.raises(millstream.Corrupt, match="'b'"):
        load_file(index)
    index.write_text(json.dumps({"weight_map": {"a": "missing.safetensors"}}))
    with pytest.raises(FileNotFoundError):
        load_file(index)


def raw_file(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    """A file with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(dtype: str, shape: list[object], begin: object, end: object) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


HOSTILE = {
    "no bytes": b"",
    "a short prefix": b"\x01\0\0",
    "a prefix alone": struct.pack("<Q", 2),
    "a header past the end": raw_file(b"{}", length=3),
    "a huge header": raw_file(b"{}", length=100_000_001),
    "the longest length": raw_file(b"{}", length=2**64 - 1),
    "not UTF-8": raw_file(b'{"\xff": 1}'),
    "no JSON": raw_file(b"hello"),
    "a list": raw_file([]),
    "two objects": raw_file(b"{}{}"),
    "deep nesting": raw_file(b'{"a":' + b"[" * 100_000),
    "overlap": raw_file({"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 2, 6)}, bytes(6)),
    "a hole": raw_file({"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 8, 12)}, bytes(12)),
    "a hole before": raw_file({"a": tensor("U8", [4], 4, 8)}, bytes(8)),
    "trailing bytes": raw_file({"a": tensor("U8", [4], 0, 4)}, bytes(5)),
    "missing bytes": raw_file({"a": tensor("U8", [4], 0, 4)}, bytes(3)),
    "ends before it begins": raw_file({"a": tensor("U8", [0], 4, 0)}, bytes(4)),
    "another length": raw_file({"a": tensor("F32", [2], 0, 4)}, bytes(4)),
    "an overflow of the shape": raw_file({"a": tensor("U8", [2**63, 4], 0, 0)}),
    "an overflow by the type": raw_file({"a": tensor("F64", [2**61], 0, 0)}),
    "a large number": raw_file(b'{"a":{"dtype":"U8","shape":[1e30],"data_offsets":[0,0]}}'),
    "above 64 bits": raw_file({"a": tensor("U8", [2**64], 0, 0)}),
    "a negative shape": raw_file({"a": tensor("U8", [-1], 0, 0)}),
    "a negative offset": raw_file({"a": tensor("U8", [1], -1, 0)}),
    "a fraction": raw_file({"a": tensor("U8", [1.5], 0, 1)}, b"x"),
    "an unknown type": raw_file({"a": tensor("F128", [1], 0, 16)}, bytes(16)),
    "a type in small letters": raw_file({"a": tensor("f32", [1], 0, 4)}, bytes(4)),
    "no type": raw_file({"a": {"shape": [], "data_offsets": [0, 1]}}, b"x"),
    "one offset": raw_file({"a": {"dtype": "U8", "shape": [0], "data_offsets": [0]}}),
    "three offsets": raw_file({"a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0, 0]}}),
    "half a byte": raw_file({"a": tensor("F4", [1], 0, 1)}, b"x"),
    "metadata of numbers": raw_file({"__metadata__": {"a": 1}}),
    "metadata of a list": raw_file({"__metadata__": []}),
    "a field twice": raw_file(
        b'{"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}}'
    ),
}

STRANGE = {
    "no tensors": raw_file({}),
    "spaces behind": raw_file(b"{}      "),
    "metadata alone": raw_file({"__metadata__": {"a": "b"}}),
    "no dimension": raw_file({"a": tensor("F64", [], 0, 8)}, bytes(8)),
    "an empty name": raw_file({"": tensor("U8", [1], 0, 1)}, b"x"),
    "any order": raw_file({"b": tensor("U8", [2], 2, 4), "a": tensor("U8", [2], 0, 2)}, b"aabb"),
    "empty tensors": raw_file({"a": tensor("U8", [0], 0, 0), "b": tensor("U8", [0, 2**40], 0, 0)}),
    "a misaligned start": raw_file(
        b'{"a":{"dtype":"F64","shape":[3],"data_offsets":[0,24]}} ', bytes(24)
    ),
    "an escaped name": raw_file(
        b'{"\\u0061\\n":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x"
    ),
    "unknown fields": raw_file({"a": {**tensor("U8", [0], 0, 0), "more": [1, {"x": 2}]}}),
}


def accepted_by_the_reference(content: bytes) -> dict[str, np.ndarray] | None:
    try:
        return safetensors.numpy.load(content)
    except safetensors.SafetensorError:
        return None


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_headers_are_refused_as_by_the_reference(
    storage: millstream.Storage, tmp_path: Path, what: str
) -> None:
    path = tmp_path / "hostile.safetensors"
    path.write_bytes(HOSTILE[what])
    assert accepted_by_the_reference(HOSTILE[what]) is None
    with pytest.raises(millstream.Corrupt) as caught:
        load_file(path, storage=storage)
    assert caught.value.path == str(path) and caught.value.offset is not None


@pytest.mark.parametrize(
    "shape", [[0, 2**40, 2**40], [0, 2**63], [1] * 33], ids=["a product", "a dimension", "many"]
)
def test_shapes_that_no_array_has_are_refused(
    storage: millstream.Storage, tmp_path: Path, shape: list[object]
) -> None:
    path = tmp_path / "strange.safetensors"
    size = 0 if 0 in shape else 1
    path.write_bytes(raw_file({"a": tensor("U8", shape, 0, size)}, bytes(size)))
    with pytest.raises(millstream.Corrupt) as caught:
        load_file(path, storage=storage)
    assert caught.value.path == str(path) and caught.value.offset is not None


@pytest.mark.parametrize("what", STRANGE)
def test_strange_headers_are_accepted_as_by_the_reference(
    storage: millstream.Storage, tmp_path: Path, what: str
) -> None:
    path = tmp_path / "strange.safetensors"
    path.write_bytes(STRANGE[what])
    expected = accepted_by_the_reference(STRANGE[what])
    assert expected is not None
    same(load_file(path, storage=storage), expected)


def test_a_name_that_stands_there_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.safetensors"
    one = b'"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
    path.write_bytes(raw_file(b"{" + one + b"," + one + b"}", b"x"))
    with pytest.raises(millstream.Corrupt, match="twice"):
        load_file(path)


def test_damaged_headers_are_judged_as_by_the_reference(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)  # Shown on failure.
    random_ = random.Random(seed)
    tensors: dict[str, Any] = {
        "a": np.arange(6, dtype=np.int32).reshape(2, 3),
        "b": np.ones(5, np.float16),
        "c": np.zeros(0),
    }
    good = safetensors.numpy.save(tensors, {"k": "v"})
    header = struct.unpack("<Q", good[:8])[0] + 8
    path = tmp_path / "damaged.safetensors"
    accepted = 0
    for _ in range(1500):
        damaged = bytearray(good)
        for _ in range(random_.randint(1, 2)):
            at = random_.randrange(header)
            damaged[at] = random_.choice(b'0123456789{}[]",:FUI abc\xff\x00')
        path.write_bytes(damaged)
        expected = accepted_by_the_reference(bytes(damaged))
        try:
            same(load_file(path), expected or {})
            assert expected is not None, bytes(damaged)
            accepted += 1
        except millstream.Corrupt as error:
            assert expected is None or "twice" in str(error), bytes(damaged)
    assert accepted > 0


def test_a_file_that_is_cut_after_its_header_was_read(tmp_path: Path) -> None:
    path = tmp_path / "cut.safetensors"
    safetensors.numpy.save_file(model(1), path)
    tensors = iter_tensors(path, window=1)
    next(tensors)
    os.truncate(path, 70_000)
    with pytest.raises((millstream.PastEnd, millstream.IoError)) as caught:
        list(tensors)
    assert caught.value.path == str(path)
    with pytest.raises(millstream.Corrupt, match="bytes"):
        load_file(path)


def test_types_that_numpy_lacks(tmp_path: Path) -> None:
    path = tmp_path / "types.safetensors"
    header = {
        "b": tensor("BF16", [2], 0, 4),
        "e": tensor("F8_E4M3", [2], 4, 6),
        "q": tensor("F4", [2, 2], 6, 8),
    }
    path.write_bytes(raw_file(header, bytes([0x80, 0x3F, 0, 0x40, 0x38, 0x40, 0x12, 0x34])))
    loaded = load_file(path)
    try:
        import ml_dtypes
    except ImportError:
        assert loaded["b"].dtype == np.uint16 and loaded["b"].tolist() == [0x3F80, 0x4000]
        assert loaded["e"].dtype == np.uint8
    else:
        assert loaded["b"].dtype == ml_dtypes.bfloat16 and loaded["b"].tolist() == [1.0, 2.0]
        assert loaded["e"].dtype == ml_dtypes.float8_e4m3fn and loaded["e"].tolist() == [1.0, 2.0]
    assert loaded["q"].tolist() == [0x12, 0x34]


def test_torch_tensors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    reference = pytest.importorskip("safetensors.torch")
    path = tmp_path / "model.safetensors"
    tensors = {"b": torch.randn(300, 400).to(torch.bfloat16), "f": torch.randn(1 << 20)}
    reference.save_file(tensors, path)
    for loaded in (load_file(path, device="cpu"), dict(iter_tensors(path, framework="torch"))):
        assert loaded.keys() == tensors.keys()
        for name, one in tensors.items():
            assert loaded[name].dtype == one.dtype and torch.equal(loaded[name], one)


def test_frameworks(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="none of"):
        load_file(tmp_path, framework="jax")
    with pytest.raises(ValueError, match="no device"):
        load_file(tmp_path, device="cpu", framework="numpy")


def test_an_iterator_that_is_dropped_cancels_its_reads(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(model(3, count=80), path)
    with millstream.Storage(disk_model="read=8M", access="direct") as slow:
        tensors = iter_tensors(path, storage=slow)
        next(tensors)
        tensors.close()  # type: ignore[attr-defined]
        assert slow.stats()["done"] < 80


def test_ctrl_c_ends_a_load_at_once(slow: millstream.Storage, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(model(5), path)
    timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    timer.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        load_file(path, storage=slow)
    assert time.monotonic() - started < 60
    timer.join()


def test_a_huge_index_is_refused(tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.touch()
    os.truncate(index, 100_000_001)
    with pytest.raises(millstream.Corrupt, match="longer"):
        load_file(index)


MEMORY = """
import resource, sys, numpy
from millstream.safetensors import iter_tensors
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
total = 0
for name, tensor in iter_tensors(sys.argv[1], window=16 << 20):
    total += tensor.nbytes
print(total, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
"""


def test_iterating_needs_little_memory(
    script: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    largest = 24 << 20
    tensors = {f"w{nth}": np.ones((nth % 3 + 1) << 20, np.float64) for nth in range(12)}
    safetensors.numpy.save_file(tensors, path)
    done = script(MEMORY, path)
    assert done.returncode == 0, done
    total, peak = map(int, done.stdout.split())
    assert total == sum(one.nbytes for one in tensors.values()) == 12 * (16 << 20)
    # The tensor that the caller holds, what is read ahead, and as much kept for reuse.
    assert peak < 2 * largest + 2 * (16 << 20) + (16 << 20)
