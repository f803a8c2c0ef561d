"""A channel in an asyncio event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Optional

from ._errors import Error

if TYPE_CHECKING:
    from ._channel import Channel

_LOOKS = 8  # before other callbacks of the loop have their turn
_NAP_S = 0.001


class LoopReader:
    """Watches the channel's descriptor while somebody awaits, and harvests when it is readable."""

    def __init__(self, channel: Channel, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._channel = channel
        self._fd = channel.fileno()
        self._users = 0
        self._stopped = False

    def __enter__(self) -> LoopReader:
        if self._users == 0:
            self.loop.add_reader(self._fd, self.look)
        self._users += 1
        return self

    def __exit__(self, *_: Any) -> None:
        self._users -= 1
        if self._users == 0 and not self._stopped:
            self.loop.remove_reader(self._fd)

    def look(self) -> None:
        """Takes what is there until the descriptor is armed."""
        channel = self._channel
        if self._users == 0 or self._stopped:
            return
        try:
            for _ in range(_LOOKS):
                if channel._native.arm():
                    return
                with channel._entered():
                    channel._harvest()
                    if channel._awake():
                        break
        except Error:
            channel._wake_loop()  # those who wait meet the same error themselves
            return
        self.loop.call_later(_NAP_S, self.look)

    def stop(self) -> None:
        """The channel is closed: its descriptor's number may be given to another file."""
        if self._stopped:
            return
        self._stopped = True
        try:
            running: Optional[asyncio.AbstractEventLoop] = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self.loop:
            self.loop.remove_reader(self._fd)
        elif not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.remove_reader, self._fd)
