"""A session: the attachment of a process, its memory, and its mailbox."""

from __future__ import annotations

import os
import weakref
from collections import deque
from typing import Any, NamedTuple, Optional, TypeVar, Union

from . import _native
from ._channel import Channel, _milliseconds
from ._errors import make
from ._event import Event
from ._memory import Buffer, Region, importable
from ._remote import Remote

_Kept = TypeVar("_Kept", Buffer, Region, Event)
_ALL = _native.REMOTE_READ | _native.REMOTE_WRITE
_MAIL_MAX = 256  # notifications taken from the ring; the others stay, and hold their senders back


class Notification(NamedTuple):
    """One that arrived. ``kind`` is ``tesup.MESSAGE``, or ``EVENT`` of a watched segment."""

    kind: int
    status: int
    """The outcome of the transfer it was bound to; of an EVENT: why the segment is gone."""
    remote: int
    """Of an EVENT: the ``handle`` of the watched ``Remote``."""
    sender: str
    """The sender's ``HOST:PORT/SEGMENT``; of an EVENT: the watched one."""
    name: bytes
    msg: bytes
    moved: int
    """Bytes of the transfer it was bound to."""


class Session(Channel):
    """The attachment of this process, made by ``tesup.attach()``.

    It is its own first channel, the one on which notifications arrive. Close it, or use it in a
    ``with`` statement: then all its regions have ended and no byte can land any more.
    """

    def __init__(self, native: _native.Session) -> None:
        super().__init__(_native.Channel(native, True))
        self._session = native
        self._regions: weakref.WeakSet[Union[Buffer, Region, Event]] = weakref.WeakSet()
        self._mail: deque[Notification] = deque()

    @property
    def name(self) -> str:
        """``HOST:PORT/SEGMENT`` of this process; what others open."""
        return self._session.name

    @property
    def notify_max(self) -> int:
        """Largest name + message of a notification, in bytes."""
        return self._session.notify_max

    @property
    def closed(self) -> bool:
        """Closed, or inherited by a child of fork()."""
        return self._session.closed

    def alloc(self, length: int, access: int = _ALL) -> Buffer:
        """Shared, zeroed memory of ``length`` bytes as a region.

        access: what remote jobs may do, ``LOCAL`` or ``REMOTE_READ | REMOTE_WRITE``.
        """
        if not isinstance(length, int):
            raise TypeError(f"a number of bytes is needed, not {type(length).__name__}")
        return self._keep(Buffer(self._session, length, access))

    def register(self, source: Any, access: Optional[int] = None) -> Region:
        """Memory of an object as a region, without a copy.

        source: an object with the buffer protocol (bytearray, mmap, numpy array ...), a DLPack
        tensor, or an array of the CUDA array interface, with elements side by side. What a GPU
        still does with it is not waited for.
        access: default is all that the memory allows.
        """
        memory, readonly = importable(source)
        if access is None:
            access = _native.REMOTE_READ if readonly else _ALL
        return self._keep(Region(self._session, memory, access))

    def register_file(
        self, fd: int, offset: int = 0, length: Optional[int] = None, access: int = _ALL
    ) -> Region:
        """A memfd, POSIX shared memory or hugetlb file as a region."""
        if length is None:
            length = os.fstat(fd).st_size - offset
        return self._keep(Region(self._session, (fd, offset, length), access))

    def register_event(self, event: Any) -> Event:
        """An event of CUDA, for ``tesup.WAIT``: ``submit(tesup.WAIT, local=event)``.

        event: a ``torch.cuda.Event(interprocess=True)``, a cupy or numba event, or the address of a
        ``cudaEvent_t``; made for other processes and without timing.
        """
        return self._keep(Event(self._session, event))

    def open(self, name: str) -> Remote:
        """Another process's segment ``HOST:PORT/SEGMENT``. Waits until the peer answered."""
        return Remote(self._session, name)

    def channel(self) -> Channel:
        """One more channel, for requests only."""
        return Channel(_native.Channel(self._session, False))

    # ---- the mailbox ----

    def notifications(self) -> list[Notification]:
        """All that have arrived and were not taken yet, without waiting."""
        taken = []
        with self._entered():
            self._harvest()
            while self._mail:
                taken.append(self._mail.popleft())
                if not self._mail:
                    self._harvest()
        return taken

    def next_notification(self, timeout: Optional[float] = None) -> Notification:
        """Wait for the next one; ``TimedOutError`` after ``timeout`` seconds."""
        while self._sleep_until(lambda: bool(self._mail), timeout):
            with self._entered():
                if self._mail:
                    return self._mail.popleft()
        raise make(_native.ERR_TIMEOUT, f"no notification arrived within {timeout} s")

    async def anext_notification(self) -> Notification:
        """Wait for the next one in an event loop."""
        while True:
            await self._until(lambda: bool(self._mail))
            with self._entered():
                if self._mail:
                    return self._mail.popleft()

    def close(self) -> None:
        """Detach: revokes the regions, waits until no byte can land. Closing twice is fine."""
        self._stop(self._session.close)
        for region in list(self._regions):
            region.close()

    # ---- inside ----

    def _keep(self, region: _Kept) -> _Kept:
        self._regions.add(region)
        return region

    def _has_work(self) -> bool:
        return bool(self._ready) or bool(self._mail)

    def _awake(self) -> bool:
        return len(self._mail) >= _MAIL_MAX

    def _harvest(self) -> None:
        count = 0
        while len(self._mail) < _MAIL_MAX:
            note = self._native.take()
            if note is None:
                break
            self._mail.append(Notification(*note))
            count += 1
        if count:
            self._arrived(count)
        super()._harvest()


def attach(
    segment: Optional[str] = None,
    *,
    socket: Union[str, os.PathLike[str], None] = None,
    pair: Optional[str] = None,
    slots: int = 0,
    timeout: float = 10.0,
    share: int = _native.SHARE_UID,
) -> Session:
    """Attach this process to the supervisor of its host.

    segment: the name of this process's memory and mailbox; default is unique per process.
    socket: the supervisor's; default ``$TESUP_SOCKET``, then the default path.
    pair: which worker, as in tesup.h; default ``$TESUP_PAIR``, then the NUMA node we run on.
    slots: requests in flight per channel, 16, 32 ... 4096; 0 is the daemon's default.
    timeout: seconds, for this and for later calls that ask the supervisor.
    share: who may open the segment, ``SHARE_UID`` or ``SHARE_ALL``.
    """
    path = None if socket is None else os.fsdecode(socket)
    native = _native.Session(path, segment, pair, slots, max(_milliseconds(timeout), 1), share)
    return Session(native)
