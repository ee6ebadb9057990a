"""Files of numpy, compared with numpy."""

import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream
from millstream import npy

ARRAYS: dict[str, Any] = {
    "vector": np.arange(100_000, dtype=np.float32),
    "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "scalar": np.array(5, np.int16),
    "empty": np.zeros((0, 7), np.complex128),
    "big endian": np.arange(5, dtype=">i4"),
    "structured": np.array([(1, 2.5), (3, 4.5)], [("a", "<i4"), ("b", "<f8")]),
    "text": np.array(["one", "three"]),
    "names beyond latin1": np.array([(21.5,)], [("温度", "<f4")]),
    "bools": np.array([[True, False]]),
    "long header": np.zeros(2, [(f"field number {nth}", "u1") for nth in range(800)]),
}


def same(ours: np.ndarray, theirs: np.ndarray) -> None:
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    assert ours.tobytes() == theirs.tobytes() and ours.flags.aligned and ours.flags.writeable
    assert ours.flags.f_contiguous == theirs.flags.f_contiguous


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_those_of_numpy(storage: millstream.Storage, tmp_path: Path, name: str) -> None:
    path = tmp_path / "array.npy"
    np.save(path, ARRAYS[name])
    same(npy.load(path, storage=storage), np.load(path, max_header_size=1 << 20))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_are_those_of_numpy(
    storage: millstream.Storage, tmp_path: Path, save: Any
) -> None:
    path = tmp_path / "arrays.npz"
    save(path, **ARRAYS)
    loaded = npy.load(path, storage=storage)
    assert loaded.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        same(loaded[name], array)


def test_an_archive_without_members(tmp_path: Path) -> None:
    path = tmp_path / "empty.npz"
    zipfile.ZipFile(path, "w").close()
    assert npy.load(path) == {}


def test_raw_arrays(storage: millstream.Storage, noise: Path) -> None:
    cases: list[tuple[Any, int, int]] = [
        (np.uint8, -1, 0),
        (np.float32, 100, 0),
        ("<u2", -1, 3),
        (np.int64, 0, 0),
    ]
    for dtype, count, offset in cases:
        ours = npy.fromfile(noise, dtype, count, offset, storage=storage)
        theirs = np.fromfile(noise, dtype, count, offset=offset)
        assert ours.tobytes() == theirs.tobytes() and ours.dtype == theirs.dtype
        assert ours.flags.aligned
    with pytest.raises(millstream.PastEnd):
        npy.fromfile(noise, np.uint8, 1 << 30)
    with pytest.raises(ValueError):
        npy.fromfile(noise, object)
    with pytest.raises(FileNotFoundError):
        npy.fromfile("/no/such/file")


def refused(path: Path, content: bytes, name: str) -> None:
    path.write_bytes(content)
    with pytest.raises(millstream.Corrupt) as caught:
        npy.load(path)
    assert caught.value.path == str(path) and caught.value.offset is not None, name


def with_header(text: bytes, version: int = 1) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + bytes(64)


def with_type(descr: str, version: int = 1) -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (1,)}}"
    return with_header(text.encode(), version)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_units_of_time_with_a_divisor_do_not_end_the_process(tmp_path: Path, version: int) -> None:
    path = tmp_path / "array.npy"
    for descr in [
        "'m8[s/0]'",
        "'<M8[s/2]'",
        r"'m8\x5bs\x2f0]'",
        "'i4,m8[s/0]'",
        "[('a', 'm8[s/0]')]",
        "[['a', 'm8[s/0]']]",
        "{('a', 'm8[s/0]'): 1}",
        "[('a', [('b', ('m8[s/0]', (2,)))])]",
        "('<i8', 'm8[s/0]')",
        "('<i8', b'm8[s/0]')",
        "('<i8', {'names': ['a'], 'formats': [('m8[s/0]', 1)]})",
        "('<i8', {'descr': [('m8[s/0]', 1)]})",
    ]:
        content = with_type(descr, version)
        refused(path, content, descr)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.npy", content)
        refused(path, path.read_bytes(), descr)
    # Python 2 wrote long integers, which make numpy read the header once more.
    long = with_type(r"'m8\x5bs\x2f0]'", version).replace(b"(1,)", b"(1L,)")
    refused(path, with_header(long[10 if version == 1 else 12 : -64], version), "long")


def test_names_of_fields_may_look_like_units(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    kind = [("speed [m/s]", "<f4"), ("since", "<M8[25s]"), ("for", [("a [s/0]", "<m8[ns]")])]
    array = np.zeros(3, kind)
    np.save(path, array)
    same(npy.load(path), array)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_whatever_numpy_raises_is_corrupt(tmp_path: Path, version: int) -> None:
    path = tmp_path / "array.npy"
    whole = "{'descr': '<i4', 'fortran_order': False, 'shape': (1,)}"
    types = ["()", "[]", "('<i4',)", "('<i4', 10**23)", "{'a': 1}", "[5]", "[(5, '<i4')]", "1.5"]
    types += ["None", "'S99999999999'", "('<i4', -1)", "[('a', '<i4', 'x')]", r"'\ud800'"]
    types += ["[('a', '<i4'), ('a', '<i4')]", "((),)", "','", "'<i4\\0'", "[((), '<i4')]"]
    texts = ["{'descr': (((", "'''abc", "  1\n 2", whole + "\0", "[" * 50_000, "a" + ".b" * 30_000]
    texts += ["1+" * 30_000 + "1", "{b'descr': 1, 5: 2, 'shape': 3}", "{[]: 1}", "{1: 2}['a']"]
    contents = [with_type(one, version) for one in types]
    contents += [with_header(one.encode(), version) for one in texts]
    for content in contents:
        refused(path, content, repr(content[:80]))


def damaged(content: bytes, at: int, byte: int) -> bytes:
    return content[:at] + bytes([byte]) + content[at + 1 :]


def test_damaged_arrays_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    np.save(path, np.arange(1000.0))
    good = path.read_bytes()
    many = b"{'descr': '|u1', 'fortran_order': False, 'shape': (" + b"1," * 65 + b")}\n"
    bomb = good[:10] + good[10:128].replace(b"(1000,)", b"(2**9,)") + good[128:]
    cases = {
        "empty": b"",
        "cut": good[:-1],
        "cut header": good[:60],
        "magic": damaged(good, 1, 0),
        "version": damaged(good, 6, 9),
        "expression": bomb,
        "dimensions": good.replace(b"(1000,), }" + b" " * 16, b"(0, 4611686018427387904)}"),
        "many dimensions": b"\x93NUMPY\x01\0" + struct.pack("<H", len(many)) + many + b"x",
        "elements that are arrays": good.replace(b"'<f8'", b"'2f8'").replace(b"(1000,)", b"(500,) "),
        "a header alone": good[:128],
        "negative": good.replace(b"(1000,)", b"(-100,)"),
        "larger": good.replace(b"(1000,)", b"(9999,)"),
        "type": good.replace(b"<f8", b"<q9"),
        "elements of no bytes": good.replace(b"<f8", b"<U0"),
    }
    for name, content in cases.items():
        refused(path, content, name)
    np.save(path, np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(millstream.Corrupt, match="Python objects"):
        npy.load(path)


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    np.savez_compressed(path, a=np.zeros(10_000))
    good = path.read_bytes()
    directory = good.rindex(b"PK\x01\x02")
    size = struct.pack("<I", 0x7FFF_FFFF)
    cases = {
        "cut": good[:-30],
        "local header": good[:1] + b"X" + good[2:],
        "data": damaged(good, 60, good[60] ^ 0xFF),
        "checksum": damaged(good, directory + 16, good[directory + 16] ^ 1),
        "bomb": good[: directory + 24] + size + good[directory + 28 :],
        "far away": good[: directory + 42] + size + good[directory + 46 :],
        "encrypted": damaged(good, directory + 8, good[directory + 8] | 1),
        "method": damaged(good, directory + 10, 14),
    }
    for name, content in cases.items():
        path.write_bytes(content)
        with pytest.raises(millstream.MillstreamError) as caught:
            npy.load(path)
        assert caught.value.path == str(path), name


def test_members_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    np.savez_compressed(path, a=np.random.default_rng(1).random(1000))
    good = path.read_bytes()
    directory, end = good.rindex(b"PK\x01\x02"), good.rindex(b"PK\x05\x06")
    tail = struct.pack("<HHI", 3, 3, 3 * (end - directory))
    path.write_bytes(
        good[:directory] + good[directory:end] * 3 + good[end : end + 8] + tail + good[end + 16 :]
    )
    with pytest.raises(millstream.Corrupt, match="share"):
        npy.load(path)


def test_a_missing_and_a_forbidden_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        npy.load(tmp_path / "missing.npy")
    with pytest.raises(OSError):
        npy.load(os.fspath(tmp_path))


def test_an_archive_of_many_members_is_not_requested_as_a_whole(
    storage: millstream.Storage, tmp_path: Path
) -> None:
    path = tmp_path / "many.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for nth in range(3000):
            archive.writestr(f"{nth}.npy", b"x")
    with pytest.raises(millstream.Corrupt):
        npy.load(path, storage=storage)
    assert storage.stats()["requests"] < 2500  # Two for a member.
