"""Millstream: batched reads at the disk's speed.

A request names bytes of a file, how they are encoded and where they must land. Millstream lands
them there as fast as the hardware allows, and says when: io_uring (or threads, where it is
refused), direct I/O, priorities, cancellation, decoding on worker threads.

>>> import millstream, tempfile
>>> with tempfile.NamedTemporaryFile() as file, millstream.Storage() as storage:
...     _ = file.write(b"x" * 100_000)
...     file.flush()
...     queue = storage.queue(priority="high")
...     ticket = queue.read(file.name)      # returns at once
...     buffer = ticket.wait()              # or, in asyncio: await ticket
...     len(buffer)
100000

=============================  ===================================================================
you have                       you write
=============================  ===================================================================
a whole file                   ``millstream.load(path)``, which waits
a range of a file              ``queue.read(path, offset, length)``: a `Ticket` of a `Buffer`
memory for it                  ``queue.read(path, into=array)``
many ranges                    ``queue.read_many(...)``, ``with queue.batch() as batch``
a ticket                       ``ticket.wait()``, ``await ticket``, ``ticket.cancel()``
a package                      `Package`, `pack`, `Dataset`
a zip, pk3, PACK or PCK        ``millstream.open_archive(path)``: an `Archive`
a cluster that packs           ``millstream.ray.pack``; `PackPlan` and `encode_task`
model weights                  ``millstream.safetensors.load_file``, ``safe_open``
experts of a model on demand   `ExpertCache`
``.npy``, ``.npz``, raw files  ``millstream.npy.load``, ``fromfile``
=============================  ===================================================================

After a fork, a child cannot use the storages of its parent: their calls raise `Closed`.
`default_storage` gives each process its own.
"""

import atexit as _atexit
import os as _os

from . import _native
from ._dataset import Dataset
from ._default import default_storage, load
from ._errors import (
    Canceled,
    Changed,
    Closed,
    Corrupt,
    InvalidArgument,
    IoError,
    IsDirectory,
    MillstreamError,
    NotFound,
    PastEnd,
    PermissionDenied,
    QueueFull,
    TimeoutError,
)
from ._native import (
    Archive,
    Batch,
    Buffer,
    Entry,
    ExpertCache,
    File,
    Group,
    Package,
    Packed,
    PackPlan,
    Queue,
    Storage,
    Ticket,
    Verification,
    encode_task,
    open_archive,
    pack,
    wait_all,
)

__version__ = _native.__version__

__all__ = [
    "Archive",
    "Batch",
    "Buffer",
    "Canceled",
    "Changed",
    "Closed",
    "Corrupt",
    "Dataset",
    "Entry",
    "ExpertCache",
    "File",
    "Group",
    "InvalidArgument",
    "IoError",
    "IsDirectory",
    "MillstreamError",
    "NotFound",
    "Package",
    "PackPlan",
    "Packed",
    "PastEnd",
    "PermissionDenied",
    "Queue",
    "QueueFull",
    "Storage",
    "Ticket",
    "TimeoutError",
    "Verification",
    "__version__",
    "default_storage",
    "encode_task",
    "load",
    "open_archive",
    "pack",
    "wait_all",
]

_os.register_at_fork(after_in_child=_native._after_fork)
# Before the interpreter destroys objects whose memory requests in flight use.
_atexit.register(_native._close_all)
