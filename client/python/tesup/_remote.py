"""Segments of other processes."""

from __future__ import annotations

from . import _native
from ._closing import Closing


class Remote(Closing):
    """Another process's segment, opened by ``Session.open()``."""

    __slots__ = ("name", "handle", "_session")

    name: str
    """``HOST:PORT/SEGMENT``"""
    handle: int
    """What an EVENT about it carries in ``Notification.remote``."""

    def __init__(self, session: _native.Session, name: str) -> None:
        self._session = session
        self.name = name
        self.handle = session.remote_open(name)

    def watch(self) -> None:
        """Get one notification of kind EVENT when that process, its worker or host is gone."""
        self._session.remote_watch(self.handle)

    def close(self) -> None:
        """Close it; ``AgainError`` while requests to it are in flight. Else closed with the
        session."""
        if self.handle == 0 or self._session.closed:
            return
        handle, self.handle = self.handle, 0
        try:
            self._session.remote_close(handle)
        except BaseException:
            self.handle = handle
            raise

    def __repr__(self) -> str:
        state = f"handle {self.handle:#x}" if self.handle else "closed"
        return f"<tesup.Remote {self.name}, {state}>"
