"""Events of CUDA, that requests can wait for."""

from __future__ import annotations

from typing import Any

from . import _native
from ._closing import Closing
from ._errors import Error

# Where others keep the CUevent: torch.cuda.Event, cupy.cuda.Event, numba's event.
_PLACES = ("cuda_event", "ptr", "handle")


def _address(source: Any) -> int:
    found = source
    for place in _PLACES:
        if not isinstance(found, Event):
            found = getattr(found, place, found)
    found = getattr(found, "value", found)
    if not isinstance(found, int):
        raise TypeError(f"{type(source).__name__} is no CUDA event, nor the address of one")
    return found


class Event(Closing):
    """An event of CUDA, as ``Session.register_event()`` made it known to the worker.

    Keeps the event alive until ``close()`` or the session's end.
    """

    __slots__ = ("handle", "_session", "_source", "__weakref__")

    handle: int
    """0 once it is closed."""

    def __init__(self, session: _native.Session, source: Any) -> None:
        self.handle = 0
        self._session = session
        self.handle = session.event_register(_address(source))
        self._source = source

    def close(self) -> None:
        """Requests that wait for it end as GONE. Closing twice is fine."""
        handle, self.handle = self.handle, 0
        if handle and not self._session.closed:
            try:
                self._session.event_unregister(handle)
            except BaseException:
                self.handle = handle  # it is still known there, and is kept alive
                raise
        self._source = None

    def __del__(self) -> None:
        try:
            self.close()
        except Error:
            pass  # its session ends it

    def __repr__(self) -> str:
        return f"<tesup.Event, {f'handle {self.handle:#x}' if self.handle else 'closed'}>"
