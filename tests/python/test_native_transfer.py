"""Bytes and notifications between two supervisors, of every kind of memory."""

from __future__ import annotations

import array
import gc
import mmap
import os
import sys
import unittest

import numpy
import tesup
from harness import SHORT_S, Duo

SIZES = [1, 4096, 65536 + 3, 1 << 20]


class Tensor:
    """A tensor as other libraries have it: DLPack and no buffer protocol."""

    def __init__(self, values: numpy.ndarray, device: int = 1) -> None:
        self.values, self.device = values, device

    def __dlpack__(self, stream: object = None) -> object:
        assert self.device == 1, "memory of other devices must be refused before it is exported"
        return self.values.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


class Transfer(Duo):
    def setUp(self) -> None:
        self.here = self.attach(self.left)
        self.there = self.attach(self.right)
        self.remote = self.here.open(self.there.name)

    def random(self, size: int) -> bytes:
        return os.urandom(size)

    def test_both_directions(self) -> None:
        for size in SIZES:
            mine, theirs = self.here.alloc(size), self.there.alloc(size)
            data = self.random(size)
            memoryview(mine)[:] = data
            moved = self.here.write(self.remote, mine, theirs.handle, timeout=SHORT_S)
            self.assertEqual((moved, bytes(theirs)), (size, data))
            data = self.random(size)
            memoryview(theirs)[:] = data
            moved = self.here.read(self.remote, mine, theirs, timeout=SHORT_S)
            self.assertEqual((moved, bytes(mine)), (size, data))

    def test_part_of_a_region(self) -> None:
        mine, theirs = self.here.alloc(64), self.there.alloc(64)
        memoryview(mine)[:] = bytes(range(64))
        self.here.write(self.remote, mine, theirs, local_offset=8, remote_offset=32, length=16)
        self.assertEqual(bytes(theirs), bytes(32) + bytes(range(8, 24)) + bytes(16))

    def test_addresses_instead_of_handles(self) -> None:
        mine, theirs = self.here.alloc(4096), self.there.alloc(4096)
        memoryview(mine)[:5] = b"hello"
        self.here.write(self.remote, mine, remote_offset=theirs.address + 100, length=5)
        self.assertEqual(bytes(memoryview(theirs)[100:105]), b"hello")

    def test_numpy_without_copies(self) -> None:
        theirs = self.there.alloc(4096)
        view = numpy.frombuffer(theirs, dtype=numpy.int32)
        self.assertEqual(view.ctypes.data, theirs.address)
        mine = numpy.arange(1024, dtype=numpy.int32)
        with self.here.register(mine) as region:
            self.assertEqual(region.address, mine.ctypes.data)
            self.here.write(self.remote, region, theirs, timeout=SHORT_S)
            numpy.testing.assert_array_equal(view, mine)
            view[:] = view[::-1].copy()
            self.here.read(self.remote, region, theirs, timeout=SHORT_S)
        numpy.testing.assert_array_equal(mine, numpy.arange(1024)[::-1])

    def test_buffers_of_every_kind(self) -> None:
        theirs = self.there.alloc(64)
        shared = mmap.mmap(-1, 64)
        kinds = [
            bytearray(64),
            array.array("d", [0.0] * 8),
            memoryview(bytearray(64)),
            shared,
            numpy.zeros((8, 8), dtype=numpy.uint8, order="F"),
        ]
        for kind in kinds:
            data = self.random(64)
            memoryview(theirs)[:] = data
            with self.here.register(kind) as region:
                self.here.read(self.remote, region, theirs, timeout=SHORT_S)
            with memoryview(kind) as view:
                self.assertEqual(view.tobytes("A"), data, type(kind).__name__)
        shared.close()

    def test_read_only_buffer_is_a_source(self) -> None:
        data = self.random(4096)
        theirs = self.there.alloc(4096)
        region = self.here.register(data)
        self.assertTrue(region.readonly)
        self.here.write(self.remote, region, theirs, timeout=SHORT_S)
        self.assertEqual(bytes(theirs), data)
        with self.assertRaisesRegex(tesup.DeniedError, "read-only"):
            self.here.read(self.remote, region, theirs)
        with self.assertRaisesRegex(tesup.DeniedError, "read-only"):
            self.here.register(data, tesup.REMOTE_WRITE)

    def test_dlpack_tensor(self) -> None:
        values = numpy.arange(512, dtype=numpy.float64)
        references = sys.getrefcount(values)
        theirs = self.there.alloc(values.nbytes)
        region = self.here.register(Tensor(values))
        self.assertEqual((region.address, len(region)), (values.ctypes.data, values.nbytes))
        self.assertGreater(sys.getrefcount(values), references)
        self.here.write(self.remote, region, theirs, timeout=SHORT_S)
        numpy.testing.assert_array_equal(numpy.frombuffer(theirs), values)
        region.close()
        gc.collect()
        self.assertEqual(sys.getrefcount(values), references)

    def test_tensors_that_are_refused(self) -> None:
        values = numpy.arange(64, dtype=numpy.int64)
        with self.assertRaisesRegex(tesup.UnsupportedError, "device type 10"):
            self.here.register(Tensor(values, device=10))
        with self.assertRaisesRegex(tesup.InvalidError, "side by side"):
            self.here.register(Tensor(values[::2]))
        with self.assertRaises((ValueError, BufferError)):
            self.here.register(values[::2])

    def test_exporter_is_kept_alive(self) -> None:
        data = bytearray(b"x" * 4096)
        region = self.here.register(data)
        with self.assertRaises(BufferError):
            data.extend(b"more")
        del data
        gc.collect()
        theirs = self.there.alloc(4096)
        self.here.write(self.remote, region, theirs, timeout=SHORT_S)
        self.assertEqual(bytes(theirs), b"x" * 4096)

    def test_exporter_is_kept_while_in_flight(self) -> None:
        data = bytearray(self.random(1 << 20))
        copy = bytes(data)
        theirs = self.there.alloc(len(data))
        request = self.here.submit(tesup.WRITE, self.remote, self.here.register(data), theirs)
        del data  # the request alone holds the region now, and the region the bytes
        gc.collect()
        self.assertEqual(request.result(SHORT_S), len(copy))
        self.assertEqual(bytes(theirs), copy)

    def test_exporter_is_free_again(self) -> None:
        for end in ("close", "drop", "session"):
            data = bytearray(64)
            session = self.attach()
            region = session.register(data)
            if end == "close":
                region.close()
                region.close()
            elif end == "drop":
                del region
                gc.collect()
            else:
                session.close()
            data.extend(b"more")

    def test_file(self) -> None:
        fd = os.memfd_create("tesup-test")
        self.addCleanup(os.close, fd)
        os.write(fd, b"0" * 4096 + b"1" * 4096)
        theirs = self.there.alloc(4096)
        region = self.here.register_file(fd, offset=4096)
        self.here.write(self.remote, region, theirs, timeout=SHORT_S)
        self.assertEqual(bytes(theirs), b"1" * 4096)

    def test_notification_arrives_behind_the_bytes(self) -> None:
        mine, theirs = self.here.alloc(65536), self.there.alloc(65536)
        for turn in range(20):
            memoryview(mine)[:] = bytes([turn]) * 65536
            self.here.submit(tesup.WRITE, self.remote, mine, theirs, name="block", msg=str(turn))
            note = self.there.next_notification(SHORT_S)
            self.assertEqual(bytes(theirs), bytes([turn]) * 65536)
            self.assertEqual((note.kind, note.status), (tesup.MESSAGE, tesup.OK))
            self.assertEqual((note.name, note.msg), (b"block", str(turn).encode()))
            self.assertEqual((note.sender, note.moved), (self.here.name, 65536))

    def test_notifications_in_order(self) -> None:
        for turn in range(100):
            self.here.notify(self.remote, b"n", str(turn), timeout=SHORT_S)
        got: list[int] = []
        while len(got) < 100:
            got.append(int(self.there.next_notification(SHORT_S).msg))
        self.assertEqual(got, list(range(100)))
        self.assertEqual(self.there.notifications(), [])

    def test_more_notifications_than_are_kept(self) -> None:
        """The mailbox holds its sender back, and a waiter for completions is not in its way."""
        sent = 0
        with self.assertRaises(tesup.AgainError):
            while sent < 100_000:
                self.here.submit(tesup.NOTIFY, self.remote, name=b"n", msg=bytes(4096))
                sent += 1
                if sent % 8 == 0:
                    self.there.nop(timeout=SHORT_S)
        self.assertGreater(sent, 16)
        for _ in range(sent):
            self.there.next_notification(SHORT_S)
        ended = 0
        while ended < sent:
            self.assertTrue(self.here.wait(SHORT_S))
            ended += len(self.here.poll())

    def test_largest_notification(self) -> None:
        limit = self.here.notify_max
        self.here.notify(self.remote, b"n", bytes(limit - 1), timeout=SHORT_S)
        self.assertEqual(len(self.there.next_notification(SHORT_S).msg), limit - 1)
        with self.assertRaises(tesup.TooLongError):
            self.here.notify(self.remote, b"n", bytes(limit))

    def test_failed_transfer_and_its_notification(self) -> None:
        mine, theirs = self.here.alloc(64), self.there.alloc(64)
        handle = theirs.handle
        theirs.close()
        with self.assertRaisesRegex(tesup.GoneError, "WRITE"):
            self.here.write(self.remote, mine, handle, timeout=SHORT_S)
        request = self.here.submit(tesup.WRITE, self.remote, mine, handle, name=b"end", always=True)
        with self.assertRaises(tesup.GoneError):
            request.result(SHORT_S)
        note = self.there.next_notification(SHORT_S)
        self.assertEqual((note.name, note.status), (b"end", tesup.ERR_GONE))

    def test_many_in_one_submission(self) -> None:
        mine, theirs = self.here.alloc(64), self.there.alloc(64)
        memoryview(mine)[:] = bytes(range(64))
        works = [
            tesup.Work(
                tesup.WRITE,
                self.remote,
                mine,
                theirs,
                length=1,
                local_offset=63 - i,
                remote_offset=i,
                cookie=("slot", i),
            )
            for i in range(64)
        ]
        requests = self.here.submit_many(works)
        self.assertEqual(len(requests), 64)
        done: list[tesup.Completion] = []
        while len(done) < 64:
            self.assertTrue(self.here.wait(SHORT_S))
            done += self.here.poll(10)
        self.assertEqual(sorted(one.cookie for one in done), [("slot", i) for i in range(64)])
        self.assertEqual([one.check() for one in done], [1] * 64)
        self.assertEqual(bytes(theirs), bytes(range(63, -1, -1)))

    def test_one_notification_for_a_group(self) -> None:
        mine, theirs = self.here.alloc(1 << 20), self.there.alloc(1 << 20)
        memoryview(mine)[:] = self.random(1 << 20)
        works = [
            tesup.Work(
                tesup.WRITE,
                self.remote,
                mine,
                theirs,
                length=65536,
                more=i < 15,
                local_offset=i * 65536,
                remote_offset=i * 65536,
                name=b"all" if i == 15 else b"",
            )
            for i in range(16)
        ]
        requests = self.here.submit_many(works)
        self.assertEqual(self.there.next_notification(SHORT_S).name, b"all")
        self.assertEqual(bytes(theirs), bytes(mine))
        self.assertEqual([request.result(SHORT_S) for request in requests], [65536] * 16)
        self.assertEqual(self.there.notifications(), [])

    def test_watch(self) -> None:
        watched = self.attach(self.right, "watched")
        remote = self.here.open(watched.name)
        remote.watch()
        watched.close()
        note = self.here.next_notification(SHORT_S)
        self.assertEqual((note.kind, note.remote), (tesup.EVENT, remote.handle))
        self.assertEqual(note.sender, remote.name)
        remote.close()
        remote.close()

    def test_cancel(self) -> None:
        size = 64 << 20
        mine, theirs = self.here.alloc(size), self.there.alloc(size)
        requests = [self.here.submit(tesup.READ, self.remote, mine, theirs) for _ in range(4)]
        for request in reversed(requests):
            request.cancel()
        cancelled = 0
        for request in requests:
            try:
                self.assertEqual(request.result(SHORT_S), size)
            except tesup.CancelledError:
                cancelled += 1
        self.assertGreater(cancelled, 0)
        requests[0].cancel()  # it has ended: nothing to do

    def test_deadline(self) -> None:
        size = 64 << 20
        mine, theirs = self.here.alloc(size), self.there.alloc(size)
        requests = [
            self.here.submit(tesup.READ, self.remote, mine, theirs, deadline=0.004)
            for _ in range(4)
        ]
        with self.assertRaises(TimeoutError):  # nobody moves 256 MiB in 4 ms
            for request in requests:
                request.result(SHORT_S)


class TransferOfOneHost(Transfer):
    """The same between two supervisors that share memory."""

    fabric = "local"


if __name__ == "__main__":
    unittest.main()
