"""Our two tracks inside a stock server-side `RTCPeerConnection`: a call with an engine without our own media path."""

from __future__ import annotations

import asyncio
import contextlib
import time

import aioice.ice
import numpy as np
import pytest
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame
from av.audio.resampler import AudioResampler

from rtc_server.engine.echo import EchoStepper
from rtc_server.engine.local import LocalEngine
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import SessionPrompt
from rtc_server.media.pcm import to_float, to_int16
from rtc_server.media.pcmfifo import PcmFifo
from rtc_server.media.playout import Playout
from rtc_server.transports.webrtc.tracks import AgentAudioTrack, UserAudioTrack, audio_frame

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]


class Tone(MediaStreamTrack):
    """440 Hz, 24 kHz, paced by an absolute clock."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._sent = 0
        self._start_s: float | None = None

    async def recv(self) -> AudioFrame:
        self._start_s = self._start_s or time.monotonic()
        await asyncio.sleep(max(0.0, self._start_s + self._sent / 24_000 - time.monotonic()))
        t = (np.arange(480) + self._sent) / 24_000
        frame = audio_frame(self._sent, (0.3 * np.sin(2 * np.pi * 440 * t)).astype(np.float32))
        self._sent += 480
        return frame


async def hold_call(engine: LocalEngine, user: UserAudioTrack, agent: AgentAudioTrack) -> None:
    """The conductor's loop, for one call."""
    lease = await engine.reserve(SessionPrompt())
    sequence = 0
    while True:
        pcm = user.take(time.monotonic())
        sequence += 1
        result = await engine.exchange([lease], [True], sequence, to_int16(pcm[None]))
        if (spoken := result.outputs[0].pcm) is not None:
            agent.write(time.monotonic(), to_float(spoken))
        await asyncio.sleep(max(0.0, result.next_tick_in_s - 0.004))


async def feed(remote: MediaStreamTrack, fifo: PcmFifo) -> None:
    resampler = AudioResampler(format="s16", layout="mono", rate=24_000)
    with contextlib.suppress(MediaStreamError):
        while True:
            frame = await remote.recv()
            assert isinstance(frame, AudioFrame)
            for part in resampler.resample(frame):
                fifo.put(time.monotonic(), part.to_ndarray().reshape(-1))


async def test_stock_connection_holds_a_call_with_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aioice.ice, "get_host_addresses", lambda use_ipv4, use_ipv6: ["127.0.0.1"])
    engine = LocalEngine(lambda: EchoStepper(1, EngineOptions(slots=1)))
    await engine.start()
    fifo = PcmFifo()
    user, agent = UserAudioTrack(fifo), AgentAudioTrack(Playout())
    server, client = (RTCPeerConnection(RTCConfiguration(iceServers=[])) for _ in range(2))
    tasks: list[asyncio.Task[None]] = []
    heard: list[np.ndarray] = []
    enough = asyncio.Event()

    server.on("track", lambda track: tasks.append(asyncio.create_task(feed(track, fifo))))
    server.addTrack(agent)
    client.addTrack(Tone())

    async def listen(track: MediaStreamTrack) -> None:
        with contextlib.suppress(MediaStreamError):
            while True:
                frame = await track.recv()
                assert isinstance(frame, AudioFrame)
                heard.append(frame.to_ndarray().reshape(-1)[:: len(frame.layout.channels)].astype(np.float64))
                if len(heard) >= 150:
                    enough.set()

    client.on("track", lambda track: tasks.append(asyncio.create_task(listen(track))))
    try:
        await client.setLocalDescription(await client.createOffer())
        await server.setRemoteDescription(client.localDescription)
        await server.setLocalDescription(await server.createAnswer())
        await client.setRemoteDescription(server.localDescription)
        tasks.append(asyncio.create_task(hold_call(engine, user, agent)))
        await asyncio.wait_for(enough.wait(), 30)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(client.close(), server.close())
        await engine.stop()

    late = np.concatenate(heard[-50:])
    spectrum = np.abs(np.fft.rfft(late * np.hanning(late.size)))
    assert np.sqrt(np.mean(late**2)) > 1000, "the echo is heard"
    assert abs(np.argmax(spectrum) * 48_000 / late.size - 440) < 5, "and it is the caller's tone"
