"""Engine processes that die, hang, break, load badly and are started again. The processes are real."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rtc_server import metrics
from rtc_server.engine.client import Lease, SlotStatus, TickResult
from rtc_server.engine.process import incarnation
from rtc_server.engine.process.child import Child
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.remote import RemoteEngine, has_own_process
from rtc_server.engine.stepper import FRAME_SAMPLES, SessionPrompt
from rtc_server.errors import BadRequest, ConfigError, EngineError, EngineFull, EngineUnavailable, UnknownEngine
from tests.engine.steppers import LOADING, OBEDIENT, Command

ROOT = Path(__file__).resolve().parents[2]


@contextlib.asynccontextmanager
async def _running(engine: str = OBEDIENT, slots: int = 3, **settings: Any) -> AsyncIterator[RemoteEngine]:
    remote = RemoteEngine(engine, EngineOptions(slots=slots), backoff_s=(0.01, 0.05), **settings)
    await remote.start()
    try:
        yield remote
    finally:
        await remote.stop()


def _loading(what: str) -> RemoteEngine:
    return RemoteEngine(LOADING, EngineOptions(slots=2, model=what), backoff_s=(0.01, 0.05))


def _pid(engine: RemoteEngine) -> int:
    assert engine._incarnation is not None and engine._incarnation.pid is not None
    return engine._incarnation.pid


def _frames(count: int, value: int = 1) -> NDArray[np.int16]:
    return np.full((count, FRAME_SAMPLES), value, np.int16)


async def _exchange(engine: RemoteEngine, *leases: Lease, value: int = 1) -> TickResult:
    return await engine.exchange(leases, [True] * len(leases), 0, _frames(len(leases), value))


async def _go_live(engine: RemoteEngine) -> Lease:
    lease = await engine.reserve(SessionPrompt())
    for _ in range(10):
        if (await _exchange(engine, lease)).outputs[0].status is SlotStatus.LIVE:
            return lease
    raise AssertionError("the slot does not go live")


async def _until_ready(engine: RemoteEngine) -> None:
    async with asyncio.timeout(30):
        while not engine.capacity().ready:
            await asyncio.sleep(0.02)


async def _until_replaced(engine: RemoteEngine, pid: int) -> None:
    """Another process than `pid` serves, and that one has ended."""
    async with asyncio.timeout(30):
        while _pid(engine) == pid:
            await asyncio.sleep(0.02)
    await _until_ready(engine)
    assert not _lives(pid)


async def _until_dead(pid: int) -> None:
    async with asyncio.timeout(30):
        while _lives(pid):
            await asyncio.sleep(0.02)


def _lives(pid: int) -> bool:
    """Zombies do not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


# ---- death -----------------------------------------------------------------------------------------------------------


async def test_who_waits_for_a_process_that_is_killed_is_told_at_once_and_another_one_serves() -> None:
    async with _running() as engine:
        restarts = metrics.ENGINE_RESTARTS.collect()[0].samples[0].value
        leases = [await _go_live(engine) for _ in range(3)]
        pid = _pid(engine)
        waiting = [asyncio.create_task(_exchange(engine, lease, value=Command.HANG)) for lease in leases]
        await asyncio.sleep(0.2)
        os.kill(pid, signal.SIGKILL)
        began_s = time.monotonic()
        failures = await asyncio.gather(*waiting, return_exceptions=True)
        assert time.monotonic() - began_s < 2
        for failure in failures:
            assert isinstance(failure, EngineUnavailable)
            assert failure.hint == "the engine is starting again" and failure.retry_after_s
        assert not engine.capacity().ready and engine.capacity().in_use == 0
        with pytest.raises(EngineUnavailable, match="has died") as refused:
            await engine.reserve(SessionPrompt())
        assert refused.value.hint == "the engine is starting again"
        await _until_replaced(engine, pid)
        assert [output.status for output in (await _exchange(engine, *leases)).outputs] == [SlotStatus.REVOKED] * 3
        assert (await _go_live(engine)).incarnation != leases[0].incarnation
        assert metrics.ENGINE_RESTARTS.collect()[0].samples[0].value == restarts + 1


async def test_a_step_that_kills_the_process_ends_only_its_calls() -> None:
    async with _running() as engine:
        lease, pid = await _go_live(engine), _pid(engine)
        with pytest.raises(EngineUnavailable):
            await _exchange(engine, lease, value=Command.DIE)
        await engine.release(lease)
        await _until_replaced(engine, pid)
        assert (await _exchange(engine, await _go_live(engine), value=9)).outputs[0].status is SlotStatus.LIVE


async def test_a_process_that_writes_garbage_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    async with _running() as engine:
        lease, pid = await _go_live(engine), _pid(engine)
        with pytest.raises(EngineUnavailable, match="has died"):
            await _exchange(engine, lease, value=Command.WRITE_GARBAGE)
        await _until_replaced(engine, pid)
        assert "Traceback" not in caplog.text


async def test_a_process_that_is_terminated_from_outside_is_replaced() -> None:
    async with _running() as engine:
        pid = _pid(engine)
        os.kill(pid, signal.SIGINT)  # what Ctrl-C sends: not its affair
        await asyncio.sleep(0.3)
        assert _lives(pid) and engine.capacity().ready
        os.kill(pid, signal.SIGTERM)
        await _until_replaced(engine, pid)


async def test_an_engine_that_does_not_start_again_is_tried_again(tmp_path: Path) -> None:
    needed = tmp_path / "weights"
    needed.touch()
    engine = _loading(f"need={needed}")
    await engine.start()
    needed.unlink()
    before = metrics.ENGINE_RESTARTS.collect()[0].samples[0].value
    os.kill(_pid(engine), signal.SIGKILL)
    async with asyncio.timeout(30):
        while metrics.ENGINE_RESTARTS.collect()[0].samples[0].value < before + 2:
            await asyncio.sleep(0.02)
    assert not engine.capacity().ready
    needed.touch()
    await _until_ready(engine)
    await engine.stop()


async def test_whatever_goes_wrong_with_a_start_it_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with _running() as engine:
        refusals = iter([RuntimeError("can't start new thread"), KeyError("kind")])

        def launch(*arguments: Any) -> Child:
            for refusal in refusals:
                raise refusal
            return Child(*arguments)

        monkeypatch.setattr(incarnation, "Child", launch)
        pid = _pid(engine)
        os.kill(pid, signal.SIGKILL)
        await _until_replaced(engine, pid)
        assert not list(refusals)


async def test_an_engine_that_dies_while_it_drains_is_not_started_again() -> None:
    async with _running() as engine:
        engine.drain()
        pid = _pid(engine)
        os.kill(pid, signal.SIGKILL)
        await _until_dead(pid)
        await asyncio.sleep(0.3)
        assert _pid(engine) == pid and not engine.capacity().ready and engine.capacity().draining


SERVER = """
import asyncio, sys
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.remote import RemoteEngine

async def serve(name, model):
    engine = RemoteEngine(name, EngineOptions(slots=1, model=model))
    starting = asyncio.create_task(engine.start())
    while engine._starting is None or engine._starting.pid is None:
        await asyncio.sleep(0)
    pid = engine._starting.pid
    if not model:
        await starting
        print("device", engine.spec.device, file=sys.stderr)
    print(pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(serve(*sys.argv[1:]))
"""


@contextlib.contextmanager
def _server(model: str = "", **streams: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that has an engine of its own, and prints its pid."""
    command = [sys.executable, "-c", SERVER, LOADING, model]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, **streams) as server:
        try:
            yield server
        finally:
            server.kill()


@pytest.mark.parametrize("model", ["", "take-long"])
async def test_a_process_never_outlives_its_server(model: str) -> None:
    with _server(model) as server:
        assert server.stdout is not None
        pid = int(await asyncio.to_thread(server.stdout.readline))
        assert _lives(pid)
        server.kill()
        await _until_dead(pid)


async def test_a_process_has_a_terminal_if_its_server_has_one() -> None:
    ours, theirs = pty.openpty()
    with _server(stderr=theirs) as server:
        os.close(theirs)
        assert server.stdout is not None
        await asyncio.to_thread(server.stdout.readline)
        assert b"device terminal=True" in await asyncio.to_thread(os.read, ours, 4096)
    os.close(ours)


# ---- loading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "kind", "message", "hint"),
    [
        ("refuse", ConfigError, "slots=2 is too many", "set --slots 1"),
        ("raise", EngineError, "MemoryError: no room for the weights", ""),
        ("exit", EngineError, "SystemExit: 7", ""),
        ("die", EngineUnavailable, "was killed by SIGKILL while it was loading", "memory"),
        ("abort", EngineUnavailable, "was killed by SIGABRT while it was loading", "no such kernel image"),
    ],
)
async def test_an_engine_that_cannot_be_loaded_says_why(what: str, kind: type, message: str, hint: str) -> None:
    engine = _loading(what)
    with pytest.raises(kind) as failed:
        await engine.start()
    assert type(failed.value) is kind
    assert message in failed.value.message and hint in failed.value.hint and "\033" not in failed.value.hint
    assert not engine.capacity().ready and engine._starting is None
    await engine.stop()


def test_an_unknown_engine_is_known_without_a_process() -> None:
    with pytest.raises(UnknownEngine, match="echo"):
        RemoteEngine("ecko", EngineOptions())


async def test_nothing_is_served_while_it_is_loading_and_stop_ends_that() -> None:
    engine = _loading("take-long")
    starting = asyncio.create_task(engine.start())
    await asyncio.sleep(0.1)
    assert engine.capacity().total == 0 and not engine.capacity().ready
    with pytest.raises(EngineUnavailable, match="not started"):
        await engine.reserve(SessionPrompt())
    assert engine._starting is not None
    pid = engine._starting.pid
    await engine.stop()
    with pytest.raises(EngineUnavailable, match="while it was starting"):
        await starting
    assert pid is not None and not _lives(pid)


async def test_a_start_that_is_cancelled_leaves_no_process() -> None:
    engine = _loading("take-long")
    starting = asyncio.create_task(engine.start())
    await asyncio.sleep(0.1)
    assert engine._starting is not None
    pid = engine._starting.pid
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert pid is not None and not _lives(pid)
    await engine.stop()


# ---- stalls ----------------------------------------------------------------------------------------------------------


async def test_a_process_that_stands_still_for_a_moment_goes_on() -> None:
    async with _running() as engine:
        lease = await _go_live(engine)
        pid = _pid(engine)
        os.kill(pid, signal.SIGSTOP)
        waiting = asyncio.create_task(_exchange(engine, lease, value=8))
        await asyncio.sleep(1.5)
        assert not waiting.done() and not engine.capacity().ready
        os.kill(pid, signal.SIGCONT)
        output = (await waiting).outputs[0]
        assert output.pcm is not None and output.pcm[0] == 8
        await _until_ready(engine)
        assert _pid(engine) == pid


async def test_a_process_that_stands_still_for_too_long_is_lost_and_replaced() -> None:
    async with _running(lost_after_s=0.6, restart_after_s=1.2) as engine:
        lease = await _go_live(engine)
        pid = _pid(engine)
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(EngineUnavailable, match="silent"):
            await _exchange(engine, lease)
        with pytest.raises(EngineUnavailable):
            await engine.reserve(SessionPrompt())
        await _until_replaced(engine, pid)


async def test_a_step_that_hangs_makes_the_engine_unavailable_and_is_replaced() -> None:
    async with _running(lost_after_s=0.6, restart_after_s=3) as engine:
        lease = await _go_live(engine)
        pid = _pid(engine)
        with pytest.raises(EngineUnavailable, match="silent"):
            await _exchange(engine, lease, value=Command.HANG)
        await _until_replaced(engine, pid)


async def test_a_device_that_no_step_gets_out_of_is_cured_by_another_process() -> None:
    async with _running(restart_after_s=1.5) as engine:
        lease = await _go_live(engine)
        pid = _pid(engine)
        statuses = [(await _exchange(engine, lease, value=Command.RAISE)).outputs[0].status for _ in range(2)]
        assert statuses == [SlotStatus.LIVE, SlotStatus.FAILED]
        await _until_replaced(engine, pid)


# ---- the end ---------------------------------------------------------------------------------------------------------


async def test_stop_waits_for_the_step_in_flight_and_fails_who_came_after() -> None:
    async with _running() as engine:
        lease = await _go_live(engine)
        pid = _pid(engine)
        waiting = [asyncio.create_task(_exchange(engine, lease, value=Command.TAKE_LONG))]
        await asyncio.sleep(0.15)
        waiting.append(asyncio.create_task(_exchange(engine, lease)))
        await asyncio.sleep(0)
        await engine.stop()
        first, second = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(first, TickResult)
        assert isinstance(second, EngineUnavailable) and second.message == "the engine has stopped"
        assert not _lives(pid)
        with pytest.raises(EngineUnavailable, match="stopped"):
            await _exchange(engine, lease)
        await engine.release(lease)
        await engine.stop()
        assert not engine.capacity().ready
        with pytest.raises(RuntimeError, match="once"):
            await engine.start()


async def test_stop_ends_a_process_that_does_not_listen() -> None:
    async with _running() as engine:
        pid = _pid(engine)
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(1.1)
        began_s = time.monotonic()
        await engine.stop()
        assert not _lives(pid) and time.monotonic() - began_s < 10


@pytest.mark.soak
async def test_starts_and_stops_leave_nothing_behind() -> None:
    """20 in full, 3 otherwise."""
    children, descriptors = _children(), len(os.listdir("/dev/fd"))
    for _ in range(20 if os.environ.get("RTC_SOAK") else 3):
        async with _running() as engine:
            await _go_live(engine)
    assert _children() == children
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert len(os.listdir("/dev/fd")) == descriptors


def _children() -> str:
    own = str(os.getpid())
    answer = subprocess.run(["ps", "-A", "-o", "ppid=,args="], capture_output=True, text=True, check=True).stdout
    return "\n".join(line for line in answer.splitlines() if line.split()[0] == own and "rtc_server" in line)


# ---- what goes over ------------------------------------------------------------------------------------------------


async def test_a_caller_who_gives_up_takes_no_slot() -> None:
    async with _running(slots=1) as engine:
        for turns in range(6):
            reserving = asyncio.create_task(engine.reserve(SessionPrompt()))
            for _ in range(turns):
                await asyncio.sleep(0.001)
            reserving.cancel()
            with contextlib.suppress(asyncio.CancelledError, EngineFull):
                await engine.release(await reserving)
        async with asyncio.timeout(2):  # not the 5 s after which a lease expires
            while engine.capacity().in_use:
                await asyncio.sleep(0.01)


async def test_a_persona_that_is_no_text_is_refused() -> None:
    async with _running(slots=1) as engine:
        with pytest.raises(BadRequest):
            await engine.reserve(SessionPrompt(persona="\ud800"))


async def test_metrics_of_the_process_are_ours() -> None:
    def steps() -> float:
        return next(s.value for s in metrics.TICK_SECONDS.collect()[0].samples if s.name.endswith("_count"))

    def live() -> float:
        return metrics.SLOTS.labels("live").collect()[0].samples[0].value

    async with _running() as engine:
        before, live_before = steps(), live()
        lease = await _go_live(engine)
        for _ in range(3):
            await _exchange(engine, lease)
        async with asyncio.timeout(5):
            while steps() < before + 4 or live() < live_before + 1:
                await asyncio.sleep(0.05)
    assert live() == live_before


async def test_what_the_process_logs_is_seen(capfd: pytest.CaptureFixture[str]) -> None:
    async with _running(log_format="json") as engine:
        lease = await _go_live(engine)
        await _exchange(engine, lease, value=Command.RAISE)
    assert '"event": "step raised"' in capfd.readouterr().err


@pytest.mark.parametrize(
    ("mode", "engine", "own"),
    [("auto", "echo", False), ("auto", "personaplex", True), ("on", "echo", True), ("off", "personaplex", False)],
)
def test_which_engine_gets_a_process(mode: Any, engine: str, own: bool) -> None:
    assert has_own_process(mode, engine) is own


def test_windows_has_no_engine_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert not has_own_process("auto", "personaplex")
    with pytest.raises(ConfigError, match="Windows"):
        has_own_process("on", "echo")
