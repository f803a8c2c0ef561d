"""Whatever is passed in, whenever it is called: an exception, never a crash, nothing leaked."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from typing import Any

import numpy
import tesup
from harness import SHORT_S, Duo, wait_for
from tesup import _native

REFUSED = (tesup.Error, TypeError, ValueError, OverflowError)
# What no argument wants to be.
ODD: list[Any] = [
    None,
    -1,
    2**32,
    2**64,
    2**200,
    1.5,
    float("nan"),
    "text",
    b"bytes",
    "\0",
    "\udc80",
    (),
    [],
    {},
    object(),
    int,
    lambda: 0,
    Ellipsis,
]


class Safety(Duo):
    def setUp(self) -> None:
        self.here = self.attach(self.left)
        self.there = self.attach(self.right)
        self.remote = self.here.open(self.there.name)

    def works(self) -> None:
        self.here.nop(timeout=SHORT_S)
        self.there.nop(timeout=SHORT_S)

    # ---- a table of what is refused ----

    def test_bad_arguments(self) -> None:
        here, remote = self.here, self.remote
        mine, theirs = here.alloc(64), self.there.alloc(64)
        closed = here.alloc(64)
        closed.close()
        table: list[tuple[str, Any]] = [
            ("alloc 0", lambda: here.alloc(0)),
            ("alloc -1", lambda: here.alloc(-1)),
            ("alloc 2^63", lambda: here.alloc(2**63)),
            ("alloc 2^64", lambda: here.alloc(2**64)),
            ("alloc text", lambda: here.alloc("64")),  # type: ignore[arg-type]
            ("alloc access", lambda: here.alloc(64, 77)),
            ("register int", lambda: here.register(64)),
            ("register None", lambda: here.register(None)),
            ("register text", lambda: here.register("text")),
            ("register tuple", lambda: here.register((0, 0, 1))),
            ("register object", lambda: here.register(object())),
            ("register empty", lambda: here.register(b"")),
            ("register list", lambda: here.register([1, 2])),
            ("file -1", lambda: here.register_file(-1, 0, 64)),
            ("file of no memory", lambda: here.register_file(0, 0, 64)),
            ("open text", lambda: here.open("nonsense")),
            ("open long", lambda: here.open("h:1/" + "x" * 70000)),
            ("open NUL", lambda: here.open("127.0.0.1:1/\0")),
            ("open nobody", lambda: here.open(self.there.name + "-no")),
            ("open closed port", lambda: here.open("127.0.0.1:1/x")),
            ("open int", lambda: here.open(7)),  # type: ignore[arg-type]
            ("write past mine", lambda: here.write(remote, mine, theirs, length=65)),
            ("write past theirs", lambda: here.write(remote, mine, theirs, remote_offset=1)),
            ("write before", lambda: here.write(remote, mine, theirs, local_offset=-1)),
            ("write -1", lambda: here.write(remote, mine, theirs, length=-1)),
            ("write 2^63", lambda: here.write(remote, mine, theirs, length=2**63)),
            ("write 2^64", lambda: here.write(remote, mine, theirs, length=2**64)),
            ("write from the end", lambda: here.write(remote, mine, theirs, local_offset=65)),
            ("write closed", lambda: here.write(remote, closed, theirs)),
            ("write to 0", lambda: here.write(remote, mine, 0)),
            ("write to nothing", lambda: here.write(remote, mine, 0x7FFFFFFF)),
            ("write to address 0", lambda: here.write(remote, mine, None)),
            ("write array", lambda: here.write(remote, numpy.zeros(8), theirs)),  # type: ignore
            ("write handle", lambda: here.write(remote.handle, mine, theirs)),  # type: ignore
            ("write None", lambda: here.write(None, mine, theirs)),  # type: ignore[arg-type]
            ("write in -1 s", lambda: here.write(remote, mine, theirs, timeout=-1)),
            ("write in nan s", lambda: here.write(remote, mine, theirs, timeout=float("nan"))),
            ("notify nobody", lambda: here.notify(None, b"n")),  # type: ignore[arg-type]
            ("notify int", lambda: here.notify(remote, 7)),  # type: ignore[arg-type]
            ("notify much", lambda: here.notify(remote, bytes(1 << 20), bytes(1 << 20))),
            ("notify lone surrogate", lambda: here.notify(remote, "\udc80")),
            ("operation 4", lambda: here.submit(4, remote, mine, theirs)),
            ("operation -1", lambda: here.submit(-1, remote, mine, theirs)),
            ("operation text", lambda: here.submit("WRITE", remote)),  # type: ignore[arg-type]
            ("NOP with a name", lambda: here.submit(tesup.NOP, name=b"n")),
            ("works of nothing", lambda: here.submit_many([None])),  # type: ignore[list-item]
            ("works of int", lambda: here.submit_many(7)),  # type: ignore[arg-type]
            ("attach slots", lambda: tesup.attach(socket=self.left.socket, slots=7)),
            ("attach slots -1", lambda: tesup.attach(socket=self.left.socket, slots=-1)),
            ("attach name", lambda: tesup.attach("a/b", socket=self.left.socket)),
            ("attach NUL", lambda: tesup.attach("a\0b", socket=self.left.socket)),
            ("attach pair", lambda: tesup.attach(pair="no", socket=self.left.socket)),
            ("attach flags", lambda: tesup.attach(share=99, socket=self.left.socket)),
            ("attach no file", lambda: tesup.attach(socket="/nonexistent/tesup.sock")),
            ("attach long path", lambda: tesup.attach(socket="/" + "x" * 5000)),
            (
                "attach twice",
                lambda: tesup.attach(here.name.split("/")[1], socket=self.left.socket),
            ),
        ]
        for name, call in table:
            with self.subTest(name):
                with self.assertRaises((*REFUSED, OSError)) as caught:
                    call()
                self.assertNotEqual(str(caught.exception), "")
        self.works()

    def test_wrong_types_below(self) -> None:
        """The extension module itself, as nobody calls it."""
        session, channel = self.here._session, self.here._native
        calls: list[Any] = [
            _native.Session,
            _native.Memory,
            _native.Channel,
            session.remote_open,
            session.remote_close,
            session.remote_watch,
            channel.cancel,
            channel.submit,
            channel.wait,
            _native.strerror,
            lambda odd: _native.Session(odd, odd, odd, odd),
            lambda odd: _native.Memory(session, odd),
            lambda odd: _native.Memory(session, 64, odd),
            lambda odd: _native.Memory(session, (odd, odd, odd)),
            lambda odd: _native.Memory(odd, 64),
            lambda odd: _native.Channel(odd, True),
            lambda odd: channel.submit((odd,)),
            lambda odd: channel.submit(((odd,) * 12,)),
            lambda odd: channel.submit(((3, 0, 0, 0, 0, 0, 0, 0, 0, 0, odd, odd),)),
        ]
        taken = (channel.wait, session.remote_open, _native.strerror)
        for call in calls:
            for odd in ODD:
                if call in taken and isinstance(odd, (int, str)):
                    continue  # those are what it wants, in vain
                try:
                    call(odd)
                except (*REFUSED, BufferError, UnicodeError, AttributeError):
                    continue
        self.works()

    def test_capsule_of_another_kind(self) -> None:
        import datetime

        capsule = datetime.datetime_CAPI  # type: ignore[attr-defined]
        with self.assertRaises(ValueError):
            _native.Memory(self.here._session, capsule)
        tensor = numpy.arange(8).__dlpack__()
        region = _native.Memory(self.here._session, tensor)
        with self.assertRaises(ValueError):
            _native.Memory(self.here._session, tensor)  # it was taken
        region.close()

    # ---- after the end ----

    def test_closed_session(self) -> None:
        mine, theirs = self.here.alloc(4096), self.there.alloc(64)
        region = self.here.register(bytearray(64))
        request = self.here.submit(tesup.NOP)
        channel = self.here.channel()
        view = numpy.frombuffer(mine, dtype=numpy.uint8)
        self.here.close()
        self.here.close()
        self.assertTrue(self.here.closed)
        for call in (
            lambda: self.here.name,
            lambda: self.here.notify_max,
            lambda: self.here.alloc(64),
            lambda: self.here.register(bytearray(64)),
            lambda: self.here.open("127.0.0.1:1/x"),
            self.here.channel,
            self.here.nop,
            self.here.poll,
            self.here.wait,
            self.here.arm,
            self.here.fileno,
            self.here.notifications,
            self.here.next_notification,
            lambda: self.here.write(self.remote, mine, theirs),
            self.remote.watch,
            lambda: request.result(SHORT_S),
            request.cancel,
            channel.nop,
            channel.fileno,
        ):
            with self.assertRaises(tesup.GoneError):
                call()
        channel.close()
        region.close()
        mine.close()
        self.remote.close()
        view[:] = 7  # its pages are there as long as somebody looks
        self.assertEqual(bytes(mine), b"\7" * 4096)

    def test_view_outlives_everything(self) -> None:
        session = self.attach()
        view = numpy.frombuffer(session.alloc(1 << 20), dtype=numpy.uint8)
        session.close()
        del session
        gc.collect()
        view[:] = 1
        self.assertEqual(int(view.sum()), 1 << 20)

    def test_closed_buffer_is_out_of_reach(self) -> None:
        mine, theirs = self.here.alloc(64), self.there.alloc(64)
        handle = theirs.handle
        view = memoryview(theirs)
        theirs.close()
        with self.assertRaises(tesup.GoneError):
            self.here.write(self.remote, mine, handle, timeout=SHORT_S)
        self.assertEqual(view.tobytes(), bytes(64))

    def test_buffer_closed_in_flight(self) -> None:
        for _ in range(20):
            mine, theirs = self.here.alloc(1 << 20), self.there.alloc(1 << 20)
            request = self.here.submit(tesup.WRITE, self.remote, mine, theirs)
            mine.close()
            theirs.close()
            try:
                request.result(SHORT_S)
            except tesup.Error as error:
                self.assertIn(error.code, (tesup.ERR_GONE, tesup.ERR_INVALID, tesup.ERR_FAULT))
        self.works()

    def test_channel_closed_in_flight(self) -> None:
        mine, theirs = self.here.alloc(1 << 20), self.there.alloc(1 << 20)
        channel = self.here.channel()
        request = channel.submit(tesup.WRITE, self.remote, mine, theirs)
        channel.close()
        channel.close()
        with self.assertRaises(tesup.GoneError):
            request.result(SHORT_S)
        self.works()

    def test_threads_and_a_session_that_is_closed(self) -> None:
        for _ in range(5):
            session = self.attach()
            remote = session.open(self.there.name)
            begun = threading.Barrier(5)
            odd: list[BaseException] = []

            def work(session: tesup.Session, remote: tesup.Remote) -> None:
                begun.wait(SHORT_S)
                try:
                    while True:
                        session.nop(timeout=SHORT_S)
                        session.alloc(4096).close()
                        session.register(bytearray(64)).close()
                        session.notify(remote, b"n", timeout=SHORT_S)
                        self.there.notifications()
                except tesup.Error as error:
                    if error.code != tesup.ERR_GONE:
                        odd.append(error)
                except BaseException as error:
                    odd.append(error)

            threads = [
                threading.Thread(target=work, args=(session, remote), daemon=True) for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            begun.wait(SHORT_S)
            self.works()
            session.close()
            for thread in threads:
                thread.join(SHORT_S)
                self.assertFalse(thread.is_alive())
            self.assertEqual(odd, [])

    # ---- fork ----

    def test_fork(self) -> None:
        mine = self.here.alloc(4096)
        region = self.here.register(bytearray(64))
        request = self.here.submit(tesup.NOP)
        refused = (
            lambda: self.here.name,
            lambda: self.here.alloc(64),
            self.here.nop,
            self.here.poll,
            self.here.wait,
            self.here.arm,
            self.here.fileno,
            self.here.channel,
            lambda: self.here.register(bytearray(8)),
            lambda: self.here.open(self.there.name),
            request.result,
            request.cancel,
            self.remote.watch,
            self.here.notifications,
        )

        def child() -> str:
            for number, call in enumerate(refused):
                try:
                    call()
                    return f"call {number} was not refused"
                except tesup.ForkedError:
                    pass
            if not self.here.closed:
                return "the child takes the session for its own"
            own = tesup.attach(socket=self.left.socket)
            own.nop(timeout=SHORT_S)
            own.close()
            region.close()
            mine.close()
            self.here.close()
            self.here.close()
            return ""

        self.in_child(child)
        request.result(SHORT_S)
        self.works()
        self.assertNotEqual(mine.handle, 0)

    def test_fork_while_threads_are_inside(self) -> None:
        stop = threading.Event()

        def work() -> None:
            while not stop.is_set():
                self.here.nop(timeout=SHORT_S)
                self.here.alloc(4096).close()

        def child() -> str:
            try:
                self.here.nop()
            except tesup.ForkedError:
                self.here.close()
                return ""
            return "not refused"

        threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(10):
                self.in_child(child)
        finally:
            stop.set()
        for thread in threads:
            thread.join(SHORT_S)
            self.assertFalse(thread.is_alive())
        self.works()

    # ---- two threads on one channel ----

    def test_completion_taken_by_another_thread(self) -> None:
        """One is about to sleep when the other takes what it wants to wake up for."""
        native = self.here._native
        begun = time.monotonic()

        class Late:
            def __getattr__(late, name: str) -> Any:
                return getattr(native, name)

            def wait(late, *arguments: int) -> bool:
                self.here._native = native
                wait_for("the completion", lambda: bool(self.taken_elsewhere()))
                return bool(native.wait(*arguments))

        self.here._native = Late()
        try:
            self.here.nop(timeout=SHORT_S)
        finally:
            self.here._native = native
        self.assertLess(time.monotonic() - begun, SHORT_S / 2)

    def taken_elsewhere(self) -> bool:
        """A look at the rings by a thread of its own. True: there was something."""
        before = self.here._arrivals
        thread = threading.Thread(target=self.here.poll)
        thread.start()
        thread.join()
        return self.here._arrivals != before

    # ---- the daemon's end ----

    def test_daemon_dies_and_comes_back(self) -> None:
        daemon = self.start("mortal")
        session = self.attach(daemon)
        remote = session.open(session.name)
        mine = session.alloc(4096)
        session.write(remote, mine, mine, length=64, timeout=SHORT_S)
        daemon.stop(signal.SIGKILL)
        with self.assertRaises(tesup.Error) as caught:
            session.nop(timeout=SHORT_S)
        self.assertIn(
            caught.exception.code,
            (tesup.ERR_NO_DAEMON, tesup.ERR_UNCERTAIN, tesup.ERR_GONE, tesup.AGAIN),
        )
        self.start("mortal")

        def works() -> bool:
            try:
                session.nop(timeout=SHORT_S)
            except tesup.Error:
                return False
            return True

        wait_for("the session moved to the successor", works, 20.0)
        # Memory survives here; the peer is another one now, at another port.
        remote = session.open(session.name)
        session.write(remote, mine, session.alloc(64), length=64, timeout=SHORT_S)

    # ---- leaks ----

    def resident(self) -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def turn(self) -> None:
        session = tesup.attach(socket=self.left.socket)
        remote = session.open(session.name)
        buffer = session.alloc(65536)
        data = bytearray(4096)
        region = session.register(data)
        session.write(remote, region, buffer, name=b"n", msg=bytes(1000), timeout=SHORT_S)
        session.next_notification(SHORT_S)
        session.submit(tesup.NOP, cookie=object()).result(SHORT_S)
        with session.channel() as channel:
            channel.nop(timeout=SHORT_S)
        for wrong in (
            lambda: session.alloc(0),
            lambda: session.register(7),
            lambda: session.open("x"),
            lambda: session.write(remote, buffer, 0),
        ):
            try:
                wrong()
            except (tesup.Error, TypeError):
                pass
        session.close()

    def test_nothing_is_leaked(self) -> None:
        def state() -> tuple[int, int]:
            gc.collect()
            return len(gc.get_objects()), len(os.listdir("/proc/self/fd"))

        for _ in range(5):
            self.turn()
        before, memory = state(), self.resident()
        for _ in range(50):
            self.turn()
        after = state()
        self.assertEqual(before[1], after[1], "file descriptors")
        self.assertLess(after[0] - before[0], 50, "objects")
        self.assertLess(self.resident() - memory, 2 << 20, "bytes of memory")

    def test_references(self) -> None:
        data, name, cookie = bytearray(64), b"name of a notification", object()
        counts = [sys.getrefcount(one) for one in (data, name, cookie)]
        self.here.register(data).close()
        self.here.notify(self.remote, name, timeout=SHORT_S)
        self.here.submit(tesup.NOP, cookie=cookie).result(SHORT_S)
        for wrong in (b"", "\udc80"):
            try:
                self.here.submit(tesup.NOP, name=wrong, cookie=cookie)
            except REFUSED:
                pass
        self.there.notifications()
        self.here.poll()
        self.here.wait(0.05)
        self.here.poll()
        self.assertEqual([sys.getrefcount(one) for one in (data, name, cookie)], counts)

    def test_exit_with_everything_open(self) -> None:
        """The interpreter ends while a thread waits and nothing was closed."""
        program = (
            "import threading, tesup\n"
            "session = tesup.attach()\n"
            "buffer = session.alloc(4096); view = memoryview(buffer)\n"
            "region = session.register(bytearray(64))\n"
            "request = session.submit(tesup.NOP)\n"
            "threading.Thread(target=session.next_notification, daemon=True).start()\n"
            "session.nop()\n"
        )
        environment = dict(os.environ, TESUP_SOCKET=str(self.left.socket))
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            timeout=30,
            capture_output=True,
            text=True,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
