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
