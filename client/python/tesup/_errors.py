"""One exception per status code of tesup.h; some are a built-in exception, too."""

from __future__ import annotations


class Error(Exception):
    """What libtesup refused or could not do; the sentence names cause and remedy."""

    code: int
    """The status code: one of ``tesup.ERR_*``, or ``tesup.AGAIN``."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class AgainError(Error, BlockingIOError):
    """No room now, and nothing was accepted: take completions, then try again."""


class InvalidError(Error, ValueError):
    """An argument makes no sense."""


class DeniedError(Error, PermissionError):
    """Access flags or the trust rule forbid it."""


class GoneError(Error):
    """The region, segment, channel or session existed and is gone (or was closed)."""


class NotFoundError(Error, LookupError):
    """No such segment, worker or handle."""


class UnreachableError(Error, ConnectionError):
    """No connection to the peer; nothing was sent."""


class TimedOutError(Error, TimeoutError):
    """The deadline passed; when a completion says so, no byte can land any more."""


class CancelledError(Error):
    """Cancelled; no byte can land any more."""


class UncertainError(Error):
    """It was sent, and nobody knows the outcome; it is never sent again."""


class FaultError(Error):
    """Memory vanished or cannot be touched."""


class LimitError(Error):
    """A limit was reached."""


class NoMemoryError(Error, MemoryError):
    """The system refused memory."""


class NoDaemonError(Error, ConnectionError):
    """No supervisor at the socket."""


class ForkedError(Error, RuntimeError):
    """Called in a child of the process that attached; a child attaches on its own."""


class VersionError(Error):
    """Library and supervisor speak different versions."""


class ProtocolError(Error):
    """The other side broke the protocol."""


class ExistsError(Error):
    """The name of the segment is taken."""


class UnsupportedError(Error, NotImplementedError):
    """Not possible here; the sentence says what is."""


class TooLongError(Error, ValueError):
    """Name + message exceed ``Session.notify_max``."""


class AuthError(Error, PermissionError):
    """The peer does not know the key."""


class SystemCallError(Error):
    """A system call failed."""


class SkippedError(Error):
    """Not sent: a transfer that it waited for failed."""


# By the number of its code: AGAIN is 1, the errors are -1, -2 ...
_BY_CODE: dict[int, type[Error]] = {
    1: AgainError,
    -1: InvalidError,
    -2: DeniedError,
    -3: GoneError,
    -4: NotFoundError,
    -5: UnreachableError,
    -6: TimedOutError,
    -7: CancelledError,
    -8: UncertainError,
    -9: FaultError,
    -10: LimitError,
    -11: NoMemoryError,
    -12: NoDaemonError,
    -13: ForkedError,
    -14: VersionError,
    -15: ProtocolError,
    -16: ExistsError,
    -17: UnsupportedError,
    -18: TooLongError,
    -19: AuthError,
    -20: SystemCallError,
    -21: SkippedError,
}


def make(code: int, text: str) -> Error:
    """The exception for a status code; the extension module calls it."""
    return _BY_CODE.get(code, Error)(text, code)
