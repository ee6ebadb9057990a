"""The exceptions. All derive from MillstreamError, and from the built-in exception that callers of
the standard library expect."""

import builtins
from typing import Any


class MillstreamError(Exception):
    """A request, or a call, has failed.

    ``kind`` is the name of the error's kind; ``path``, ``offset`` and ``length`` say where it
    happened, and ``name`` in which entry of a package, or None if that is not known.
    """

    def __init__(
        self,
        message: str = "",
        kind: str = "",
        path: str | None = None,
        offset: int | None = None,
        length: int | None = None,
        name: str | None = None,
        errno: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.path = path
        self.offset = offset
        self.length = length
        self.name = name
        self.errno = errno

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        place = (self.path, self.offset, self.length, self.name, self.errno)
        return (type(self), (self.message, self.kind, *place))


class Canceled(MillstreamError):
    """The request was canceled."""


class Closed(MillstreamError, ValueError):
    """The storage or file was closed, the buffer released, or the storage belongs to the parent of
    this forked process."""


class Corrupt(MillstreamError, ValueError):
    """Bytes violate their format, or do not match their checksum."""


class InvalidArgument(MillstreamError, ValueError):
    """An argument has the right type and a wrong value."""


class IoError(MillstreamError, OSError):
    """The device, the file system or the system failed."""

    def __init__(self, message: str = "", kind: str = "", *place: Any) -> None:
        super().__init__(message, kind, *place)
        self.strerror = message
        self.filename = self.path


class Changed(IoError):
    """A file changed while it was packed, or a package between two processes of a Dataset."""


class IsDirectory(IoError, IsADirectoryError):
    """The path is a directory."""


class NotFound(IoError, FileNotFoundError):
    """There is no such file, or no such entry of a package."""


class PastEnd(IoError, EOFError):
    """The range reaches past the end of the file."""


class PermissionDenied(IoError, PermissionError):
    """The system denies access."""


class QueueFull(MillstreamError):
    """The queue is full, and waiting would never end."""


class TimeoutError(IoError, builtins.TimeoutError):
    """A wait, or a request, took longer than it may."""


_CLASSES: dict[str, type[MillstreamError]] = {
    "canceled": Canceled,
    "stopped": Canceled,
    "closed": Closed,
    "released": Closed,
    "stale_file": Closed,
    "still_held": Closed,
    "corrupt": Corrupt,
    "not_a_package": Corrupt,
    "raw_size": Corrupt,
    "raw_size_unknown": Corrupt,
    "signature": Corrupt,
    "truncated": Corrupt,
    "wrong_format": Corrupt,
    "bad_name": InvalidArgument,
    "destination_too_small": InvalidArgument,
    "duplicate": InvalidArgument,
    "invalid_argument": InvalidArgument,
    "not_submitted": InvalidArgument,
    "overflow": InvalidArgument,
    "unknown_codec": InvalidArgument,
    "broken": IoError,
    "changed": Changed,
    "io": IoError,
    "no_direct_io": IoError,
    "no_space": IoError,
    "not_a_file": IoError,
    "is_directory": IsDirectory,
    "not_found": NotFound,
    "past_end": PastEnd,
    "permission_denied": PermissionDenied,
    "queue_full": QueueFull,
    "timed_out": TimeoutError,
    "wait_timed_out": TimeoutError,
}


def invalid(cause: str) -> InvalidArgument:
    return InvalidArgument(cause, "invalid_argument")


def make(
    kind: str,
    message: str,
    path: str | None,
    offset: int | None,
    length: int | None,
    name: str | None,
    errno: int | None,
) -> MillstreamError:
    """The exception of a kind of error."""
    chosen = _CLASSES.get(kind, MillstreamError)
    return chosen(message, kind, path, offset, length, name, errno)
