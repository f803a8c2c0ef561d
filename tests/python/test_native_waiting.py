"""Waiting: threads, select, asyncio, signals; and the GIL is free meanwhile."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
import time
import unittest
from collections.abc import Callable

import tesup
from harness import SHORT_S, START_S, Duo, wait_for


class Waiting(Duo):
    def setUp(self) -> None:
        self.here = self.attach(self.left)
        self.there = self.attach(self.right)
        self.remote = self.here.open(self.there.name)
        self.back = self.there.open(self.here.name)

    def run_threads(self, count: int, work: Callable[[int], None]) -> None:
        """Runs work(0 ... count - 1) in a thread each; what one raises, the test raises."""
        errors: list[BaseException] = []

        def guarded(number: int) -> None:
            try:
                work(number)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=guarded, args=(i,), daemon=True) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(START_S)
            self.assertFalse(thread.is_alive(), "a thread hangs")
        if errors:
            raise errors[0]

    # ---- threads ----

    def test_threads_share_a_session(self) -> None:
        theirs = self.there.alloc(8 * 4096)

        def work(number: int) -> None:
            mine = self.here.alloc(4096)
            for turn in range(50):
                memoryview(mine)[:] = bytes([number * 31 + turn & 255]) * 4096
                self.here.write(
                    self.remote, mine, theirs, remote_offset=number * 4096, timeout=SHORT_S
                )
                self.here.nop(timeout=SHORT_S)

        self.run_threads(8, work)
        for number in range(8):
            expected = bytes([number * 31 + 49 & 255]) * 4096
            self.assertEqual(bytes(memoryview(theirs)[number * 4096 :][:4096]), expected)

    def test_threads_with_a_channel_each(self) -> None:
        theirs = self.there.alloc(4 * 65536)

        def work(number: int) -> None:
            with self.here.channel() as channel:
                mine = self.here.alloc(65536)
                memoryview(mine)[:] = bytes([number + 1]) * 65536
                for _ in range(20):
                    channel.write(
                        self.remote, mine, theirs, remote_offset=number * 65536, timeout=SHORT_S
                    )

        self.run_threads(4, work)
        for number in range(4):
            got = bytes(memoryview(theirs)[number * 65536 :][:65536])
            self.assertEqual(got, bytes([number + 1]) * 65536)

    def test_a_thread_waits_while_another_works(self) -> None:
        """One sleeps for a notification that the other's last request brings about."""
        got: list[tesup.Notification] = []

        def work(number: int) -> None:
            if number == 0:
                got.append(self.here.next_notification(SHORT_S))
                return
            for _ in range(100):
                self.here.nop(timeout=SHORT_S)
            self.there.notify(self.back, b"done", timeout=SHORT_S)

        self.run_threads(2, work)
        self.assertEqual(got[0].name, b"done")

    def test_the_gil_is_free_while_one_waits(self) -> None:
        counted = 0
        waiting = threading.Event()
        ended = threading.Event()

        def wait() -> None:
            waiting.set()
            self.here.wait(SHORT_S)
            ended.set()

        sleeper = threading.Thread(target=wait, daemon=True)
        sleeper.start()
        self.assertTrue(waiting.wait(SHORT_S))
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            counted += 1
        self.assertFalse(ended.is_set(), "it did not wait")
        self.assertGreater(counted, 1000)
        self.there.notify(self.back, b"wake", timeout=SHORT_S)
        sleeper.join(SHORT_S)
        self.assertTrue(ended.is_set())

    def test_the_gil_is_free_while_a_stopped_worker_is_asked(self) -> None:
        """open() waits for a worker that does not answer; another thread goes on."""
        workers = self.workers_of(self.right)
        for worker in workers:
            os.kill(worker, signal.SIGSTOP)
        opened = threading.Event()

        def work() -> None:
            self.there.open(self.here.name)
            opened.set()

        thread = threading.Thread(target=work, daemon=True)
        try:
            thread.start()
            for _ in range(100):
                self.here.nop(timeout=SHORT_S)
            self.assertFalse(opened.is_set())
        finally:
            for worker in workers:
                os.kill(worker, signal.SIGCONT)
        thread.join(SHORT_S)
        self.assertTrue(opened.is_set())

    def workers_of(self, daemon: object) -> list[int]:
        pid = self.right.process.pid
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            return [int(word) for word in children.read().split()]

    def test_close_ends_the_sleep_of_another_thread(self) -> None:
        session = self.attach()
        raised: list[BaseException] = []

        def work() -> None:
            try:
                session.next_notification(START_S)
            except tesup.GoneError as error:
                raised.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        wait_for("the thread sleeps", lambda: session._asleep)
        session.close()
        thread.join(SHORT_S)
        self.assertEqual([type(error) for error in raised], [tesup.GoneError])

    def test_times(self) -> None:
        begin = time.monotonic()
        self.assertFalse(self.here.wait(0.2))
        self.assertGreaterEqual(time.monotonic() - begin, 0.2)
        with self.assertRaises(TimeoutError):
            self.here.next_notification(0.01)
        self.assertFalse(self.here.wait(0))

    def test_a_signal_ends_a_sleep(self) -> None:
        def raise_it(number: int, frame: object) -> None:
            raise InterruptedError("the handler ran")

        before = signal.signal(signal.SIGALRM, raise_it)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            with self.assertRaises(InterruptedError):
                self.here.wait(START_S)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.here.nop(timeout=SHORT_S)

    # ---- select ----

    def test_select(self) -> None:
        until = time.monotonic() + SHORT_S
        for turn in range(50):
            self.there.notify(self.back, b"n", str(turn), timeout=SHORT_S)
            while self.here.arm():
                left = until - time.monotonic()
                self.assertTrue(select.select([self.here], [], [], left)[0], "nothing readable")
            got = [note.msg for note in self.here.notifications()]
            self.assertEqual(got, [str(turn).encode()])

    def test_select_for_completions(self) -> None:
        until = time.monotonic() + SHORT_S
        for turn in range(50):
            self.here.submit(tesup.NOP, cookie=turn)
            done: list[tesup.Completion] = []
            while not done:
                if self.here.arm():
                    left = until - time.monotonic()
                    self.assertTrue(select.select([self.here], [], [], left)[0])
                done = self.here.poll()
            self.assertEqual([one.cookie for one in done], [turn])

    # ---- asyncio ----

    def run_loop(self, work: Callable[[], object]) -> None:
        async def limited() -> None:
            await asyncio.wait_for(work(), START_S)  # type: ignore[arg-type]

        asyncio.run(limited())

    def test_await(self) -> None:
        mine, theirs = self.here.alloc(65536), self.there.alloc(65536)
        closed = self.there.alloc(65536)
        handle = closed.handle
        closed.close()
        memoryview(mine)[:] = b"\x5a" * 65536

        async def work() -> None:
            for _ in range(20):
                moved = await self.here.submit(tesup.WRITE, self.remote, mine, theirs)
                self.assertEqual(moved, 65536)
            with self.assertRaises(tesup.GoneError):
                await self.here.submit(tesup.WRITE, self.remote, mine, handle)

        self.run_loop(work)
        self.assertEqual(bytes(theirs), bytes(mine))

    def test_await_many(self) -> None:
        mine, theirs = self.here.alloc(64 * 1024), self.there.alloc(64 * 1024)
        memoryview(mine)[:] = os.urandom(64 * 1024)

        async def one(i: int) -> int:
            return await self.here.submit(
                tesup.WRITE,
                self.remote,
                mine,
                theirs,
                local_offset=i * 1024,
                remote_offset=i * 1024,
                length=1024,
            )

        async def work() -> None:
            self.assertEqual(await asyncio.gather(*[one(i) for i in range(64)]), [1024] * 64)

        self.run_loop(work)
        self.assertEqual(bytes(theirs), bytes(mine))

    def test_ping_pong_in_one_loop(self) -> None:
        async def side(session: tesup.Session, peer: tesup.Remote, first: bool) -> None:
            for turn in range(50):
                if first:
                    await session.submit(tesup.NOTIFY, peer, name=b"ping", msg=str(turn))
                note = await session.anext_notification()
                self.assertEqual(note.msg, str(turn).encode())
                if not first:
                    await session.submit(tesup.NOTIFY, peer, name=b"pong", msg=note.msg)

        async def work() -> None:
            await asyncio.gather(
                side(self.here, self.remote, True), side(self.there, self.back, False)
            )

        self.run_loop(work)

    def test_a_loop_of_its_own(self) -> None:
        """add_reader by hand: what docs/python.md says about other event loops."""
        got: list[bytes] = []

        async def work() -> None:
            loop = asyncio.get_running_loop()
            done = loop.create_future()

            def on_readable() -> None:
                while not self.here.arm():
                    got.extend(note.msg for note in self.here.notifications())
                    self.here.poll()
                if len(got) == 10 and not done.done():
                    done.set_result(None)

            loop.add_reader(self.here, on_readable)
            on_readable()
            for turn in range(10):
                await loop.run_in_executor(None, self.there.notify, self.back, b"n", str(turn))
            await done
            loop.remove_reader(self.here)

        self.run_loop(work)
        self.assertEqual(got, [str(turn).encode() for turn in range(10)])

    def test_await_is_cancelled_and_nothing_is_lost(self) -> None:
        async def work() -> None:
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(self.here.anext_notification(), 0.05)
            self.there.notify(self.back, b"later", timeout=SHORT_S)
            self.assertEqual((await self.here.anext_notification()).name, b"later")

        self.run_loop(work)

    def test_close_ends_an_await(self) -> None:
        session = self.attach()

        async def work() -> None:
            task = asyncio.ensure_future(session.anext_notification())
            await asyncio.sleep(0)
            session.close()
            with self.assertRaises(tesup.GoneError):
                await task

        self.run_loop(work)


if __name__ == "__main__":
    unittest.main()
