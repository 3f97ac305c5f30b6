"""An operating system process of ours: launched, listened to, ended. POSIX only."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence

from rtc_server.errors import EngineUnavailable
from rtc_server.log import get_logger

log = get_logger(__name__)

LAST_WORDS_BYTES = 8192
LAST_WORDS_LINES = 20
"""Room for what Python says when native code crashes, and for the line before that."""
POLL_S = 0.01
KILL_PATIENCE_S = 5.0
"""A process that a driver holds cannot be killed before the driver lets go."""

_STDERR = 2
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Child:
    """A Python module as a process of its own, which inherits one end of a socket pair as ``--fd``.

    What it writes to standard error is shown on ours, and the end of it is kept. If ours is a terminal it gets one too,
    so that colours and progress bars are there. It finds modules where this process finds them. It has a process group
    of its own: Ctrl-C on the terminal is for the parent, which decides.

    Raises: EngineUnavailable if the system does not start it. Nothing is left of it after any failure.
    """

    def __init__(self, module: str, arguments: Sequence[str], inherited_end: socket.socket) -> None:
        descriptor = inherited_end.fileno()
        ours, theirs = _error_stream()
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, ours)
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", module, "--fd", str(descriptor), *arguments],
                    stdin=subprocess.DEVNULL,
                    stderr=theirs,
                    pass_fds=(descriptor,),
                    process_group=0,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                )
            except OSError as error:
                raise EngineUnavailable(f"the engine process cannot be started: {error.strerror}") from None
            finally:
                os.close(theirs)
            undo.callback(self._process.wait)
            undo.callback(self._process.kill)
            self._last_words = bytearray()
            self._listener = threading.Thread(target=self._listen, args=(ours,), name="engine-stderr", daemon=True)
            self._listener.start()
            undo.pop_all()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def how_it_ended(self) -> str:
        """``was killed by SIGKILL``, ``ended with exit status 1``."""
        status = self._process.poll()
        if status is None:
            return "still runs"
        if status >= 0:
            return f"ended with exit status {status}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-status).name}"
        return f"was killed by signal {-status}"

    @property
    def was_killed(self) -> bool:
        return self._process.poll() == -signal.SIGKILL

    @property
    def last_words(self) -> str:
        """The last lines of its standard error, without colours."""
        if self.ended:
            self._listener.join(timeout=0.2)  # a process that it started may keep the stream open
        text = _ESCAPES.sub("", self._last_words.decode(errors="replace"))
        return "\n".join([line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()][-LAST_WORDS_LINES:])

    async def wait(self, timeout_s: float) -> bool:
        """True once it has ended, False if it has not after `timeout_s`."""
        for _ in range(math.ceil(timeout_s / POLL_S)):
            if self.ended:
                break
            await asyncio.sleep(POLL_S)
        return self.ended

    async def end(self, patience_s: float) -> None:
        """Wait, ask, insist; whoever is cancelled meanwhile insists at once."""
        try:
            if not await self.wait(patience_s):
                self._process.terminate()
                await self.wait(patience_s)
        finally:
            self.kill()
        if not await self.wait(KILL_PATIENCE_S):
            log.error("process does not end, left behind", pid=self.pid)

    def kill(self) -> None:
        self._process.kill()

    def _listen(self, stream: int) -> None:
        with contextlib.suppress(OSError):  # the end of a terminal is an error
            while chunk := os.read(stream, 1 << 16):
                self._last_words = (self._last_words + chunk)[-LAST_WORDS_BYTES:]
                with contextlib.suppress(OSError):
                    _write(chunk)
        os.close(stream)


def _write(chunk: bytes) -> None:
    while chunk:
        chunk = chunk[os.write(_STDERR, chunk) :]


def _error_stream() -> tuple[int, int]:
    """(our end, the child's end): a terminal if ours is one, else a pipe."""
    if not os.isatty(_STDERR):
        return os.pipe()
    import pty
    import termios

    ours, theirs = pty.openpty()
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST  # our own terminal adds the carriage returns
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    termios.tcsetwinsize(theirs, termios.tcgetwinsize(_STDERR))
    return ours, theirs
