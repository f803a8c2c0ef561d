"""mooncake.engine as clients of the Mooncake transfer engine use it, over two supervisors."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any, Union

import numpy
from harness import SHORT_S, START_S, Daemon, Duo, run_examples, wait_for
from mooncake.engine import TransferEngine, TransferNotify, TransferOpcode
from tesup import _engine

METHODS = """initialize initialize_ext get_rpc_port allocate_managed_buffer free_managed_buffer
transfer_sync_write transfer_sync_read transfer_sync batch_transfer_sync_write
batch_transfer_sync_read batch_transfer_sync batch_transfer_async_write batch_transfer_async_read
batch_transfer_async get_batch_transfer_status transfer_submit_write transfer_check_status
write_bytes_to_buffer read_bytes_from_buffer register_memory unregister_memory
batch_register_memory batch_unregister_memory get_local_topology get_first_buffer_address
get_notifies send_probe""".split()

# A client in a process of its own, as inference engines start it.
PEER = """
import sys, numpy
from mooncake.engine import TransferEngine
engine = TransferEngine()
assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", "") == 0
memory = numpy.full(1 << 20, 7, dtype=numpy.uint8)
assert engine.register_memory(memory.ctypes.data, memory.nbytes) == 0
print(engine.get_rpc_port(), memory.ctypes.data, flush=True)
sys.stdin.readline()
print(int(memory.sum()), flush=True)
sys.stdin.readline()
"""


class Engine(Duo):
    def setUp(self) -> None:
        self.here = self.engine(self.left)
        self.there = self.engine(self.right)
        self.peer = f"127.0.0.1:{self.there.get_rpc_port()}"
        self.mine = self.memory(self.here, 1 << 20)
        self.theirs = self.memory(self.there, 1 << 20)

    def tearDown(self) -> None:
        del self.here, self.there
        gc.collect()

    def engine(self, daemon: Daemon) -> TransferEngine:
        engine = TransferEngine()
        os.environ["TESUP_SOCKET"] = str(daemon.socket)
        try:
            self.assertEqual(engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", ""), 0)
        finally:
            del os.environ["TESUP_SOCKET"]
        return engine

    def memory(self, engine: TransferEngine, size: int) -> numpy.ndarray:
        array = numpy.frombuffer(bytearray(os.urandom(size)), dtype=numpy.uint8)
        self.assertEqual(engine.register_memory(array.ctypes.data, size), 0)
        return array

    def addresses(self, array: numpy.ndarray, step: int, count: int) -> list[int]:
        return [array.ctypes.data + i * step for i in range(count)]

    def notifications(self, engine: TransferEngine, count: int) -> list[tuple[str, str]]:
        got: list[TransferNotify] = []

        def enough() -> bool:
            got.extend(engine.get_notifies())
            return len(got) >= count

        wait_for(f"{count} notifications", enough)
        return [(one.name, one.msg) for one in got]

    def equal(self) -> None:
        numpy.testing.assert_array_equal(self.mine, self.theirs)

    # ---- all that there is ----

    def test_every_method_is_there(self) -> None:
        for name in METHODS:
            self.assertTrue(callable(getattr(TransferEngine, name)), name)
            self.assertTrue(getattr(TransferEngine, name).__doc__, name)
        self.assertEqual((TransferOpcode.Read, TransferOpcode.Write), (0, 1))
        self.assertEqual((TransferOpcode.READ, TransferOpcode.WRITE), (0, 1))
        self.assertEqual((TransferNotify().name, TransferNotify("a", "b").msg), ("", "b"))

    def test_sync_both_directions(self) -> None:
        mine, theirs, size = self.mine.ctypes.data, self.theirs.ctypes.data, 1 << 20
        self.assertEqual(self.here.transfer_sync_write(self.peer, mine, theirs, size), 0)
        self.equal()
        self.theirs[:] = self.theirs[::-1].copy()
        self.assertEqual(self.here.transfer_sync_read(self.peer, mine, theirs, size), 0)
        self.equal()
        for opcode, source in (
            (TransferOpcode.Write, self.mine),
            (TransferOpcode.Read, self.theirs),
        ):
            source[:] = numpy.frombuffer(os.urandom(size), dtype=numpy.uint8)
            self.assertEqual(self.here.transfer_sync(self.peer, mine, theirs, size, opcode), 0)
            self.equal()

    def test_sync_batches(self) -> None:
        step, count = 16384, 64
        mine = self.addresses(self.mine, step, count)
        theirs = self.addresses(self.theirs, step, count)
        lengths = [step] * count
        here = self.here
        self.assertEqual(here.batch_transfer_sync_write(self.peer, mine, theirs, lengths), 0)
        self.equal()
        self.theirs[:] = 3
        self.assertEqual(here.batch_transfer_sync_read(self.peer, mine, theirs, lengths), 0)
        self.equal()
        self.mine[:] = 4
        columns = (numpy.array(column, dtype=numpy.uint64) for column in (mine, theirs, lengths))
        code = here.batch_transfer_sync(self.peer, *columns, TransferOpcode.Write)
        self.assertEqual(code, 0)
        self.equal()

    def test_async_batches(self) -> None:
        step, count = 65536, 16
        mine = self.addresses(self.mine, step, count)
        theirs = self.addresses(self.theirs, step, count)
        lengths = [step] * count
        here = self.here
        batches = [
            here.batch_transfer_async_write(
                self.peer, mine[i : i + 4], theirs[i : i + 4], lengths[i : i + 4]
            )
            for i in range(0, count, 4)
        ]
        self.assertNotIn(0, batches)
        self.assertEqual(here.get_batch_transfer_status(batches), 0)
        self.equal()
        self.assertEqual(here.get_batch_transfer_status(batches), -1)  # they were freed
        self.theirs[:] = 5
        batch = here.batch_transfer_async_read(self.peer, mine, theirs, lengths)
        self.assertEqual(here.get_batch_transfer_status([batch]), 0)
        self.equal()
        self.mine[:] = 6
        batch = here.batch_transfer_async(self.peer, mine, theirs, lengths, TransferOpcode.Write)
        self.assertEqual(here.get_batch_transfer_status([batch]), 0)
        self.equal()
        self.assertEqual(here.get_batch_transfer_status([]), 0)

    def test_submit_and_check(self) -> None:
        batch = self.here.transfer_submit_write(
            self.peer, self.mine.ctypes.data, self.theirs.ctypes.data, 1 << 20
        )
        self.assertGreater(batch, 0)
        seen: list[int] = []

        def over() -> bool:
            seen.append(self.here.transfer_check_status(batch))
            return seen[-1] != 0

        wait_for("the write ends", over)
        self.assertEqual(seen[-1], 1)
        self.equal()
        self.assertEqual(self.here.transfer_check_status(batch), -1)

    def test_notifications(self) -> None:
        for turn in range(20):
            self.mine[:] = turn
            code = self.here.transfer_sync(
                self.peer,
                self.mine.ctypes.data,
                self.theirs.ctypes.data,
                1 << 20,
                TransferOpcode.Write,
                notify=TransferNotify("block", f"grün {turn}"),
            )
            self.assertEqual(code, 0)
            self.assertEqual(self.notifications(self.there, 1), [("block", f"grün {turn}")])
            self.equal()
        code = self.here.batch_transfer_sync(
            self.peer,
            [self.mine.ctypes.data] * 3,
            [self.theirs.ctypes.data] * 3,
            [64] * 3,
            TransferOpcode.Read,
            TransferNotify("read", ""),
        )
        self.assertEqual(code, 0)
        self.assertEqual(self.notifications(self.there, 1), [("read", "")])
        self.assertEqual(self.there.get_notifies(), [])

    def test_self_is_a_target(self) -> None:
        own = f"127.0.0.1:{self.here.get_rpc_port()}"
        mine = self.mine.ctypes.data
        code = self.here.transfer_sync(
            own, mine, mine + 4096, 4096, TransferOpcode.Write, TransferNotify("to", "myself")
        )
        self.assertEqual(code, 0)
        numpy.testing.assert_array_equal(self.mine[:4096], self.mine[4096:8192])
        self.assertEqual(self.notifications(self.here, 1), [("to", "myself")])

    def test_managed_buffers(self) -> None:
        here, there = self.here, self.there
        mine, theirs = here.allocate_managed_buffer(8192), there.allocate_managed_buffer(8192)
        data = os.urandom(8192)
        self.assertEqual(here.write_bytes_to_buffer(mine, data, 8192), 0)
        self.assertEqual(here.transfer_sync_write(self.peer, mine, theirs, 8192), 0)
        self.assertEqual(there.read_bytes_from_buffer(theirs, 8192), data)
        self.assertEqual(here.write_bytes_to_buffer(mine + 1, "text", 4), 0)
        self.assertEqual(here.read_bytes_from_buffer(mine, 6), data[:1] + b"text" + data[5:6])
        self.assertLess(here.free_managed_buffer(mine, 4096), 0)
        self.assertEqual(here.free_managed_buffer(mine, 8192), 0)
        self.assertLess(here.free_managed_buffer(mine, 8192), 0)
        self.assertLess(here.transfer_sync_write(self.peer, mine, theirs, 8192), 0)
        self.assertEqual(here.allocate_managed_buffer(0), 0)
        self.assertEqual(here.allocate_managed_buffer(-1), 0)
        self.assertEqual(here.allocate_managed_buffer(1 << 60), 0)
        self.assertEqual(here.allocate_managed_buffer(1 << 200), 0)

    def test_registration(self) -> None:
        array = numpy.zeros(8192, dtype=numpy.uint8)
        address = array.ctypes.data
        here = self.here
        self.assertEqual(here.batch_register_memory([address, address + 4096], [4096, 4096]), 0)
        self.assertEqual(here.register_memory(address, 64), -7)
        self.assertEqual(here.batch_unregister_memory([address, address + 4096]), 0)
        self.assertLess(here.unregister_memory(address), 0)
        self.assertEqual(here.register_memory(address, 8192, "cpu:0"), 0)
        self.assertEqual(here.unregister_memory(address), 0)
        self.assertEqual(here.register_memory(address, 0), -1)
        self.assertLess(here.batch_register_memory([address], [1, 2]), 0)

    def test_what_is_asked(self) -> None:
        lowest = min(self.theirs.ctypes.data, self.there.allocate_managed_buffer(4096))
        self.assertEqual(self.here.get_first_buffer_address(self.peer), lowest)
        self.assertEqual(self.here.get_first_buffer_address("127.0.0.1:1"), 0)
        self.assertEqual(self.here.get_first_buffer_address("nonsense"), 0)
        self.assertEqual(self.here.send_probe(self.peer), 0)
        self.assertLess(self.here.send_probe("127.0.0.1:1"), 0)
        self.assertLess(self.here.send_probe(""), 0)
        matrix = json.loads(self.here.get_local_topology())
        self.assertIn("cpu:0", matrix)
        for near, others in matrix.values():
            self.assertIsInstance(near + others, list)
        only = json.loads(self.here.get_local_topology("no_such_device"))
        self.assertEqual([devices for pair in only.values() for devices in pair if devices], [])

    def test_the_program_of_the_documentation(self) -> None:
        self.assertGreaterEqual(run_examples(self, "mooncake", True, self.left.socket), 1)

    # ---- between processes, threads and children ----

    def test_two_processes(self) -> None:
        environment = dict(os.environ, TESUP_SOCKET=str(self.right.socket))
        peer = subprocess.Popen(
            [sys.executable, "-c", PEER],
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        watchdog = threading.Timer(START_S, peer.kill)
        watchdog.start()
        try:
            assert peer.stdin is not None and peer.stdout is not None
            port, address = (int(word) for word in peer.stdout.readline().split())
            name, mine = f"localhost:{port}", self.mine.ctypes.data
            self.assertEqual(self.here.transfer_sync_read(name, mine, address, 1 << 20), 0)
            self.assertEqual(int(self.mine.sum()), 7 << 20)
            self.mine[:] = 9
            self.assertEqual(self.here.transfer_sync_write(name, mine, address, 1 << 20), 0)
            peer.stdin.write("\n")
            peer.stdin.flush()
            self.assertEqual(peer.stdout.readline(), f"{9 << 20}\n")
            peer.communicate("\n", timeout=SHORT_S)
            self.assertEqual(peer.returncode, 0)
        finally:
            watchdog.cancel()
            peer.kill()
            peer.wait()

    def write_in_threads(self, engine: TransferEngine, turns: int) -> None:
        codes: list[int] = []
        begun = threading.Barrier(4)
        source = self.memory(engine, 16384)

        def work(number: int) -> None:
            mine, theirs = source.ctypes.data, self.theirs.ctypes.data
            at = number * 4096
            begun.wait(SHORT_S)
            for _ in range(turns):
                codes.append(engine.transfer_sync_write(self.peer, mine + at, theirs + at, 4096))

        threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(START_S)
            self.assertFalse(thread.is_alive(), "a thread hangs")
        self.assertEqual(codes, [0] * 4 * turns)
        numpy.testing.assert_array_equal(source, self.theirs[:16384])

    def test_threads(self) -> None:
        self.write_in_threads(self.here, 100)

    def test_threads_open_a_segment_at_once(self) -> None:
        for _ in range(20):
            self.write_in_threads(self.engine(self.left), 5)

    def test_the_gil_is_free_in_sync_calls(self) -> None:
        pid = self.left.process.pid
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            worker = int(children.read().split()[0])
        codes: list[int] = []
        mine, theirs = self.mine.ctypes.data, self.theirs.ctypes.data
        self.assertEqual(self.here.transfer_sync_write(self.peer, mine, theirs, 4096), 0)

        def work() -> None:
            codes.append(self.here.transfer_sync_read(self.peer, mine, theirs, 1 << 20))

        thread = threading.Thread(target=work, daemon=True)
        os.kill(worker, signal.SIGSTOP)
        try:
            thread.start()
            counted = 0
            while counted < 1_000_000:
                counted += 1
            self.assertEqual(codes, [], "it did not wait")
        finally:
            os.kill(worker, signal.SIGCONT)
        thread.join(START_S)
        self.assertEqual(codes, [0])
        self.equal()

    def test_fork(self) -> None:
        def child() -> str:
            if (
                self.here.transfer_sync_write(
                    self.peer, self.mine.ctypes.data, self.theirs.ctypes.data, 64
                )
                != -1
            ):
                return "the child uses its parent's engine"
            return "" if self.here.get_notifies() == [] else "notifications"

        self.in_child(child)
        code = self.here.transfer_sync_write(
            self.peer, self.mine.ctypes.data, self.theirs.ctypes.data, 1 << 20
        )
        self.assertEqual(code, 0)
        self.equal()

    # ---- what goes wrong ----

    def test_without_an_engine(self) -> None:
        engine = TransferEngine()
        calls: list[Callable[[], Union[int, list[TransferNotify]]]] = [
            engine.get_rpc_port,
            engine.get_notifies,
            lambda: engine.allocate_managed_buffer(64),
            lambda: engine.free_managed_buffer(1, 64),
            lambda: engine.register_memory(1, 64),
            lambda: engine.unregister_memory(1),
            lambda: engine.transfer_sync_write("a:1", 1, 1, 1),
            lambda: engine.transfer_sync_read("a:1", 1, 1, 1),
            lambda: engine.transfer_submit_write("a:1", 1, 1, 1),
            lambda: engine.transfer_check_status(1),
            lambda: engine.batch_transfer_async_read("a:1", [1], [1], [1]),
            lambda: engine.get_batch_transfer_status([1]),
            lambda: engine.send_probe("a:1"),
        ]
        for call in calls:
            self.assertIn(call(), (-1, 0, []))

    def test_engines_that_cannot_be(self) -> None:
        engine = TransferEngine()
        self.assertEqual(engine.initialize("127.0.0.1", "etcd://127.0.0.1:2379", "tcp", ""), -1)
        self.assertEqual(engine.initialize_ext("127.0.0.1", "h:1", "tcp", "", "etcd"), -1)
        os.environ["TESUP_SOCKET"] = str(self.left.socket)
        try:
            self.assertEqual(engine.initialize("127.0.0.1", "P2PHANDSHAKE", "pigeon", ""), -1)
            self.assertEqual(engine.initialize("nowhere.invalid", "P2PHANDSHAKE", "tcp", ""), -1)
            self.assertEqual(engine.initialize("127.0.0.1:0", "P2PHANDSHAKE", "tcp", "nic"), 0)
            port = engine.get_rpc_port()
            self.assertEqual(engine.initialize("127.0.0.1", "P2PHANDSHAKE", "", ""), 0)
            self.assertNotEqual(engine.get_rpc_port(), port)
        finally:
            del os.environ["TESUP_SOCKET"]

    def test_transfers_that_fail(self) -> None:
        mine, theirs, here = self.mine.ctypes.data, self.theirs.ctypes.data, self.here
        table: list[tuple[str, int]] = [
            ("local 0", here.transfer_sync_write(self.peer, 0, theirs, 64)),
            ("local strange", here.transfer_sync_write(self.peer, 4096, theirs, 64)),
            ("remote 0", here.transfer_sync_write(self.peer, mine, 0, 64)),
            ("past mine", here.transfer_sync_write(self.peer, mine, theirs, (1 << 20) + 1)),
            ("2^63", here.transfer_sync_write(self.peer, mine, theirs, 1 << 63)),
            ("nobody", here.transfer_sync_write("127.0.0.1:1", mine, theirs, 64)),
            ("no name", here.transfer_sync_write("", mine, theirs, 64)),
            ("long name", here.transfer_sync_write("x" * 65536, mine, theirs, 64)),
            ("opcode", here.transfer_sync(self.peer, mine, theirs, 64, 7)),  # type: ignore
            (
                "long note",
                here.transfer_sync(
                    self.peer,
                    mine,
                    theirs,
                    64,
                    TransferOpcode.Write,
                    TransferNotify("n", "m" * (2 << 20)),
                ),
            ),
            (
                "empty with note",
                here.batch_transfer_sync(
                    self.peer, [], [], [], TransferOpcode.Write, TransferNotify("n", "m")
                ),
            ),
            (
                "one of three",
                here.batch_transfer_sync_write(
                    self.peer, [mine, mine, mine], [theirs, 0, theirs], [64] * 3
                ),
            ),
            ("submit", here.transfer_submit_write("127.0.0.1:1", mine, theirs, 64)),
            ("check", here.transfer_check_status(12345)),
            ("status", here.get_batch_transfer_status([12345])),
        ]
        for name, code in table:
            self.assertEqual(code, -1, name)
        self.assertEqual(here.batch_transfer_async_write("127.0.0.1:1", [mine], [theirs], [64]), 0)
        self.assertEqual(here.transfer_sync_write(self.peer, mine, theirs, 0), 0)
        self.assertEqual(here.batch_transfer_sync_write(self.peer, [], [], []), 0)
        self.assertEqual(here.transfer_sync_write(self.peer, mine, theirs, 1 << 20), 0)
        self.equal()

    def test_arguments_that_raise(self) -> None:
        here, mine = self.here, self.mine.ctypes.data
        calls: list[Any] = [
            lambda: here.transfer_sync_write(self.peer, "a", mine, 1),
            lambda: here.transfer_sync_write(self.peer, -1, mine, 1),
            lambda: here.transfer_sync_write(self.peer, mine, mine, -1),
            lambda: here.transfer_sync_write(self.peer, mine, mine, 2**64),
            lambda: here.transfer_sync_write(self.peer, mine, mine, 1.5),
            lambda: here.transfer_sync_write(7, mine, mine, 1),
            lambda: here.transfer_sync_write("a\0b", mine, mine, 1),
            lambda: here.transfer_sync(self.peer, mine, mine, 1, None),
            lambda: here.batch_transfer_sync_write(self.peer, mine, [mine], [1]),
            lambda: here.batch_transfer_sync_write(self.peer, [mine], [mine], [1, 2]),
            lambda: here.transfer_sync(self.peer, mine, mine, 1, 1, TransferNotify("a\0", "b")),
            lambda: here.transfer_sync(self.peer, mine, mine, 1, 1, TransferNotify(7, "b")),
            lambda: here.register_memory(None, 1),
            lambda: here.register_memory(mine, -1),
            lambda: here.allocate_managed_buffer("a"),
            lambda: here.write_bytes_to_buffer(0, b"text", 4),
            lambda: here.write_bytes_to_buffer(2**64, b"text", 4),
            lambda: here.write_bytes_to_buffer(mine, b"text", 5),
            lambda: here.write_bytes_to_buffer(mine, b"text", -1),
            lambda: here.write_bytes_to_buffer(mine, 7, 1),
            lambda: here.read_bytes_from_buffer(0, 64),
            lambda: here.read_bytes_from_buffer(mine, -1),
            lambda: here.read_bytes_from_buffer(2**63, 64),
            lambda: here.initialize(None, None, None, None),
            lambda: here.get_batch_transfer_status(7),
            lambda: here.send_probe(None),
        ]
        for number, call in enumerate(calls):
            with self.subTest(number):
                expected = (TypeError, ValueError, OverflowError, AttributeError)
                with self.assertRaises(expected):
                    call()
        code = here.transfer_sync_write(self.peer, mine, self.theirs.ctypes.data, 1 << 20)
        self.assertEqual(code, 0)

    def test_wrong_types_below(self) -> None:
        """The extension module itself, as nobody calls it."""
        engine = self.here._engine
        assert engine is not None
        odd_ones: list[Any] = [None, -1, 2**64, 1.5, "text", b"bytes", "a\0b", (), (1,), [], 7]
        calls: list[Any] = [
            _engine.Engine,
            _engine.memory_read,
            _engine.memory_write,
            engine.install,
            engine.open,
            engine.register,
            engine.unregister,
            engine.status,
            engine.wait,
            engine.submit,
            lambda odd: _engine.Engine(odd, odd),
            lambda odd: _engine.memory_read(0, odd),
            lambda odd: _engine.memory_write(odd, odd),
            lambda odd: engine.open(odd, odd),
            lambda odd: engine.register(odd, odd, "*"),
            lambda odd: engine.unregister((odd, odd)),
            lambda odd: engine.status(odd, odd),
            lambda odd: engine.wait(odd, odd, 0),
            lambda odd: engine.submit(odd, odd, odd, odd, odd),
            lambda odd: engine.submit(1, 1, (odd,), (odd,), (odd,), odd, odd),
        ]
        for call in calls:
            for odd in odd_ones:
                try:
                    call(odd)
                except (TypeError, ValueError, OverflowError, RuntimeError, MemoryError):
                    continue
        engine.close()
        engine.close()
        self.assertEqual(self.here.send_probe(self.peer), -1)

    def test_a_library_that_is_none(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "libtransfer_engine.so").write_bytes(b"no library")
            program = (
                "from mooncake.engine import TransferEngine\n"
                "TransferEngine().initialize('127.0.0.1', 'P2PHANDSHAKE', 'tcp', '')\n"
            )
            done = subprocess.run(
                [sys.executable, "-c", program],
                text=True,
                capture_output=True,
                timeout=START_S,
                env=dict(os.environ, LD_LIBRARY_PATH=folder),
            )
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "ImportError: TransferEngine needs .*LD_LIBRARY_PATH")

    # ---- leaks ----

    def test_nothing_is_leaked(self) -> None:
        def turn() -> None:
            engine = self.engine(self.left)
            address = engine.allocate_managed_buffer(65536)
            code = engine.transfer_sync(
                self.peer,
                address,
                self.theirs.ctypes.data,
                4096,
                TransferOpcode.Write,
                TransferNotify("n", "m" * 1000),
            )
            self.assertEqual(code, 0)
            self.notifications(self.there, 1)
            engine.transfer_sync_write(self.peer, 0, 0, 64)
            try:
                engine.transfer_sync_write(self.peer, address, address, -1)
            except OverflowError:
                pass

        def state() -> tuple[int, int, int]:
            gc.collect()
            tasks = len(os.listdir("/proc/self/task"))
            return len(gc.get_objects()), len(os.listdir("/proc/self/fd")), tasks

        for _ in range(3):
            turn()
        before = state()
        for _ in range(20):
            turn()
        after = state()
        self.assertEqual(before[1:], after[1:], "file descriptors, threads")
        self.assertLess(after[0] - before[0], 50, "objects")


class EngineOfOneHost(Engine):
    """The same between two supervisors that share memory."""

    fabric = "local"


if __name__ == "__main__":
    unittest.main()
