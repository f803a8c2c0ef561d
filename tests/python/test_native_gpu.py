"""Memory of a GPU: arrays as other libraries have them, on the stand-in of the CUDA driver."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import unittest
from typing import Any, Optional

import tesup
from harness import SHORT_S, Duo

SIZE = 65536 + 3


class Cuda:
    """What these tests need of the driver."""

    def __init__(self) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.driver, name)(*arguments)
        assert code == 0, f"{name}: CUDA error {code}"

    def close(self) -> None:
        self.call("cuCtxSetCurrent", None)
        self.call("cuDevicePrimaryCtxRelease_v2", 0)


class Array:
    """Device memory with the CUDA array interface and nothing else."""

    def __init__(self, cuda: Cuda, size: int, readonly: bool = False) -> None:
        self.cuda, self.size, self.readonly = cuda, size, readonly
        self.pointer = ctypes.c_ulonglong()
        self.strides: Optional[tuple[int, ...]] = None
        cuda.call("cuMemAlloc_v2", ctypes.byref(self.pointer), ctypes.c_size_t(size))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.size,),
            "typestr": "|u1",
            "data": (self.pointer.value, self.readonly),
            "strides": self.strides,
            "version": 3,
        }

    def store(self, data: bytes) -> None:
        self.cuda.call("cuMemcpyHtoD_v2", self.pointer, data, ctypes.c_size_t(len(data)))

    def fetch(self) -> bytes:
        data = ctypes.create_string_buffer(self.size)
        self.cuda.call("cuMemcpyDtoH_v2", data, self.pointer, ctypes.c_size_t(self.size))
        return data.raw

    def free(self) -> None:
        self.cuda.call("cuMemFree_v2", self.pointer)


class CudaEvent:
    """One that other processes may wait for, with its address where torch.cuda.Event has it."""

    def __init__(self, cuda: Cuda) -> None:
        self.cuda, self.pointer = cuda, ctypes.c_void_p()
        cuda.call("cuEventCreate", ctypes.byref(self.pointer), 0x2 | 0x4)

    @property
    def cuda_event(self) -> Optional[int]:
        return self.pointer.value

    def destroy(self) -> None:
        self.cuda.call("cuEventDestroy_v2", self.pointer)


class Gpu(Duo):
    def setUp(self) -> None:
        self.cuda = Cuda()
        self.here = self.attach(self.left)
        self.there = self.attach(self.right)
        self.remote = self.here.open(self.there.name)

    def tearDown(self) -> None:
        self.here.close()
        self.there.close()
        self.cuda.close()

    def test_arrays_at_both_ends(self) -> None:
        mine, theirs = Array(self.cuda, SIZE), Array(self.cuda, SIZE)
        data = os.urandom(SIZE)
        mine.store(data)
        with self.here.register(mine) as local, self.there.register(theirs) as target:
            self.assertEqual((local.address, len(local)), (mine.pointer.value, SIZE))
            self.here.write(self.remote, local, target.handle, timeout=SHORT_S)
            self.assertEqual(theirs.fetch(), data)
            data = os.urandom(SIZE)
            theirs.store(data)
            self.here.read(self.remote, local, target, timeout=SHORT_S)
            self.assertEqual(mine.fetch(), data)
        mine.free()
        theirs.free()

    def test_array_is_kept_alive(self) -> None:
        array = Array(self.cuda, 4096)
        references = sys.getrefcount(array)
        region = self.here.register(array)
        self.assertGreater(sys.getrefcount(array), references)
        region.close()
        gc.collect()
        self.assertEqual(sys.getrefcount(array), references)
        array.free()

    def test_in_the_order_of_a_stream(self) -> None:
        mine, theirs, filled = (Array(self.cuda, SIZE) for _ in range(3))
        event = CudaEvent(self.cuda)
        nap = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)  # the stream takes that long
        stream = ctypes.c_void_p()
        self.cuda.call("cuStreamCreate", ctypes.byref(stream), 1)
        with (
            self.here.register(mine) as local,
            self.there.register(theirs) as target,
            self.here.register_event(event) as written,
        ):
            for turn in range(5):
                data = os.urandom(SIZE)
                self.cuda.call("cuLaunchHostFunc", stream, nap, ctypes.c_void_p(20000))
                filled.store(data)
                self.cuda.call(
                    "cuMemcpyDtoDAsync_v2",
                    mine.pointer,
                    filled.pointer,
                    ctypes.c_size_t(SIZE),
                    stream,
                )
                self.cuda.call("cuEventRecord", event.pointer, stream)
                wait = self.here.submit(tesup.WAIT, local=written, cookie="wait")
                write = self.here.submit(tesup.WRITE, self.remote, local, target, after=True)
                self.assertEqual(write.result(SHORT_S), SIZE)
                self.assertEqual(wait.result(SHORT_S), 0)
                self.assertEqual(theirs.fetch(), data, f"turn {turn}")
                self.cuda.call("cuStreamSynchronize", stream)
        self.cuda.call("cuStreamDestroy_v2", stream)
        event.destroy()
        for array in (mine, theirs, filled):
            array.free()

    def test_events_that_are_refused(self) -> None:
        for wrong in (None, "event", object(), ctypes.c_void_p()):
            with self.assertRaisesRegex(TypeError, "is no CUDA event"):
                self.here.register_event(wrong)
        with self.assertRaises(tesup.InvalidError):
            self.here.register_event(0)
        event = CudaEvent(self.cuda)
        known = self.here.register_event(event.pointer)
        with self.assertRaisesRegex(TypeError, "is no CUDA event"):
            self.here.register_event(known)
        with self.assertRaisesRegex(TypeError, "a WAIT needs an Event"):
            self.here.submit(tesup.WAIT)
        with self.assertRaisesRegex(TypeError, "needs local memory|not Event"):
            self.here.submit(tesup.WRITE, self.remote, known, 1)
        known.close()
        known.close()
        with self.assertRaisesRegex(tesup.GoneError, "the event was closed"):
            self.here.submit(tesup.WAIT, local=known)
        event.destroy()

    def test_after_nothing_is_skipped(self) -> None:
        request = self.here.submit(tesup.NOTIFY, self.remote, name=b"n", after=True)
        with self.assertRaisesRegex(tesup.SkippedError, "NOTIFY"):
            request.result(SHORT_S)

    def test_event_is_kept_alive(self) -> None:
        event = CudaEvent(self.cuda)
        references = sys.getrefcount(event)
        known = self.here.register_event(event)
        self.assertGreater(sys.getrefcount(event), references)
        known.close()
        self.assertEqual(sys.getrefcount(event), references)
        left_to_the_session = self.here.register_event(event)
        self.here.close()
        self.assertEqual(left_to_the_session.handle, 0)
        event.destroy()

    def test_what_is_refused(self) -> None:
        array = Array(self.cuda, 4096, readonly=True)
        with self.assertRaisesRegex(tesup.DeniedError, "read-only"):
            self.here.register(array, tesup.REMOTE_WRITE)
        array.readonly = False
        array.strides = (2,)
        with self.assertRaisesRegex(tesup.InvalidError, "side by side"):
            self.here.register(array)
        array.strides = None
        array.size = 8192
        with self.assertRaisesRegex(tesup.InvalidError, "end past their allocation"):
            self.here.register(array)
        array.free()
        with self.assertRaisesRegex(tesup.InvalidError, "CUDA_ERROR_INVALID_VALUE"):
            self.here.register(array)


if __name__ == "__main__":
    unittest.main()
