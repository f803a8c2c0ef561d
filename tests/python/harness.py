"""Two supervisors in a folder of their own, for tests of the Python package."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Optional

import tesup

START_S = 30.0
STOP_S = 20.0
SHORT_S = 10.0  # for what takes a moment, on a machine that is busy
WORD = "listening on "


def wait_for(what: str, condition: Callable[[], bool], seconds: float = SHORT_S) -> None:
    """Looks until it holds; fails with `what` after so many seconds."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.002)


class Daemon:
    """`tesup serve` on loopback, with one worker."""

    def __init__(self, folder: Path, name: str, fabric: str) -> None:
        self.name = name
        self.socket = folder / f"{name}.sock"
        self.log = folder / f"{name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [
                    Path(os.environ["TESUP_BIN_DIR"]) / "tesup",
                    "serve",
                    "--foreground",
                    "--name",
                    name,
                    "--runtime-dir",
                    folder,
                    "--peer-key",
                    folder / "peer.key",
                    "--listen",
                    "127.0.0.1:0",
                    "--workers",
                    "1",
                    "--fabric",
                    fabric,
                ],
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.address = self._address()

    def _address(self) -> str:
        until = time.monotonic() + START_S
        said = b""
        assert self.process.stdout is not None
        while b"\n" not in said or WORD.encode() not in said:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise AssertionError(f"{self.name} did not listen within {START_S} s: {said!r}")
            part = os.read(self.process.stdout.fileno(), 4096)
            if not part:
                raise AssertionError(f"{self.name} ended: {self.log.read_text()}")
            said += part
        return said.decode().split(WORD)[1].split()[0]

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_S)
            raise AssertionError(f"{self.name} did not stop within {STOP_S} s") from None
        finally:
            assert self.process.stdout is not None
            self.process.stdout.close()


class Duo(unittest.TestCase):
    """Tests with the supervisors `left` and `right`, which run for the whole class."""

    fabric = "tcp"
    left: Daemon
    right: Daemon
    folder: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp(prefix="tesup-python-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.left = cls.start("left")
        cls.right = cls.start("right")

    @classmethod
    def start(cls, name: str) -> Daemon:
        daemon = Daemon(cls.folder, name, cls.fabric)
        cls.addClassCleanup(daemon.stop)
        return daemon

    def attach(
        self, daemon: Optional[Daemon] = None, segment: Optional[str] = None
    ) -> tesup.Session:
        session = tesup.attach(segment, socket=(daemon or self.left).socket)
        self.addCleanup(session.close)
        return session

    def in_child(self, work: Callable[[], Optional[str]]) -> None:
        """Runs `work` in a child of fork(); it returns what is wrong, or None."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            said = "it raised"
            try:
                said = work() or ""
            except BaseException as error:  # the child must not return into the test
                said = f"{type(error).__name__}: {error}"
            finally:
                os.write(write, said.encode())
                os._exit(0)
        os.close(write)
        said_by_child = b""
        until = time.monotonic() + START_S
        try:
            while select.select([read], [], [], max(until - time.monotonic(), 0))[0]:
                part = os.read(read, 4096)
                if not part:
                    break
                said_by_child += part
            else:
                os.kill(child, signal.SIGKILL)
                self.fail(f"the child did not end within {START_S} s")
        finally:
            os.close(read)
            _, status = os.waitpid(child, 0)
        self.assertEqual((said_by_child.decode(), status), ("", 0))


def run_examples(test: unittest.TestCase, word: str, wanted: bool, socket: Path) -> int:
    """Runs the programs of the documentation that have `word` (or have it not), and compares what
    they print with what the page says. How many there were."""
    root = Path(os.environ["TESUP_SOURCE_DIR"])
    form = re.compile(r"```python\n(.*?)```\n(?:```text\n(.*?)```)?", re.DOTALL)
    count = 0
    for page in ("docs/python.md", "README.md"):
        for program, said in form.findall((root / page).read_text()):
            if (word in program) != wanted:
                continue
            count += 1
            done = subprocess.run(
                [sys.executable, "-c", program],
                env=dict(os.environ, TESUP_SOCKET=str(socket)),
                capture_output=True,
                text=True,
                timeout=START_S,
            )
            test.assertEqual((done.returncode, done.stderr), (0, ""), program)
            test.assertEqual(done.stdout, said, program)
    return count
