"""What the tests share."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import millstream

# Shells start background jobs with SIGINT ignored, which the tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["uring", "threads"])
def storage(request: pytest.FixtureRequest) -> Iterator[millstream.Storage]:
    """A storage on each device."""
    try:
        made = millstream.Storage(backend=request.param)
    except millstream.MillstreamError as error:
        pytest.skip(f"the system refuses {request.param}: {error}")
    with made:
        yield made


@pytest.fixture
def slow() -> Iterator[millstream.Storage]:
    """A storage whose reads take minutes, one after the other."""
    made = millstream.Storage(disk_model="read=1K,latency=1s,depth=1", depth=1, access="direct")
    yield made
    made.close(0)


@pytest.fixture
def noise(tmp_path: Path) -> Path:
    """A file of 3 MiB and a bit of noise."""
    path = tmp_path / "noise"
    path.write_bytes(os.urandom((3 << 20) + 1234))
    return path


@pytest.fixture
def occupied(slow: millstream.Storage, noise: Path) -> millstream.Storage:
    """A slow storage that is at a read of `noise`. Reads of the file that follow one another open
    it apart, and the second may be the first to be open."""
    slow.queue().read(noise, 0, 1 << 20)
    deadline = time.monotonic() + 60
    while slow.stats()["in_flight"] == 0:
        assert time.monotonic() < deadline, "the read was not begun"
        time.sleep(0.001)
    return slow


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python code in a process of its own, which has 60 seconds."""

    def run(code: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "script.py"
        path.write_text(code)
        command = [sys.executable, str(path), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    return run
