"""Calls that speak through a bad network, and what the engine heard of them.

One script for every call: the room's noise, `Speech` through the impaired network, a while of calm, then one standstill
of the uplink while somebody speaks without a pause.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import numpy as np
from aiortc import RTCCertificate
from numpy.typing import NDArray

from rtc_server.bench import servers
from rtc_server.bench.call import Call
from rtc_server.bench.impairment import Impairment
from rtc_server.bench.listener import ENGINE, FOLDER_VARIABLE, Recording, recording_path
from rtc_server.bench.pacer import Pacer
from rtc_server.bench.relay import Relay, running_relay
from rtc_server.bench.signaling import TIMEOUT_S, Signaling
from rtc_server.bench.speech import Speech
from rtc_server.bench.voice import SpeakingVoice
from rtc_server.errors import PeerError

TAIL_S = 1.0
STANDSTILL_S = 1.0


@dataclass(frozen=True, slots=True)
class Script:
    """What every call of a run does."""

    speech: Speech
    network: Impairment
    """Of both directions; its delay alone is there in the calm too."""
    red: bool = False
    seed: int = 0
    lead_s: float = 5.0
    """Of noise through the impaired network, before anybody speaks."""
    calm_s: float = 8.0
    """Of speech without pauses, without impairment, before the standstill..."""
    after_s: float = 7.0
    """...and behind it."""

    @property
    def calm(self) -> Impairment:
        return Impairment(delay_ms=self.network.delay_ms)

    def without_pauses(self, number: int, calls: int) -> NDArray[np.float32]:
        """For the calm and the standstill; every call stands still at another place of the speech."""
        sound = self.speech.without_pauses(self.calm_s + STANDSTILL_S + self.after_s)
        return np.roll(sound, sound.size * number // calls)


@dataclass(frozen=True, slots=True)
class HeardCall:
    """What one call sent, and what the engine was given. Times are on one monotonic clock."""

    clean: NDArray[np.float32]
    """[n] all that was sent, as a perfect network would have carried it."""
    captured_s: float
    """When the first sample of `clean` was captured."""
    recording: Recording
    speech_at: int
    """Sample of `clean` with which the speech begins."""
    standstill_end_s: float
    live_s: tuple[float, float]
    """Begin and end of the time over which the engine must have been given every frame."""
    lost: float
    """Share of packets lost in the impaired network, 0..1."""
    send_late_p99_ms: float = 0.0
    """How late the client itself sent: a busy machine shows here first."""


def heard_for_real(script: Script, calls: int, server_cpu: int | None = None) -> list[HeardCall]:
    """`calls` at once, each through a network of its own, to a server of our own on loopback; takes `script`'s time.

    Raises: RtcServerError when the server does not start, or refuses.
    """
    with tempfile.TemporaryDirectory(prefix="rtc-bench-") as folder:
        environment = {FOLDER_VARIABLE: folder}
        with (
            servers.own_server(calls, server_cpu, ENGINE, environment=environment) as target,
            asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner,
        ):
            spoken = runner.run(_speak(script, calls, target))
        # The server is gone, so its files are whole.
        return [replace(one, recording=_recording(Path(folder), number)) for number, one in enumerate(spoken)]


def _recording(folder: Path, number: int) -> Recording:
    try:
        return Recording.read(recording_path(folder, number))
    except OSError:
        raise PeerError(f"the server kept nothing of call {number + 1}") from None


async def _speak(script: Script, calls: int, target: servers.Target) -> list[HeardCall]:
    """All but the recordings."""
    assert target.udp_port is not None
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with contextlib.AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        signaling = Signaling(http, target.url, target.adapter)
        relay = await stack.enter_async_context(
            running_relay((servers.HOST, target.udp_port), script.calm, script.calm, script.seed)
        )
        pacer = Pacer()
        pacer.start()
        stack.push_async_callback(pacer.stop)
        certificate = RTCCertificate.generateCertificate()
        made: list[tuple[Call, SpeakingVoice]] = []
        for number in range(calls):
            voice = SpeakingVoice(number)
            call = Call(voice, via=(relay.host, relay.port), red=script.red)
            stack.push_async_callback(call.close)
            await call.connect(signaling, certificate, events=True, seed=number)
            if script.red and not call.sends_red:
                raise PeerError("the server does not take redundant audio (RFC 2198)", hint="measure with --no-red")
            pacer.add(call)
            await call.event("session.ready")
            made.append((call, voice))
        gc.collect()
        gc.freeze()  # walking what stays for the whole run would be seen as lateness
        try:
            pacer.reset()
            heard = await _follow(script, relay, made)
            late_ms = float(np.percentile(pacer.lateness_ms(), 99))
            return [replace(one, send_late_p99_ms=late_ms) for one in heard]
        finally:
            gc.unfreeze()


async def _follow(script: Script, relay: Relay, made: list[tuple[Call, SpeakingVoice]]) -> list[HeardCall]:
    relay.impair(script.network, script.network)
    begin_s = time.monotonic()
    await asyncio.sleep(script.lead_s)
    speech_at = [voice.say(script.speech.pcm) for _, voice in made]
    await asyncio.sleep(script.speech.seconds + TAIL_S)
    lost = relay.uplink_loss()
    relay.impair(script.calm, script.calm)
    for number, (_, voice) in enumerate(made):
        voice.say(script.without_pauses(number, len(made)))
    await asyncio.sleep(script.calm_s)
    relay.stand_still(STANDSTILL_S)
    standstill_end_s = time.monotonic() + STANDSTILL_S
    await asyncio.sleep(STANDSTILL_S + script.after_s)
    live_s = (begin_s, time.monotonic())
    return [
        HeardCall(
            clean=voice.clean(),
            captured_s=call.first_capture_s or 0.0,
            recording=Recording.none(),
            speech_at=speech_at[number],
            standstill_end_s=standstill_end_s,
            live_s=live_s,
            lost=lost,
        )
        for number, (call, voice) in enumerate(made)
    ]
