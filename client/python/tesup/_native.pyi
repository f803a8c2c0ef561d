"""The C half of tesup; see native/*.c. The package's own classes are made of it."""

from typing import Any, Optional, Union

OK: int
AGAIN: int
ERR_INVALID: int
ERR_DENIED: int
ERR_GONE: int
ERR_NOT_FOUND: int
ERR_UNREACHABLE: int
ERR_TIMEOUT: int
ERR_CANCELLED: int
ERR_UNCERTAIN: int
ERR_FAULT: int
ERR_LIMIT: int
ERR_NO_MEMORY: int
ERR_NO_DAEMON: int
ERR_FORKED: int
ERR_VERSION: int
ERR_PROTOCOL: int
ERR_EXISTS: int
ERR_UNSUPPORTED: int
ERR_TOO_LONG: int
ERR_AUTH: int
ERR_SYSTEM: int
ERR_SKIPPED: int
LOCAL: int
REMOTE_READ: int
REMOTE_WRITE: int
SHARE_UID: int
SHARE_ALL: int
NOP: int
READ: int
WRITE: int
NOTIFY: int
WAIT: int
FLAG_ALWAYS: int
FLAG_ADDRESS: int
FLAG_MORE: int
FLAG_AFTER: int
MESSAGE: int
EVENT: int
NOTIFY_MAX: int

def strerror(code: int, /) -> str: ...

class Session:
    def __new__(
        cls,
        socket: Optional[str] = None,
        segment: Optional[str] = None,
        pair: Optional[str] = None,
        slots: int = 0,
        timeout_ms: int = 0,
        flags: int = 0,
    ) -> Session: ...
    @property
    def closed(self) -> bool: ...
    @property
    def name(self) -> str: ...
    @property
    def notify_max(self) -> int: ...
    def close(self) -> None: ...
    def event_register(self, event: int, /) -> int: ...
    def event_unregister(self, handle: int, /) -> None: ...
    def remote_open(self, name: str, /) -> int: ...
    def remote_close(self, remote: int, /) -> None: ...
    def remote_watch(self, remote: int, /) -> None: ...

class Memory:
    def __new__(
        cls,
        session: Session,
        source: Union[int, tuple[int, int, int], dict[str, Any], Any],
        access: int = 3,
    ) -> Any: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def address(self) -> int: ...
    @property
    def handle(self) -> int: ...
    @property
    def readonly(self) -> bool: ...
    def close(self) -> None: ...

class Channel:
    def __new__(cls, session: Session, main: bool) -> Channel: ...
    def arm(self) -> bool: ...
    def cancel(self, ticket: int, /) -> None: ...
    def close(self) -> None: ...
    def fileno(self) -> int: ...
    def poll(self) -> list[tuple[int, int, int, int, int]]: ...
    def submit(
        self, requests: tuple[tuple[Any, ...], ...], /
    ) -> tuple[list[int], Optional[Exception]]: ...
    def take(self) -> Optional[tuple[int, int, int, str, bytes, bytes, int]]: ...
    def taken(self) -> int: ...
    def wait(self, ms: int, taken: int, /) -> bool: ...
