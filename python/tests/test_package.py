"""Packages."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream


@pytest.fixture
def content() -> dict[str, bytes]:
    texts = {f"texts/{nth:03}.txt": f"text {nth} ".encode() * (nth + 1) for nth in range(200)}
    return {**texts, "big/noise": os.urandom(700_000), "empty": b""}


@pytest.fixture
def packed(content: dict[str, bytes], tmp_path: Path) -> Path:
    path = tmp_path / "content.mpak"
    report = millstream.pack(content, path)
    assert report.entries == len(content)
    assert report.file_bytes == path.stat().st_size
    return path


def test_names_lookups_and_reads(
    storage: millstream.Storage, content: dict[str, bytes], packed: Path
) -> None:
    package = millstream.Package(packed, storage)
    assert package.names() == sorted(content) and len(package) == len(content)
    assert package.names("texts/00?.txt") == [f"texts/00{nth}.txt" for nth in range(10)]
    assert "empty" in package and b"big/noise" in package and "missing" not in package
    entry = package.lookup("big/noise")
    assert entry is not None and (entry.name, entry.length) == ("big/noise", 700_000)
    assert package.lookup("missing") is None
    for name, raw in content.items():
        assert bytes(package.read(name)) == raw
    assert bytes(package.read(entry.index, 1000, 500)) == content["big/noise"][1000:1500]
    into = np.zeros(700_000, np.uint8)
    assert package.submit("big/noise", into=into, priority="high").wait() is into
    assert into.tobytes() == content["big/noise"]


def test_many_entries_are_few_reads(
    storage: millstream.Storage, content: dict[str, bytes], packed: Path
) -> None:
    package = millstream.Package(packed, storage)
    names = list(reversed(content))
    before = storage.stats()["requests"]
    buffers = package.read_many(names)
    assert storage.stats()["requests"] - before < len(names) / 4
    assert [bytes(buffer) for buffer in buffers] == [content[name] for name in names]
    assert all(buffer.readonly for buffer in buffers)
    with pytest.raises((BufferError, ValueError)):
        storage.queue().read(packed, 0, 1, into=buffers[0])


def test_missing_entries(storage: millstream.Storage, packed: Path) -> None:
    package = millstream.Package(packed, storage)
    with pytest.raises(FileNotFoundError) as caught:
        package.read("missing")
    assert isinstance(caught.value, millstream.NotFound)
    assert (caught.value.path, caught.value.name) == (str(packed), "missing")
    with pytest.raises(IndexError):
        package.read(10_000)
    with pytest.raises(millstream.PastEnd):
        package.read("empty", 0, 1)


def test_damage_is_noticed(storage: millstream.Storage, packed: Path) -> None:
    damaged = bytearray(packed.read_bytes())
    at = len(damaged) // 2
    damaged[at : at + 64] = bytes(64)
    packed.write_bytes(damaged)
    package = millstream.Package(packed, storage)
    found = package.verify()
    assert found.failures >= 1 and "big/noise" in found.errors[0]
    with pytest.raises(millstream.Corrupt) as caught:
        package.read("big/noise")
    assert caught.value.path == str(packed) and caught.value.offset


def test_verify_tells_its_progress(storage: millstream.Storage, packed: Path) -> None:
    told: list[int] = []
    found = millstream.Package(packed, storage).verify(told.append)
    assert (found.failures, found.entries, found.signed) == (0, 202, False)
    assert told == sorted(told) and told


def test_no_package_a_cut_one_and_none(
    storage: millstream.Storage, packed: Path, noise: Path
) -> None:
    with pytest.raises(millstream.Corrupt) as caught:
        millstream.Package(noise, storage)
    assert caught.value.kind == "not_a_package"
    os.truncate(packed, 10_000)
    with pytest.raises(millstream.MillstreamError) as cut:
        millstream.Package(packed, storage)
    assert cut.value.path == str(packed)
    with pytest.raises(FileNotFoundError):
        millstream.Package("/no/such/package", storage)


def test_folders_files_and_bytes_are_packed_alike(
    storage: millstream.Storage, content: dict[str, bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    for name, raw in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(raw)
    files = [(name, folder / name) for name in content]
    inputs: list[Any] = [folder, str(folder), content, files]
    roots = set()
    for nth, source in enumerate(inputs):
        out = tmp_path / f"{nth}.mpak"
        roots.add(bytes(millstream.pack(source, out, codec="zstd", level=3).root))
    assert len(roots) == 1
    assert millstream.Package(tmp_path / "2.mpak", storage).root in roots


def test_bad_inputs_of_pack(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(FileNotFoundError):
        millstream.pack({"a": tmp_path / "missing"}, out)
    with pytest.raises(millstream.InvalidArgument):
        millstream.pack({"../a": b""}, out)
    with pytest.raises(millstream.InvalidArgument):
        millstream.pack([(b"a\xffb", b"not UTF-8")], out)
    with pytest.raises(millstream.InvalidArgument):
        millstream.pack([("a", b""), ("a", b"")], out)
    with pytest.raises(TypeError):
        millstream.pack({"a": 5}, out)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="none of"):
        millstream.pack({}, out, codec="rar")  # type: ignore[arg-type]
    assert not out.exists()
