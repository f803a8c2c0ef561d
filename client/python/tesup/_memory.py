"""Memory that moves: allocated here, or registered where another object has it."""

from __future__ import annotations

from typing import Any

from . import _native
from ._closing import Closing
from ._errors import make

# DLPack's numbers of devices whose memory is the host's: CPU, and pinned for CUDA and for ROCm.
_HOST_DEVICES = (1, 3, 11)
_CUDA = 2


class _Memory(_native.Memory, Closing):
    __slots__ = ("__weakref__",)

    def __repr__(self) -> str:
        state = f"handle {self.handle:#x}" if self.handle else "closed"
        return f"<tesup.{type(self).__name__} of {len(self)} bytes, {state}>"


class Buffer(_Memory):
    """Shared memory of ``Session.alloc()``.

    Has the buffer protocol: ``memoryview(buffer)``, ``numpy.frombuffer(buffer, ...)`` and the like
    are views without a copy. ``close()`` ends the region; the bytes stay as long as a view does.
    """

    __slots__ = ()


class Region(_Memory):
    """Memory of another object, or a file, as ``Session.register()`` made it a region.

    Keeps that object alive, and its memory where it is, until ``close()`` or the session's end.
    """

    __slots__ = ()


def _device(source: object) -> int:
    """DLPack's number of the device that has the object's memory."""
    device = getattr(source, "__dlpack_device__", None)
    if device is not None:
        return int(device()[0])
    return _CUDA if hasattr(source, "__cuda_array_interface__") else _HOST_DEVICES[0]


def _cuda_array(source: Any) -> dict[str, Any]:
    """Where an array of the CUDA array interface is; its elements must lie side by side."""
    interface = source.__cuda_array_interface__
    size = int(interface["typestr"][2:])
    strides = interface.get("strides")
    length = size
    for index in range(len(interface["shape"]) - 1, -1, -1):
        extent = interface["shape"][index]
        if strides is not None and extent > 1 and strides[index] != length:
            raise make(
                _native.ERR_INVALID,
                "the array's elements do not lie side by side; register a contiguous one",
            )
        length *= extent
    address, readonly = interface["data"]
    return {"address": address, "length": length, "readonly": readonly, "owner": source}


def importable(source: Any) -> tuple[Any, bool]:
    """What the extension module can register of the object, and whether it is read-only."""
    if isinstance(source, (int, str, tuple, dict)) or source is None:
        raise TypeError(f"{type(source).__name__} has no memory to register")
    device = _device(source)
    if device not in _HOST_DEVICES and device != _CUDA:
        raise make(
            _native.ERR_UNSUPPORTED,
            f"{type(source).__name__} is on DLPack device type {device}: memory of the host and of "
            "CUDA devices can be registered; copy it there, or into Session.alloc()",
        )
    if device == _CUDA:
        if hasattr(source, "__dlpack__"):
            return source.__dlpack__(), False
        array = _cuda_array(source)
        return array, bool(array["readonly"])
    try:
        with memoryview(source) as view:
            return source, view.readonly
    except (TypeError, ValueError, BufferError):
        if not hasattr(source, "__dlpack__"):
            raise
    return source.__dlpack__(), False
