"""Tickets and groups in asyncio.

The engine makes an eventfd readable that the event loop watches, so none of its threads ever waits
for the interpreter, and many completions wake the loop once.
"""

import asyncio
import itertools
import os
import weakref
from typing import Any

from ._native import Completions, Group, Ticket


class _Bridge:
    """What an event loop waits for. It does not keep the loop alive."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.completions = Completions()
        self.waiting: dict[int, asyncio.Future[None]] = {}
        self.tokens = itertools.count()
        loop.add_reader(self.completions.fileno(), self.take)

    def take(self) -> None:
        for token in self.completions.take():
            future = self.waiting.pop(token, None)
            if future is not None and not future.done():
                future.set_result(None)


_bridges: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Bridge]
_bridges = weakref.WeakKeyDictionary()

# A forked child makes bridges of its own: it shares the eventfds of its parent's.
os.register_at_fork(after_in_child=_bridges.clear)


async def wait(waitable: Ticket[Any] | Group) -> Any:
    """Waits for a ticket or a group. If the task is canceled, so is the ticket's request."""
    loop = asyncio.get_running_loop()
    bridge = _bridges.get(loop)
    if bridge is None:
        bridge = _bridges[loop] = _Bridge(loop)
    token = next(bridge.tokens)
    future = loop.create_future()
    bridge.waiting[token] = future
    try:
        # Woken without being complete, it is looked at again.
        while not waitable._notify(bridge.completions, token):
            await future
            future = bridge.waiting[token] = loop.create_future()
    except asyncio.CancelledError:
        if isinstance(waitable, Ticket):
            waitable.cancel()
        raise
    finally:
        bridge.waiting.pop(token, None)
        waitable._forget(bridge.completions, token)
    return waitable.wait()
