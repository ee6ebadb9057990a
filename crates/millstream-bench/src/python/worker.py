"""A contender of the workload `python`, in a process of its own.

    worker.py TASK CONTENDER ARGUMENTS

It sets up, answers with a line of JSON, waits for a line, does the work, and answers with the time
that took and with a sum over what was loaded.
"""

import gc
import importlib
import json
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

# Each function imports and prepares, and returns what is timed: a function of no arguments, whose
# result is a list of the pieces that were loaded, or a dict of answers.


def model_millstream(path):
    from millstream.safetensors import load_file

    return lambda: list(load_file(path).values())


def model_safetensors(path):
    from safetensors.numpy import load_file

    return lambda: list(load_file(path).values())


def model_safetensors_read(path):
    from safetensors.numpy import load

    def run():
        with open(path, "rb") as file:
            return list(load(file.read()).values())

    return run


def model_fastsafetensors(path):
    loader = importlib.import_module("fastsafetensors").SafeTensorsFileLoader

    def run():
        files = loader(None, "cpu", nogds=True)
        files.add_filenames({0: [path]})
        loaded = files.copy_files_to_device()
        return [loaded.get_tensor(name).numpy() for name in loaded.key_to_rank_lidx]

    return run


def model_runai_model_streamer(path):
    streamer = importlib.import_module("runai_model_streamer").SafetensorsStreamer

    def run():
        # Open until the end of the process: the tensors lie in its memory.
        open_streamer = streamer().__enter__()
        open_streamer.stream_file(path)
        return [tensor.numpy() for _name, tensor in open_streamer.get_tensors()]

    return run


def iterate_millstream(path):
    from millstream.safetensors import iter_tensors

    def run():
        before = _memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        sums = total = 0
        for _name, tensor in iter_tensors(path):
            sums += _digest(tensor)
            total += tensor.nbytes
        peak = _memory("VmHWM") - before
        return {"digest": sums % 2**64, "bytes": total, "peak": peak}

    return run


def _memory(field):
    """Bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def _records(folder):
    names = sorted(os.listdir(Path(folder, "files")))
    order = list(names)
    random.Random(3).shuffle(order)
    return names, order


def _made(path, make):
    """Makes a container whole, or not at all."""
    if not path.exists():
        new = path.with_name(path.name + ".new")
        make(new)
        new.rename(path)
    return str(path)


def _package(folder):
    import millstream

    files = str(Path(folder, "files"))

    def make(new):
        millstream.pack(files, new, codec="stored", share_below=0)

    return _made(Path(folder, "stored-alone.mpak"), make)


def records_millstream(folder):
    import millstream

    _names, order = _records(folder)
    path = _package(folder)
    return lambda: millstream.Package(path).read_many(order)


def records_millstream_dataset(folder):
    import millstream

    path = _package(folder)
    return lambda: list(millstream.Dataset(path).epoch(seed=3))


def records_files_8(folder):
    _names, order = _records(folder)
    files = os.path.join(folder, "files", "")

    def read(name):
        with open(files + name, "rb") as file:
            return file.read()

    def run():
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(read, order))

    return run


def records_zipfile(folder):
    import zipfile

    names, order = _records(folder)

    def make(new):
        with zipfile.ZipFile(new, "w") as archive:
            for name in names:
                archive.write(Path(folder, "files", name), name)

    path = _made(Path(folder, "records.zip"), make)

    def run():
        with zipfile.ZipFile(path) as archive:
            return [archive.read(name) for name in order]

    return run


def records_h5py(folder):
    h5py = importlib.import_module("h5py")
    names, order = _records(folder)

    def make(new):
        with h5py.File(new, "w") as file:
            for name in names:
                record = np.fromfile(Path(folder, "files", name), np.uint8)
                file.create_dataset(name, data=record)

    path = _made(Path(folder, "records.h5"), make)

    def run():
        with h5py.File(path) as file:
            return [file[name][()] for name in order]

    return run


def records_lmdb(folder):
    lmdb = importlib.import_module("lmdb")
    names, order = _records(folder)

    def make(new):
        with lmdb.open(str(new), subdir=False, lock=False, map_size=1 << 32) as environment:
            with environment.begin(write=True) as transaction:
                for name in names:
                    record = Path(folder, "files", name).read_bytes()
                    transaction.put(name.encode(), record)

    path = _made(Path(folder, "records.lmdb"), make)

    def run():
        # Without reading ahead, as for random reads.
        with lmdb.open(path, subdir=False, lock=False, readonly=True, readahead=False) as opened:
            with opened.begin() as transaction:
                return [transaction.get(name.encode()) for name in order]

    return run


def _counted(batches, batch):
    """So many batches after one that pays for first-time costs, and the pieces of the last."""
    batch()

    def run():
        requests = 0
        for _ in range(batches):
            pieces = batch()
            requests += len(pieces)
        return Counted(requests, pieces)

    return run


def _offsets(path):
    """Far enough from each other that no two requests are served by one read."""
    offsets = list(range(0, os.path.getsize(path) - 64, os.path.getsize(path) // 1000))[:1000]
    random.Random(3).shuffle(offsets)
    return offsets


def requests_millstream(path, batches):
    import millstream

    storage = millstream.Storage()
    queue, file = storage.queue(), storage.open(path)
    ranges = [(file, offset, 64) for offset in _offsets(path)]
    return _counted(batches, lambda: millstream.wait_all(queue.read_many(ranges)))


def requests_pread(path, batches):
    file = os.open(path, os.O_RDONLY)
    offsets = _offsets(path)
    return _counted(batches, lambda: [os.pread(file, 64, offset) for offset in offsets])


class Counted(NamedTuple):
    """What was loaded several times."""

    requests: int
    pieces: list


def _digest(piece):
    """As the benchmark's own: words times the first one, made odd."""
    if isinstance(piece, np.ndarray):
        piece = piece.reshape(-1).view(np.uint8)
    words = np.frombuffer(piece, np.uint64)
    return int(words.sum(dtype=np.uint64)) * (int(words[0]) | 1) % 2**64


def _measured(run):
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    result = run()
    answer = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    if isinstance(result, dict):
        return answer | result
    requests = len(result)
    if isinstance(result, Counted):
        requests, result = result
    answer["bytes"] = sum(memoryview(piece).nbytes for piece in result)
    answer["requests"] = requests
    answer["digest"] = sum(map(_digest, result)) % 2**64
    return answer


def main():
    task, contender, arguments = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr
    try:
        prepare = globals()[f"{task}_{contender}".replace("-", "_")]
        run = prepare(**json.loads(arguments))
        print("{}", file=answers, flush=True)
        if sys.stdin.readline():
            print(json.dumps(_measured(run)), file=answers, flush=True)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers, flush=True)


main()
