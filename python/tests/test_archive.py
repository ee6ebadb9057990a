"""Archives of other programs."""

import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

import millstream


@pytest.fixture
def content() -> dict[str, bytes]:
    texts = {f"texts/{nth:03}.txt": f"text {nth} ".encode() * (nth + 1) for nth in range(50)}
    return {**texts, "noise": os.urandom(700_000), "empty": b"", "größe.txt": b"big"}


@pytest.fixture
def archived(content: dict[str, bytes], tmp_path: Path) -> Path:
    path = tmp_path / "content.pk3"
    with zipfile.ZipFile(path, "w") as file:
        for nth, (name, raw) in enumerate(content.items()):
            method = zipfile.ZIP_DEFLATED if nth % 2 else zipfile.ZIP_STORED
            file.writestr(name, raw, method)
    return path


def test_entries_are_those_of_the_zip(
    storage: millstream.Storage, content: dict[str, bytes], archived: Path
) -> None:
    archive = millstream.open_archive(archived, storage)
    assert archive.names() == sorted(content, key=str.encode) and len(archive) == len(content)
    assert archive.path == str(archived) and "content.pk3" in repr(archive)
    assert archive.names("texts/00?.txt") == [f"texts/00{nth}.txt" for nth in range(10)]
    assert "empty" in archive and b"noise" in archive and "missing" not in archive
    for name, raw in content.items():
        assert bytes(archive.read(name)) == raw
    entry = archive.lookup("noise")
    assert entry is not None and (entry.name, entry.length, entry.blocks) == ("noise", 700_000, 1)
    assert archive.lookup("missing") is None
    assert bytes(archive.read(entry.index, 1000, 500)) == content["noise"][1000:1500]
    into = np.zeros(700_000, np.uint8)
    assert archive.submit("noise", into=into, priority="high").wait() is into
    assert into.tobytes() == content["noise"]


def test_what_is_missing_or_no_archive(storage: millstream.Storage, archived: Path) -> None:
    archive = millstream.open_archive(archived, storage)
    with pytest.raises(millstream.NotFound, match="missing"):
        archive.read("missing")
    with pytest.raises(IndexError):
        archive.read(len(archive))
    with pytest.raises(millstream.PastEnd):
        archive.read("noise", 1, 700_000)
    with pytest.raises(millstream.MillstreamError, match="no archive"):
        millstream.open_archive(__file__, storage)
    with pytest.raises(millstream.NotFound):
        millstream.open_archive(archived.with_name("none.zip"), storage)


def test_a_damaged_entry_is_an_error_unless_it_is_not_verified(
    storage: millstream.Storage, content: dict[str, bytes], archived: Path
) -> None:
    with zipfile.ZipFile(archived) as file:
        at = file.getinfo("texts/000.txt").header_offset
    raw = bytearray(archived.read_bytes())
    name, extra = struct.unpack_from("<HH", raw, at + 26)
    raw[at + 30 + name + extra] ^= 1
    archived.write_bytes(raw)
    with pytest.raises(millstream.Corrupt, match="texts/000.txt"):
        millstream.open_archive(archived, storage).read("texts/000.txt")
    archive = millstream.open_archive(archived, storage, verify=False)
    assert bytes(archive.read("texts/000.txt")) != content["texts/000.txt"]
    assert bytes(archive.read("texts/001.txt")) == content["texts/001.txt"]
