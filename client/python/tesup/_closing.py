"""What is closed at the end of a ``with`` statement."""

from __future__ import annotations

from types import TracebackType
from typing import Optional, Protocol, TypeVar

_Self = TypeVar("_Self")


class _Closable(Protocol):
    def close(self) -> None:
        ...


class Closing:
    """Makes a context manager of a class that has ``close()``."""

    __slots__ = ()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self: _Closable,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()
