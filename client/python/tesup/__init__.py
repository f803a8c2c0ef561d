"""tesup: hand transfers and notifications between jobs to a worker through shared memory.

``attach()`` gives a ``Session``; its ``alloc()`` and ``register()`` make memory that moves,
``open()`` gives the ``Remote`` to which ``write()``, ``read()`` and ``notify()`` go. What goes wrong
is a ``tesup.Error`` with a ``code`` and a sentence.
"""

from __future__ import annotations

from importlib import metadata as _metadata

from ._channel import Channel, Completion, Request, Work
from ._errors import (
    AgainError,
    AuthError,
    CancelledError,
    DeniedError,
    Error,
    ExistsError,
    FaultError,
    ForkedError,
    GoneError,
    InvalidError,
    LimitError,
    NoDaemonError,
    NoMemoryError,
    NotFoundError,
    ProtocolError,
    SkippedError,
    SystemCallError,
    TimedOutError,
    TooLongError,
    UncertainError,
    UnreachableError,
    UnsupportedError,
    VersionError,
)
from ._memory import Buffer, Region
from ._native import (
    AGAIN,
    ERR_AUTH,
    ERR_CANCELLED,
    ERR_DENIED,
    ERR_EXISTS,
    ERR_FAULT,
    ERR_FORKED,
    ERR_GONE,
    ERR_INVALID,
    ERR_LIMIT,
    ERR_NO_DAEMON,
    ERR_NO_MEMORY,
    ERR_NOT_FOUND,
    ERR_PROTOCOL,
    ERR_SKIPPED,
    ERR_SYSTEM,
    ERR_TIMEOUT,
    ERR_TOO_LONG,
    ERR_UNCERTAIN,
    ERR_UNREACHABLE,
    ERR_UNSUPPORTED,
    ERR_VERSION,
    EVENT,
    LOCAL,
    MESSAGE,
    NOP,
    NOTIFY,
    NOTIFY_MAX,
    OK,
    READ,
    REMOTE_READ,
    REMOTE_WRITE,
    SHARE_ALL,
    SHARE_UID,
    WRITE,
    strerror,
)
from ._remote import Remote
from ._session import Notification, Session, attach

__version__ = _metadata.version("tesup")

__all__ = [name for name in dir() if not name.startswith("_") and name != "annotations"]
