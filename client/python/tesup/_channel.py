"""Channels: submitting work, and getting to know how it ended."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any, NamedTuple, Optional, Union

from . import _native
from ._closing import Closing
from ._errors import AgainError, make
from ._event import Event
from ._loop import LoopReader
from ._memory import Buffer, Region
from ._remote import Remote

Memory = Union[Buffer, Region]
Text = Union[bytes, bytearray, memoryview, str]

_READY_MAX = 65536  # completions that nobody took; then nothing more is accepted
_RETRY_S = 0.05  # between two tries for room
_GRACE_S = 5.0  # for a worker to say that a deadline passed
_MS_MAX = 2**31 - 1
_NAP_S = 0.001  # between two looks while unread notifications would keep us awake

_forks = 0  # of this process's ancestors; cheaper to look at than the pid


def _fork_count() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_fork_count)


_NAMES = {
    _native.READ: "READ",
    _native.WRITE: "WRITE",
    _native.NOTIFY: "NOTIFY",
    _native.WAIT: "WAIT",
}


class Completion(NamedTuple):
    """The end of one request. ``status`` is ``tesup.OK`` or an error's code."""

    cookie: Any
    ticket: int
    moved: int
    status: int
    op: int

    def check(self) -> int:
        """The bytes that were moved; raises the ``tesup.Error`` of a status that is not OK."""
        if self.status == _native.OK:
            return self.moved
        name = _NAMES.get(self.op, "NOP")
        raise make(
            self.status,
            f"{name} with ticket {self.ticket}: {_native.strerror(self.status)} "
            f"({self.moved} bytes moved)",
        )


class Work(NamedTuple):
    """What ``Channel.submit_many()`` takes. The fields are the arguments of ``submit()``."""

    op: int
    remote: Optional[Remote] = None
    local: Union[Memory, Event, None] = None
    region: Union[int, Memory, None] = None
    length: Optional[int] = None
    local_offset: int = 0
    remote_offset: int = 0
    name: Text = b""
    msg: Text = b""
    always: bool = False
    more: bool = False
    deadline: Optional[float] = None
    cookie: Any = None
    after: bool = False

    def _length(self) -> int:
        if self.local is None:
            raise TypeError("a READ or WRITE needs local memory: a Buffer or a Region")
        if not isinstance(self.local, (Buffer, Region)):
            raise TypeError(f"local is a Buffer or a Region, not {type(self.local).__name__}")
        if self.local.handle == 0:
            raise make(_native.ERR_GONE, "the local memory was closed")
        if self.op == _native.READ and self.local.readonly:
            raise make(_native.ERR_DENIED, "a READ into memory whose object is read-only")
        if self.length is None:
            return len(self.local) - self.local_offset
        return self.length

    def _local(self) -> int:
        """The handle of what the request is about on this side; 0: nothing."""
        if self.op == _native.WAIT:
            if not isinstance(self.local, Event):
                raise TypeError("a WAIT needs an Event as local")
            if self.local.handle == 0:
                raise make(_native.ERR_GONE, "the event was closed")
            return self.local.handle
        if self.op in (_native.READ, _native.WRITE) and self.local is not None:
            return self.local.handle
        return 0

    def pack(self, cookie: int) -> tuple[Any, ...]:
        """The tuple that the extension module takes."""
        moves = self.op in (_native.READ, _native.WRITE)
        length = self._length() if moves else 0
        if self.remote is not None and not isinstance(self.remote, Remote):
            raise TypeError(f"remote is a Remote, not {type(self.remote).__name__}")
        region = self.region.handle if isinstance(self.region, (Buffer, Region)) else self.region
        flags = _native.FLAG_ALWAYS if self.always else 0
        if moves and region is None:
            flags |= _native.FLAG_ADDRESS
        if self.more:
            flags |= _native.FLAG_MORE
        if self.after:
            flags |= _native.FLAG_AFTER
        return (
            self.op,
            flags,
            cookie,
            self.remote.handle if self.remote is not None else 0,
            self._local(),
            self.local_offset if moves else 0,
            region if moves and region is not None else 0,
            0 if self.deadline is None else max(_milliseconds(self.deadline), 1),
            self.remote_offset if moves else 0,
            length,
            _bytes(self.name),
            _bytes(self.msg),
        )


class Request:
    """One accepted request. Wait for it with ``result()`` or ``await``, or ``Channel.poll()``."""

    __slots__ = ("cookie", "ticket", "completion", "_channel", "_id", "_memory", "_claimed")

    cookie: Any
    ticket: int
    completion: Optional[Completion]

    def __init__(self, channel: Channel, number: int, work: Work) -> None:
        self.cookie = work.cookie
        self.ticket = 0
        self.completion = None
        self._channel = channel
        self._id = number
        self._memory = work.local  # stays a region while the worker may touch it
        self._claimed = False

    @property
    def done(self) -> bool:
        """Has it ended? Becomes true only while somebody waits, polls or awaits."""
        return self.completion is not None

    def cancel(self) -> None:
        """Ask to cancel. ``result()`` says how it ended, when no byte can land any more."""
        self._channel._cancel(self)

    def result(self, timeout: Optional[float] = None) -> int:
        """Wait for the end; the bytes moved, or the ``tesup.Error`` that it ended with."""
        if not self._channel._sleep_until(self._ended, timeout, self):
            raise make(
                _native.ERR_TIMEOUT,
                f"request with ticket {self.ticket} has not ended within {timeout} s; it is still "
                "under way: wait again, or cancel() it",
            )
        assert self.completion is not None
        return self.completion.check()

    def __await__(self) -> Generator[Any, None, int]:
        return self._finish().__await__()

    def _ended(self) -> bool:
        return self.completion is not None

    async def _finish(self) -> int:
        await self._channel._until(self._ended, self)
        assert self.completion is not None
        return self.completion.check()

    def _end(self, completion: Completion) -> None:
        self.completion = completion
        self._memory = None


class Channel(Closing):
    """One set of rings of a session. Its methods may be called from any thread.

    One thread at a time sleeps on it and hands out to the others what arrives; threads that shall
    not share a ring open one each with ``Session.channel()``. Sleep on a channel either in threads
    or in one event loop.
    """

    def __init__(self, native: _native.Channel) -> None:
        self._native = native
        self._forks = _forks
        self._changed = threading.Condition()
        self._asleep = False
        self._numbers = 0
        self._arrivals = 0
        self._requests: dict[int, Request] = {}
        self._ready: dict[int, Completion] = {}
        self._wakers: list[asyncio.Future[None]] = []
        self._reader: Optional[LoopReader] = None

    # ---- submitting ----

    def submit_many(self, works: Iterable[Work]) -> list[Request]:
        """Submit in order, with one wake-up of the worker. Never blocks.

        Returns a request per piece of work that was accepted: fewer than were given when the next
        one found no room or was refused. Raises when the first one was.
        """
        listed = list(works)
        for work in listed:
            if not isinstance(work, Work):
                raise TypeError(f"a Work is needed, not {type(work).__name__}")
        with self._entered():
            if len(self._ready) >= _READY_MAX:
                raise make(
                    _native.AGAIN, f"{_READY_MAX} completions were not taken: poll(), then submit"
                )
            requests = [Request(self, self._numbers + i, work) for i, work in enumerate(listed)]
            packed = tuple(work.pack(self._numbers + i) for i, work in enumerate(listed))
            tickets, error = self._native.submit(packed)
            if isinstance(error, AgainError) and not tickets:
                self._harvest()  # the room may be taken by what nobody has looked at
                tickets, error = self._native.submit(packed)
            if error is not None and not tickets:
                raise error
            accepted = requests[: len(tickets)]
            for request, ticket in zip(accepted, tickets):
                request.ticket = ticket
                self._requests[request._id] = request
            self._numbers += len(tickets)
        return accepted

    def submit(
        self,
        op: int,
        remote: Optional[Remote] = None,
        local: Union[Memory, Event, None] = None,
        region: Union[int, Memory, None] = None,
        *,
        length: Optional[int] = None,
        local_offset: int = 0,
        remote_offset: int = 0,
        name: Text = b"",
        msg: Text = b"",
        always: bool = False,
        more: bool = False,
        deadline: Optional[float] = None,
        cookie: Any = None,
        after: bool = False,
    ) -> Request:
        """Submit one request. Never blocks; ``AgainError`` when there is no room now.

        op: ``tesup.READ``, ``WRITE``, ``NOTIFY``, ``NOP``, or ``WAIT`` for the ``Event`` that is
        ``local``.
        region: the owner's handle of the remote memory; without it ``remote_offset`` is an address
        of the owner's process.
        length: default is the rest of ``local``.
        name, msg: the notification that arrives behind the transfer; ``always`` has it arrive
        when the transfer failed, too.
        more: the next request of this channel is of the same group; the notification of the last
        one of a group, which is without ``more``, waits for all of them.
        deadline: seconds from acceptance; default is the worker's.
        cookie: any object; comes back in the completion.
        after: starts when the last ``WAIT`` before it on this channel has ended, and ends as
        ``SkippedError`` if that one failed.
        """
        return self.submit_many(
            [
                Work(
                    op,
                    remote,
                    local,
                    region,
                    length,
                    local_offset,
                    remote_offset,
                    name,
                    msg,
                    always,
                    more,
                    deadline,
                    cookie,
                    after,
                )
            ]
        )[0]

    # ---- submitting, and waiting for the end ----

    def write(
        self,
        remote: Remote,
        local: Memory,
        region: Union[int, Memory, None] = None,
        *,
        length: Optional[int] = None,
        local_offset: int = 0,
        remote_offset: int = 0,
        name: Text = b"",
        msg: Text = b"",
        timeout: Optional[float] = None,
    ) -> int:
        """Write local memory to the remote region, and wait. The bytes that were moved."""
        return self._do(
            Work(
                _native.WRITE,
                remote,
                local,
                region,
                length,
                local_offset,
                remote_offset,
                name,
                msg,
                deadline=timeout,
            )
        )

    def read(
        self,
        remote: Remote,
        local: Memory,
        region: Union[int, Memory, None] = None,
        *,
        length: Optional[int] = None,
        local_offset: int = 0,
        remote_offset: int = 0,
        name: Text = b"",
        msg: Text = b"",
        timeout: Optional[float] = None,
    ) -> int:
        """Read the remote region into local memory, and wait. The bytes that were moved."""
        return self._do(
            Work(
                _native.READ,
                remote,
                local,
                region,
                length,
                local_offset,
                remote_offset,
                name,
                msg,
                deadline=timeout,
            )
        )

    def notify(
        self, remote: Remote, name: Text, msg: Text = b"", *, timeout: Optional[float] = None
    ) -> None:
        """Send a notification of its own, and wait until it was handed to the connection."""
        self._do(Work(_native.NOTIFY, remote, name=name, msg=msg, deadline=timeout))

    def nop(self, *, timeout: Optional[float] = None) -> None:
        """Go through the worker and back."""
        self._do(Work(_native.NOP, deadline=timeout))

    def _do(self, work: Work) -> int:
        timeout = work.deadline
        until = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            seen = self._arrivals
            try:
                request = self.submit_many([work])[0]
                break
            except AgainError:
                left = until - time.monotonic()
                if left <= 0:
                    raise
                self._sleep_until(lambda: self._arrivals != seen, min(left, _RETRY_S))
        return request.result(None if timeout is None else timeout + _GRACE_S)

    # ---- what arrived ----

    def poll(self, most: Optional[int] = None) -> list[Completion]:
        """Completions of requests that nobody waits for, without waiting; at most ``most``."""
        with self._entered():
            self._harvest()
            keys = list(self._ready)[:most]
            return [self._ready.pop(key) for key in keys]

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Sleep until there is something to take. False after ``timeout`` seconds."""
        return self._sleep_until(self._has_work, timeout)

    def fileno(self) -> int:
        """A descriptor for ``select``; call ``arm()`` before each sleep on it."""
        return self._native.fileno()

    def arm(self) -> bool:
        """True: sleep now, ``fileno()`` becomes readable. False: there is something already."""
        with self._entered():
            self._harvest()
            return not self._has_work() and self._native.arm()

    def close(self) -> None:
        """Give up what is in flight; how it ended is not known then. Closing twice is fine."""
        self._stop(self._native.close)

    # ---- inside ----

    def _entered(self) -> threading.Condition:
        """The lock; not in a child, where a thread of the parent may have held it."""
        if self._forks != _forks:
            raise make(
                _native.ERR_FORKED,
                "this session belongs to the parent process; a child attaches on its own",
            )
        return self._changed

    def _has_work(self) -> bool:
        return bool(self._ready)

    def _harvest(self) -> None:
        """Under the lock: takes what the rings have, and wakes whom it may concern."""
        completions = self._native.poll()
        for number, ticket, count, status, op in completions:
            request = self._requests.pop(number)
            completion = Completion(request.cookie, ticket, count, status, op)
            request._end(completion)
            if not request._claimed:
                self._ready[number] = completion
        if completions:
            self._arrived(len(completions))

    def _arrived(self, count: int) -> None:
        self._arrivals += count
        self._changed.notify_all()
        self._wake_loop()

    def _wake_loop(self) -> None:
        wakers, self._wakers = self._wakers, []
        for waker in wakers:
            try:
                waker.get_loop().call_soon_threadsafe(_resolve, waker)
            except RuntimeError:
                pass  # the loop was closed with its tasks

    def _awake(self) -> bool:
        """Would what nobody takes keep a sleeper awake?"""
        return False

    def _sleep_until(
        self,
        done: Callable[[], bool],
        timeout: Optional[float],
        request: Optional[Request] = None,
    ) -> bool:
        """False after `timeout`. Whoever waits for `request` takes its completion."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        with self._entered():
            self._claim(request)
            while True:
                self._harvest()
                if done():
                    return True
                left = until - time.monotonic()
                if left <= 0:
                    return False
                if self._asleep or self._awake():
                    nap = _NAP_S if self._awake() else None
                    self._changed.wait(min(left, nap or threading.TIMEOUT_MAX))
                else:
                    self._sleep(left)

    def _sleep(self, left: float) -> None:
        """Until something arrives, or another thread has taken what did meanwhile."""
        taken = self._native.taken()
        self._asleep = True
        self._changed.release()
        try:
            self._native.wait(-1 if left == math.inf else _milliseconds(left), taken)
        finally:
            self._changed.acquire()
            self._asleep = False
            self._changed.notify_all()

    async def _until(self, done: Callable[[], bool], request: Optional[Request] = None) -> None:
        """The same for an event loop: its reader harvests."""
        loop = asyncio.get_running_loop()
        reader = self._reader
        if reader is None or reader.loop is not loop:
            reader = self._reader = LoopReader(self, loop)
        with reader:
            while True:
                with self._entered():
                    self._claim(request)
                    self._harvest()
                    if done():
                        return
                    waker: asyncio.Future[None] = loop.create_future()
                    self._wakers.append(waker)
                reader.look()
                await waker

    def _claim(self, request: Optional[Request]) -> None:
        if request is not None and not request._claimed:
            request._claimed = True
            self._ready.pop(request._id, None)

    def _cancel(self, request: Request) -> None:
        with self._entered():
            self._harvest()
            if not request.done:
                self._native.cancel(request.ticket)

    def _stop(self, close: Callable[[], None]) -> None:
        if self._forks == _forks and self._reader is not None:
            self._reader.stop()
        close()
        if self._forks != _forks:
            return
        with self._changed:
            self._requests.clear()
            self._arrived(0)


def _resolve(waker: asyncio.Future[None]) -> None:
    if not waker.done():
        waker.set_result(None)


def _milliseconds(seconds: float) -> int:
    if not seconds >= 0:
        raise ValueError(f"a time of {seconds} s makes no sense")
    return min(math.ceil(seconds * 1000), _MS_MAX) if seconds != math.inf else _MS_MAX


def _bytes(text: Text) -> bytes:
    if isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, (bytearray, memoryview)):
        return bytes(text)
    raise TypeError(f"name and msg are bytes or str, not {type(text).__name__}")
