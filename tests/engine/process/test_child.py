from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rtc_server.engine.process.child import Child
from rtc_server.errors import EngineUnavailable

WORKER = "rtc_server.engine.process.worker"


@pytest.fixture
def inherited_end() -> Iterator[socket.socket]:
    one, other = socket.socketpair()
    with one, other:
        yield other


async def test_what_a_process_says_last_is_kept_and_shown(
    inherited_end: socket.socket, capfd: pytest.CaptureFixture[str]
) -> None:
    child = Child("json.tool", [], inherited_end)  # which has no use for the socket
    assert await child.wait(20)
    assert child.how_it_ended == "ended with exit status 2"
    assert "json.tool: error: " in child.last_words
    assert "json.tool: error: " in capfd.readouterr().err


async def test_one_that_does_not_end_is_asked_and_then_killed(inherited_end: socket.socket) -> None:
    child = Child(WORKER, [], inherited_end)
    assert not await child.wait(0.05)
    assert (child.ended, child.how_it_ended) == (False, "still runs")
    await child.end(patience_s=0.0)
    assert child.ended
    child.kill()  # nobody is hit


async def test_one_that_is_killed_says_so(inherited_end: socket.socket) -> None:
    child = Child(WORKER, [], inherited_end)
    child.kill()
    assert await child.wait(20)
    assert child.was_killed and child.how_it_ended == "was killed by SIGKILL"


async def test_it_inherits_its_socket_and_no_other(inherited_end: socket.socket) -> None:
    with socket.socket() as stranger:
        os.set_inheritable(stranger.fileno(), True)
        child = Child(WORKER, [], inherited_end)
        if sys.platform == "linux":
            kept = {os.readlink(f"/proc/{child.pid}/fd/{name}") for name in os.listdir(f"/proc/{child.pid}/fd")}
            assert not any(str(os.fstat(stranger.fileno()).st_ino) in name for name in kept)
        await child.end(patience_s=0.0)


def test_a_system_that_starts_no_process_is_an_error_of_ours(
    inherited_end: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    descriptors = len(os.listdir("/dev/fd"))
    with pytest.raises(EngineUnavailable, match="cannot be started"):
        Child(WORKER, [], inherited_end)
    assert len(os.listdir("/dev/fd")) == descriptors


def test_a_process_that_nobody_can_listen_to_is_ended(
    inherited_end: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    launched: list[subprocess.Popen[bytes]] = []
    launch = subprocess.Popen.__init__

    def remember(process: subprocess.Popen[bytes], *arguments: Any, **settings: Any) -> None:
        launch(process, *arguments, **settings)
        launched.append(process)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(subprocess.Popen, "__init__", remember)
    descriptors = len(os.listdir("/dev/fd"))
    with pytest.raises(RuntimeError, match="new thread"):
        Child(WORKER, [], inherited_end)
    assert launched[0].returncode is not None
    assert len(os.listdir("/dev/fd")) == descriptors
