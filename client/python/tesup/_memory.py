"""Memory that moves: allocated here, or registered where another object has it."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Optional

from . import _native
from ._errors import make

# DLPack's numbers of devices whose memory is the host's: CPU, and pinned for CUDA and for ROCm.
_HOST_DEVICES = (1, 3, 11)


class _Closing(_native.Memory):
    __slots__ = ("__weakref__",)

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = f"handle {self.handle:#x}" if self.handle else "closed"
        return f"<tesup.{type(self).__name__} of {len(self)} bytes, {state}>"


class Buffer(_Closing):
    """Shared memory of ``Session.alloc()``.

    Has the buffer protocol: ``memoryview(buffer)``, ``numpy.frombuffer(buffer, ...)`` and the like
    are views without a copy. ``close()`` ends the region; the bytes stay as long as a view does.
    """

    __slots__ = ()


class Region(_Closing):
    """Memory of another object, or a file, as ``Session.register()`` made it a region.

    Keeps that object alive, and its memory where it is, until ``close()`` or the session's end.
    """

    __slots__ = ()


def gpu_refuse(source: object) -> None:
    """Raises UnsupportedError when the object's memory is not the host's."""
    device = getattr(source, "__dlpack_device__", None)
    if device is not None:
        kind = int(device()[0])
    elif hasattr(source, "__cuda_array_interface__"):
        kind = 2
    else:
        return
    if kind in _HOST_DEVICES:
        return
    raise make(
        _native.ERR_UNSUPPORTED,
        f"{type(source).__name__} is on DLPack device type {kind}: only memory of the host can be "
        "registered; copy it to the CPU (pinned memory is fine), or into Session.alloc()",
    )


def importable(source: Any) -> tuple[Any, bool]:
    """What the extension module can register of the object, and whether it is read-only."""
    if isinstance(source, (int, str, tuple)) or source is None:
        raise TypeError(f"{type(source).__name__} has no memory to register")
    gpu_refuse(source)
    try:
        with memoryview(source) as view:
            return source, view.readonly
    except (TypeError, ValueError, BufferError):
        if not hasattr(source, "__dlpack__"):
            raise
    return source.__dlpack__(), False
