"""Loads model weights with Millstream, beside safetensors, plain reads and the device's limit.

    python load_model.py [FILE.safetensors] [--gib N] [--quick]

Without a file it writes one of N GiB (2 by default; --quick: 1/16) to the current folder, with the
layout of a 7B-class model and content made from a seed, and removes it again. A cold load begins
with the file dropped from the page cache; the contenders take turns.
"""

import argparse
import json
import mmap
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import millstream.safetensors

try:
    import safetensors.numpy as reference
except ImportError:
    reference = None  # type: ignore[assignment]


def write_model(path: str, gib: float) -> None:
    """Layers of attention and MLP weights in float16, as many as fit."""
    noise = np.random.default_rng(7).integers(0, 1 << 16, 1 << 20, np.uint16).view(np.float16)
    width = 4096 if gib >= 1 else 1024
    shapes = {f"attention.{name}": (width, width) for name in "qkvo"}
    shapes |= {f"mlp.{name}": (width * 43 // 16, width) for name in ("gate", "up", "down")}
    bytes_ = 2 * sum(rows * columns for rows, columns in shapes.values())
    layers = max(round(gib * (1 << 30) / bytes_), 1)
    layer = {name: np.resize(noise, shape) for name, shape in shapes.items()}
    model = {f"layers.{nth}.{name}": layer[name] for nth in range(layers) for name in layer}
    header, end = {}, 0
    for name, array in model.items():
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": "F16", "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(model.values())


def read(path: str) -> None:
    """Reads a file through the page cache on one thread; nothing is made of the bytes."""
    with open(path, "rb", buffering=0) as file:
        while file.read(8 << 20):
            pass


def device(path: str) -> None:
    """Reads past the page cache into memory that is used again: all that the device gives."""
    block = 1 << 20
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    local = threading.local()

    def read_block(offset: int) -> None:
        if not hasattr(local, "memory"):
            local.memory = mmap.mmap(-1, block)
        os.preadv(file, [local.memory], offset)

    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(read_block, range(0, os.path.getsize(path), block)):
            pass
    os.close(file)


def rate(load: Callable[[str], object], path: str, cold: bool) -> float:
    """GB per second of one load."""
    if cold:
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
    started = time.perf_counter()
    _kept = load(path)  # Freeing it is not measured.
    return os.path.getsize(path) / (time.perf_counter() - started) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?")
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    loads: dict[str, Callable[[str], object]] = {"millstream": millstream.safetensors.load_file}
    if reference:
        loads["safetensors"] = reference.load_file
    else:
        print("safetensors is not installed")
    loads["plain read()"] = read
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = options.file or os.path.join(folder, "model.safetensors")
        if not options.file:
            write_model(path, 1 / 16 if options.quick else options.gib)
        print(f"{os.path.getsize(path) / 1e9:.2f} GB; GB/s, median of the rounds")
        for state, all_loads in (("cold", loads | {"device limit": device}), ("warm", loads)):
            read(path)
            rounds = [
                [rate(load, path, state == "cold") for load in all_loads.values()]
                for _ in range(1 if options.quick else 5)
            ]
            for name, rates in zip(all_loads, zip(*rounds, strict=True), strict=True):
                print(f"{state}  {name:<13} {statistics.median(rates):6.2f}")


if __name__ == "__main__":
    main()
