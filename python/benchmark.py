"""Measures Millstream beside what Python programs use today.

    python benchmark.py [models|processes|records|requests ...] [--file FILE.safetensors] [--gib N]
                        [--quick]

- models: model weights in the format safetensors into numpy, cold and warm, beside the loaders of
  weights that are installed, a plain read and the device's limit; and the memory that iterating
  takes beyond the largest tensor. Without a file one of N GiB (4 by default) is made.
- processes: the same in fresh processes, for 579 large tensors and for 18,867 small ones: alone,
  without io_uring, with a quarter of the model's size as memory (needs root), two and four at a
  time: seconds, the processor's time, memory, what is read and what is left in the page cache.
- records: 10,000 records of 20 kB in random order, cold: a package, files, a zip, HDF5, LMDB.
- requests: what a warm read of 64 bytes costs, in batches of 1000.

Data is made from a seed in a folder below the current one, which is removed at the end. Contenders
take turns, progress is shown on standard error, the medians of the rounds are printed, and all that
a contender loads is compared with the others' by a sum. A cold load begins with its files dropped from the page cache. --quick: small
data and one round.
"""

import argparse
import contextlib
import ctypes
import importlib
import json
import mmap
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import millstream
import millstream.safetensors

RECORD_BYTES = 20_000
BATCH = 1000
REQUEST_BYTES = 64
# What Python and a contender need at least, beside a model.
LEAST_MEMORY_BYTES = 64 << 20

# What was loaded, piece by piece; None of those who only read.
Load = Callable[[], Sequence[Any] | None]


def digest(pieces: Iterable[Any]) -> int:
    """A sum that tells whether all pieces came whole, in whatever order."""
    total = 0
    for piece in pieces:
        if isinstance(piece, np.ndarray):
            piece = piece.reshape(-1).view(np.uint8)
        bytes_ = np.frombuffer(piece, np.uint8)
        words = bytes_[: bytes_.size & ~7].view(np.uint64)
        total += (int(words.sum()) + int(bytes_[words.nbytes :].sum())) * (int(words[:1].sum()) | 1)
    return total


def drop(paths: Iterable[Path]) -> None:
    """Drops files from the page cache."""
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def say(doing: str) -> None:
    """Shows what is being done; on a terminal in place of what was before."""
    sys.stderr.write(f"\r\x1b[K{doing}" if sys.stderr.isatty() else doing and f"{doing}\n")
    sys.stderr.flush()


def show(line: str) -> None:
    say("")
    print(line, flush=True)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is removed at the end, also if Ctrl-C is pressed again meanwhile."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        try:
            yield Path(folder)
        finally:
            handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGINT, handler)


def measure(
    contenders: dict[str, Load], rounds: int, unit: str, figure: Callable[[float], float],
    cold: Sequence[Path] = (),
) -> None:
    """Lets contenders take turns, and prints the median of the figure that is made of seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    expected = None
    for round_ in range(1, rounds + 1):
        for name, load in contenders.items():
            say(f"  round {round_} of {rounds}: {name}")
            drop(cold)
            started = time.perf_counter()
            loaded = load()
            seconds[name].append(time.perf_counter() - started)
            if loaded is not None:
                found = digest(loaded)
                expected = found if expected is None else expected
                if found != expected:
                    raise SystemExit(f"{name} loaded other bytes than the first contender")
            del loaded  # Freeing it is not measured.
    say("")
    for name, all_seconds in seconds.items():
        print(f"  {name:<21} {figure(statistics.median(all_seconds)):9.2f} {unit}")


def write_model(path: Path, gib: float) -> None:
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


def read(path: Path) -> None:
    """Reads a file through the page cache on one thread; nothing is made of the bytes."""
    with open(path, "rb", buffering=0) as file:
        while file.read(8 << 20):
            pass


def device(path: Path) -> None:
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


def fastsafetensors(path: Path) -> list[Any]:
    loader = importlib.import_module("fastsafetensors").SafeTensorsFileLoader
    files = loader(None, "cpu", nogds=True)
    files.add_filenames({0: [str(path)]})
    loaded = files.copy_files_to_device()
    return [loaded.get_tensor(name).numpy() for name in loaded.key_to_rank_lidx]


def runai_model_streamer(path: Path) -> list[Any]:
    streamer = importlib.import_module("runai_model_streamer").SafetensorsStreamer
    # Stays open: the tensors lie in its memory.
    opened = streamer().__enter__()
    opened.stream_file(str(path))
    return [tensor.numpy() for _name, tensor in opened.get_tensors()]


def installed(*names: str) -> bool:
    """Whether a rival can be imported, which is then no part of its first load."""
    try:
        for name in names:
            importlib.import_module(name)
    except ImportError as error:
        show(f"  left out: {error}")
        return False
    return True


def status(field: str) -> int:
    """A figure of this process, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(field))


def models(folder: Path, file: Path | None, gib: float, quick: bool) -> None:
    path = file or folder / "model.safetensors"
    if not file:
        write_model(path, 1 / 16 if quick else gib)
    size = path.stat().st_size
    load_file = millstream.safetensors.load_file
    loads: dict[str, Load] = {"millstream": lambda: list(load_file(path).values())}
    if installed("safetensors.numpy"):
        reference = importlib.import_module("safetensors.numpy")
        loads["safetensors"] = lambda: list(reference.load_file(path).values())
        loads["safetensors, read()"] = lambda: list(reference.load(path.read_bytes()).values())
    if installed("fastsafetensors"):
        loads["fastsafetensors"] = lambda: fastsafetensors(path)
    if installed("runai_model_streamer"):
        loads["runai-model-streamer"] = lambda: runai_model_streamer(path)
    loads["plain read()"] = lambda: read(path)
    rounds = 1 if quick else 5
    for state, all_loads, cold in (
        ("cold", loads | {"device limit": lambda: device(path)}, [path]),
        ("warm", loads, []),
    ):
        show(f"model of {size / 1e9:.2f} GB, {state}")
        read(path)
        measure(all_loads, rounds, "GB/s", lambda seconds: size / seconds / 1e9, cold)
    before, largest = status("VmRSS"), 0
    Path("/proc/self/clear_refs").write_text("5")  # The peak begins with what there is now.
    for _name, tensor in millstream.safetensors.iter_tensors(path):
        largest = max(largest, tensor.nbytes >> 20)
    beyond = status("VmHWM") - before - largest
    print(f"model iterated\n  millstream            {beyond:9} MiB beyond the largest tensor")


def write_equal(path: Path, gib: float, count: int) -> None:
    """As many tensors of the same size."""
    each = max(int(gib * (1 << 30)) // count // 2048, 1) * 2048
    piece = np.random.default_rng(7).integers(0, 256, each, np.uint8).tobytes()
    header = {
        f"tensor.{nth}": {
            "dtype": "F16", "shape": [each // 2048, 1024],
            "data_offsets": [nth * each, (nth + 1) * each],
        }
        for nth in range(count)
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _ in range(count):
            file.write(piece)


def safe_open(path: Path) -> Iterator[Any]:
    with importlib.import_module("safetensors").safe_open(path, "numpy") as opened:
        for name in opened.keys():
            yield opened.get_tensor(name)


def blocks(path: Path) -> Iterator[bytes]:
    with open(path, "rb", buffering=0) as file:
        while block := file.read(8 << 20):
            yield block


def iterated(name: str, path: Path) -> Iterator[Any]:
    """The pieces of a model, as a contender yields them."""
    if name == "millstream, shared":
        return iter(millstream.safetensors.load_shared(path, f"bench-{os.getppid()}").values())
    if name.startswith("millstream"):
        threads = name.endswith("threads")
        storage = millstream.Storage(backend="threads") if threads else None
        tensors = millstream.safetensors.iter_tensors(path, storage=storage)
        return (tensor for _name, tensor in tensors)
    if name == "safetensors":
        return safe_open(path)
    if name == "fastsafetensors":
        return iter(fastsafetensors(path))
    if name == "runai-model-streamer":
        return iter(runai_model_streamer(path))
    return blocks(path)


def child(name: str, path: Path) -> None:
    """Loads a model once it is told to, looks at a byte of each page, and tells what that took."""
    if module := {"safetensors": "safetensors.numpy"}.get(name):
        importlib.import_module(module)
    print("ready", flush=True)
    sys.stdin.readline()
    started, sum_ = time.perf_counter(), 0
    for piece in iterated(name, path):
        if isinstance(piece, np.ndarray):
            piece = piece.reshape(-1).view(np.uint8)
        sum_ += int(np.frombuffer(piece, np.uint8)[::4096].astype(np.uint64).sum())
    usage = resource.getrusage(resource.RUSAGE_SELF)
    io = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    figures = {
        "seconds": time.perf_counter() - started,
        "cpu": usage.ru_utime + usage.ru_stime,
        "peak": status("VmHWM"),  # That of getrusage begins with what the parent had.
        "read": int(io["read_bytes"]),
    }
    print(json.dumps(figures), flush=True)


def cached_bytes(path: Path) -> int:
    """How much of a file is in the page cache."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        pages = (ctypes.c_ubyte * -(-len(mapped) // mmap.PAGESIZE))()
        start = ctypes.c_char.from_buffer(mapped)
        ctypes.CDLL(None).mincore(ctypes.byref(start), ctypes.c_size_t(len(mapped)), pages)
        del start  # A map of which there are pointers cannot be closed.
        return int((np.frombuffer(pages, np.uint8) & 1).sum()) * mmap.PAGESIZE


@contextlib.contextmanager
def limited(bytes_: int | None) -> Iterator[Path | None]:
    """A control group with so much memory, into which processes are moved."""
    if bytes_ is None:
        yield None
        return
    root = Path("/sys/fs/cgroup")
    old = root / "memory"
    group = (old if old.is_dir() else root) / f"millstream-bench-{os.getpid()}"
    group.mkdir()
    try:
        limit = "memory.limit_in_bytes" if old.is_dir() else "memory.max"
        (group / limit).write_text(str(bytes_))
        yield group / "cgroup.procs"
    finally:
        group.rmdir()


def why_unlimited() -> str | None:
    """Why no process can be given a limit of memory here, if that is so."""
    try:
        with limited(1 << 30):
            return None
    except OSError as error:
        return str(error)


def in_processes(name: str, path: Path, count: int, limit: int | None) -> dict[str, float] | None:
    """Has so many processes load a model at the same time; None: one was killed."""
    drop([path])
    with limited(limit) as group:
        command = [sys.executable, __file__, "--child", name, "--file", str(path)]
        pipe = subprocess.PIPE
        made = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(count)]
        for one in made:
            if group:
                group.write_text(str(one.pid))
            one.stdout.readline()  # type: ignore[union-attr]
        for one in made:
            # Nobody hears it whose memory did not suffice.
            with contextlib.suppress(BrokenPipeError):
                one.stdin.write("go\n")  # type: ignore[union-attr]
                one.stdin.flush()  # type: ignore[union-attr]
        told = [one.communicate()[0] for one in made]
    if any(one.returncode for one in made):
        return None
    all_ = [json.loads(text) for text in told]
    sums = {field: sum(one[field] for one in all_) for field in ("cpu", "peak", "read")}
    return sums | {"seconds": max(one["seconds"] for one in all_), "cached": cached_bytes(path)}


def processes(folder: Path, gib: float, quick: bool) -> None:
    gib = 1 / 16 if quick else gib
    names = ["millstream", "plain read()"]
    others = {"safetensors": "safetensors.numpy", "fastsafetensors": "fastsafetensors",
              "runai-model-streamer": "runai_model_streamer"}
    names[1:1] = [name for name, module in others.items() if installed(module)]
    for count in (579,) if quick else (579, 18_867):
        path = folder / f"{count}.safetensors"
        write_equal(path, gib, count)
        size = path.stat().st_size
        began = time.perf_counter()
        drop([path])
        device(path)
        rate = size / (time.perf_counter() - began)
        for title, extra, together, limit in (
            ("alone", ["millstream, threads"], 1, None),
            ("a quarter of its size as memory", [], 1, max(size // 4, LEAST_MEMORY_BYTES)),
            ("two processes", ["millstream, shared"], 2, None),
            ("four processes", ["millstream, shared"], 4, None),
        ):
            if limit is not None and (why := why_unlimited()):
                show(f"{title}: left out: {why}")
                continue
            show(f"{count} tensors, {size / 1e9:.2f} GB, cold, {title} (device {rate / 1e9:.2f} GB/s)")
            print(f"  {'':<21} {'s':>7} {'of dev.':>7} {'CPU s':>7} {'MiB':>7} {'cached':>7} {'read':>7}")
            rounds: dict[str, list[dict[str, float] | None]] = {}
            for _ in range(1 if quick else 3):
                for name in names + extra:
                    say(f"  {name}")
                    ended = in_processes(name, path, together, limit)
                    rounds.setdefault(name, []).append(ended)
            say("")
            for name, ended_all in rounds.items():
                lived = [ended for ended in ended_all if ended]
                if len(lived) < len(ended_all):
                    print(f"  {name:<21} killed")
                    continue
                own = {key: statistics.median(ended[key] for ended in lived) for key in lived[0]}
                print(
                    f"  {name:<21} {own['seconds']:7.2f} {size / own['seconds'] / rate:7.2f}"
                    f" {own['cpu']:7.2f} {own['peak']:7.0f} {own['cached'] / size:7.2f}"
                    f" {own['read'] / size:7.2f}"
                )
        path.unlink()


def records(folder: Path, quick: bool) -> None:
    count = 200 if quick else 10_000
    names = [f"{nth:05}.bin" for nth in range(count)]
    files = folder / "files"
    files.mkdir()
    noise = np.random.default_rng(7)
    for name in names:
        (files / name).write_bytes(noise.bytes(RECORD_BYTES))
    order = list(names)
    random.Random(3).shuffle(order)

    package = folder / "records.mpak"
    millstream.pack(str(files), package, codec="stored", share_below=0)
    archive = folder / "records.zip"
    with zipfile.ZipFile(archive, "w") as made:
        for name in names:
            made.write(files / name, name)

    def in_threads() -> list[bytes]:
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda name: (files / name).read_bytes(), order))

    def zipped() -> list[bytes]:
        with zipfile.ZipFile(archive) as opened:
            return [opened.read(name) for name in order]

    loads: dict[str, Load] = {
        "millstream": lambda: millstream.Package(package).read_many(order),
        "millstream, Dataset": lambda: list(millstream.Dataset(package).epoch(seed=3)),
        "files, 8 threads": in_threads,
        "zipfile": zipped,
    }
    paths = [files / name for name in names] + [package, archive]
    if installed("h5py"):
        h5py, hdf = importlib.import_module("h5py"), folder / "records.h5"
        with h5py.File(hdf, "w") as made:
            for name in names:
                made.create_dataset(name, data=np.fromfile(files / name, np.uint8))

        def in_hdf() -> list[Any]:
            with h5py.File(hdf) as opened:
                return [opened[name][()] for name in order]

        loads["h5py"] = in_hdf
        paths.append(hdf)
    if installed("lmdb"):
        lmdb, table = importlib.import_module("lmdb"), folder / "records.lmdb"
        options = {"subdir": False, "lock": False, "map_size": 1 << 32}
        with lmdb.open(str(table), **options) as made, made.begin(write=True) as transaction:
            for name in names:
                transaction.put(name.encode(), (files / name).read_bytes())

        def in_lmdb() -> list[bytes]:
            # Without reading ahead, as for random reads.
            opened = lmdb.open(str(table), readonly=True, readahead=False, **options)
            with opened, opened.begin() as transaction:
                return [transaction.get(name.encode()) for name in order]

        loads["lmdb"] = in_lmdb
        paths.append(table)
    show(f"{count} records of {RECORD_BYTES // 1000} kB in random order, cold")
    measure(loads, 1 if quick else 7, "ms", lambda seconds: seconds * 1e3, paths)


def requests(folder: Path, quick: bool) -> None:
    path, batches = folder / "requests.bin", 5 if quick else 200
    size = 100_000_000
    path.write_bytes(np.random.default_rng(7).bytes(size))
    # Far enough from each other that no two requests are served by one read.
    offsets = list(range(0, size, size // BATCH))[:BATCH]
    random.Random(3).shuffle(offsets)
    storage = millstream.Storage()
    queue, opened = storage.queue(), storage.open(path)
    ranges = [(opened, offset, REQUEST_BYTES) for offset in offsets]
    file = os.open(path, os.O_RDONLY)

    def repeated(batch: Callable[[], list[Any]]) -> Load:
        def run() -> list[Any]:
            for _ in range(batches - 1):
                batch()
            return batch()

        return run

    loads = {
        "millstream": repeated(lambda: millstream.wait_all(queue.read_many(ranges))),
        "os.pread": repeated(lambda: [os.pread(file, REQUEST_BYTES, at) for at in offsets]),
    }
    show(f"warm reads of {REQUEST_BYTES} bytes in batches of {BATCH}")
    measure(loads, 1 if quick else 7, "µs/read", lambda s: s * 1e6 / (batches * BATCH))
    os.close(file)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures Millstream beside its rivals.")
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="models, processes, records or requests")
    parser.add_argument("--file", type=Path, help="a model of yours")
    parser.add_argument("--gib", type=float, default=4, help="size of the model that is made")
    parser.add_argument("--quick", action="store_true", help="small data and one round")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.child, options.file)
    tasks: dict[str, Callable[[Path], None]] = {
        "models": lambda folder: models(folder, options.file, options.gib, options.quick),
        "processes": lambda folder: processes(folder, options.gib, options.quick),
        "records": lambda folder: records(folder, options.quick),
        "requests": lambda folder: requests(folder, options.quick),
    }
    for task in options.tasks or tasks:
        if task not in tasks:
            parser.error(f"no task {task}; there are {', '.join(tasks)}")
        with scratch() as folder:
            say(f"{task}: making data")
            tasks[task](folder)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        say("")
        sys.exit(128 + signal.SIGINT)
