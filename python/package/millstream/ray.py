"""Packing on a cluster: the workers of Ray encode, this process plans and writes.

    import millstream.ray
    millstream.ray.pack("/shared/data", "/shared/data.mpak", codec="zstd", level=19)

Needs the package `ray`, and Millstream of the same version on every machine. The machines see the
source under the same absolute path; bytes that are in no file travel with the tasks. The package
has the bytes that `millstream.pack` writes on one machine.
"""

import contextlib
import importlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ._errors import MillstreamError
from ._native import Packed, PackPlan, encode_task

if TYPE_CHECKING:
    from ._native import _Codec, _Item, _Name, _Path

__all__ = ["pack"]

# Tasks on the way for each core: one is encoded while the next one waits.
_TASKS_PER_CORE = 2


def pack(
    source: "_Path | Mapping[str, _Item] | Iterable[tuple[_Name, _Item]]",
    out: "_Path",
    *,
    codec: 'Literal["auto"] | _Codec' = "auto",
    level: int | None = None,
    block_bytes: int | None = None,
    share_below: int | None = None,
    order: "Sequence[_Name] | None" = None,
    fold_case: bool = False,
    progress: Callable[[int], object] | None = None,
    task_bytes: int = 32 << 20,
    tasks_in_flight: int | None = None,
    max_retries: int = 3,
) -> Packed:
    """As `millstream.pack`, with the encoding spread over the workers of a Ray cluster: the one
    that `ray.init` has connected to, or else what Ray starts by default.

    A task encodes blocks of `task_bytes` on one core; `tasks_in_flight` bounds the tasks and
    results that exist at a time (by default twice the cores of the cluster). The task of a worker
    that dies is run again, at most `max_retries` times; then Ray's exception is raised. A file
    that changed since it was planned raises `Changed`. After an exception there is no package; tasks
    that wait are canceled, and those that run come to their end.
    """
    ray: Any = importlib.import_module("ray")
    plan = PackPlan(
        source,
        codec=codec,
        level=level,
        block_bytes=block_bytes,
        share_below=share_below,
        order=order,
        fold_case=fold_case,
    )
    if not ray.is_initialized():
        ray.init()
    if tasks_in_flight is None:
        tasks_in_flight = _TASKS_PER_CORE * int(ray.cluster_resources().get("CPU", 1))
    # A task that raises would raise again; only tasks of workers that died are run again.
    encode = ray.remote(num_cpus=1, max_retries=max_retries, retry_exceptions=False)(_encode)
    cluster = _Cluster(ray, encode)
    encoded = cluster.encoded(plan, task_bytes, max(tasks_in_flight, 1), progress)
    with contextlib.closing(encoded):
        return plan.write(encoded, out)


def _encode(task: bytes) -> bytes:
    return encode_task(task)


class _Cluster:
    """Encodes the blocks of a plan, in their order."""

    def __init__(self, ray: Any, encode: Any) -> None:
        self._ray = ray
        self._encode = encode

    def encoded(
        self,
        plan: PackPlan,
        task_bytes: int,
        tasks_in_flight: int,
        progress: Callable[[int], object] | None,
    ) -> Generator[bytes, None, None]:
        ranges = iter(plan.ranges(task_bytes))
        pending: deque[tuple[int, Any]] = deque()
        done = 0
        try:
            while True:
                while len(pending) < tasks_in_flight and (blocks := next(ranges, None)):
                    task = self._encode.remote(plan.task(*blocks))
                    pending.append((plan.raw_bytes(*blocks), task))
                if not pending:
                    return
                raw_bytes, task = pending[0]
                encoded = self._result(task)
                pending.popleft()
                done += raw_bytes
                if progress is not None:
                    progress(done)
                yield encoded
        finally:
            for _raw_bytes, task in pending:
                with contextlib.suppress(Exception):
                    self._ray.cancel(task)

    def _result(self, task: Any) -> bytes:
        try:
            encoded: bytes = self._ray.get(task)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, MillstreamError):
                raise error.cause from None
            raise
        return encoded
