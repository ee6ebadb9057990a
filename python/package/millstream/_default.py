"""The storage of callers who do not make one."""

import os
import threading

from ._native import Buffer, Storage

_lock = threading.Lock()
_storage: Storage | None = None
_process = 0


def default_storage() -> Storage:
    """The process's own storage, made by the first call. A forked child gets another one.

    >>> import millstream
    >>> millstream.default_storage() is millstream.default_storage()
    True
    """
    global _storage, _process
    with _lock:
        if _storage is None or _process != os.getpid() or _storage.closed:
            _storage, _process = Storage(), os.getpid()
        return _storage


def load(path: str | os.PathLike[str]) -> Buffer:
    """Loads a whole file with the process's own storage, and waits until it has.

    >>> import millstream, tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"bytes")
    ...     file.flush()
    ...     bytes(millstream.load(file.name))
    b'bytes'
    """
    return default_storage().load(path)


def _after_fork() -> None:
    # Another thread may have held the lock.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
