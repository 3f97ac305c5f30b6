"""Stock aiortc as the far end, and our side of a call without engine or session."""

from __future__ import annotations

import asyncio
import fractions
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aioice.ice
import numpy as np
import pytest
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame

from rtc_server.transports.pacer import Pacer
from rtc_server.transports.webrtc.addresses import default_route_addresses
from rtc_server.transports.webrtc.peer import WebRtcLeg
from rtc_server.transports.webrtc.transport import WebRtcConfig, WebRtcTransport
from tests.transports.webrtc.waiting import eventually

TONE_HZ = 440.0


def let_aioice_use_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """aioice gathers no loopback address; where there is no other, it has to."""
    if not default_route_addresses():
        monkeypatch.setattr(aioice.ice, "get_host_addresses", lambda use_ipv4, use_ipv6: ["127.0.0.1"])


class ToneTrack(MediaStreamTrack):
    """48 kHz mono, 20 ms a frame, on an absolute clock."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._frames = 0
        self._started_s = 0.0

    async def recv(self) -> AudioFrame:
        if self.readyState != "live":
            raise MediaStreamError
        if not self._frames:
            self._started_s = time.monotonic()
        await asyncio.sleep(max(0.0, self._started_s + self._frames * 0.02 - time.monotonic()))
        at = np.arange(960) + self._frames * 960
        pcm = (10_000 * np.sin(at * 2 * np.pi * TONE_HZ / 48_000)).astype(np.int16)
        frame = AudioFrame.from_ndarray(pcm.reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate, frame.time_base, frame.pts = 48_000, fractions.Fraction(1, 48_000), int(at[0])
        self._frames += 1
        return frame


class Caller:
    """A stock client: a tone goes out, what comes back is kept; messages of the channel ``events`` too."""

    def __init__(self, channel_label: str = "events", sends: bool = True) -> None:
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.messages: list[str] = []
        """One JSON text an event, also where several came in one message."""
        self.heard: list[np.ndarray] = []
        if sends:
            self.connection.addTrack(ToneTrack())
        else:
            self.connection.addTransceiver("audio", direction="recvonly")
        self.connection.on("track", self._on_track)
        self._listening: asyncio.Task[None] | None = None
        if channel_label:
            self.open_channel(channel_label)

    def open_channel(self, label: str) -> None:
        self.channel = self.connection.createDataChannel(label)
        self.channel.on("message", self._on_message)

    async def offer(self) -> str:
        await self.connection.setLocalDescription(await self.connection.createOffer())
        return self.connection.localDescription.sdp

    async def answer(self, sdp: str) -> None:
        await self.connection.setRemoteDescription(RTCSessionDescription(sdp, "answer"))

    def heard_hz(self) -> float:
        """The loudest frequency of the last half second."""
        pcm = np.concatenate(self.heard)[-24_000:]
        return float(np.argmax(np.abs(np.fft.rfft(pcm * np.hanning(pcm.size))))) * 48_000 / pcm.size

    async def close(self) -> None:
        await self.connection.close()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)

    def _on_message(self, message: str) -> None:
        value = json.loads(message)
        self.messages += [json.dumps(event) for event in (value if isinstance(value, list) else [value])]

    def _on_track(self, track: MediaStreamTrack) -> None:
        self._listening = asyncio.ensure_future(self._listen(track))

    async def _listen(self, track: MediaStreamTrack) -> None:
        try:
            while True:
                frame = await track.recv()
                self.heard.append(frame.to_ndarray()[0, ::2].astype(np.float32) / 32768)
        except MediaStreamError:
            return


class Handler:
    """Our side's owner of a leg: remembers what it was told."""

    def __init__(self) -> None:
        self.connected = asyncio.Event()
        self.messages: list[str | bytes] = []
        self.closed: list[str] = []

    def on_connected(self) -> None:
        self.connected.set()

    def on_message(self, message: str | bytes) -> None:
        self.messages.append(message)

    def on_digit(self, digit: str) -> None:
        raise AssertionError("no telephone events are agreed on")

    def on_leg_closed(self, reason: str) -> None:
        self.closed.append(reason)


class House:
    """Transport and pacer."""

    def __init__(self, config: WebRtcConfig) -> None:
        self.pacer = Pacer()
        self.transport = WebRtcTransport(config, self.pacer)

    def assert_nothing_left(self) -> None:
        mux = self.transport.mux
        assert not self.transport.legs
        assert not mux.by_ufrag and not mux.by_address
        assert not self.pacer._senders

    async def connect(self, caller: Caller) -> tuple[WebRtcLeg, Handler]:
        handler = Handler()
        leg, answer = await self.transport.create(await caller.offer(), handler)
        await caller.answer(answer)
        await asyncio.wait_for(handler.connected.wait(), 10)
        await eventually(lambda: caller.connection.connectionState == "connected")
        return leg, handler


@asynccontextmanager
async def house(
    ice_timeout_s: float = 10.0, dtls_timeout_s: float = 5.0, advertise_ip: tuple[str, ...] = ()
) -> AsyncIterator[House]:
    """Everything that a leg needs, and the proof that no task of ours outlives it."""
    before = asyncio.all_tasks()
    made = House(WebRtcConfig(0, advertise_ip, ice_timeout_s, dtls_timeout_s))
    await made.transport.start()
    made.pacer.start()
    try:
        yield made
    finally:
        await made.transport.close()
        await made.pacer.stop()
    await eventually(lambda: asyncio.all_tasks() <= before, 5)


@asynccontextmanager
async def echoing(leg: WebRtcLeg) -> AsyncIterator[None]:
    """What the user said goes back, by an 80 ms loop."""

    async def loop() -> None:
        next_s = time.monotonic()
        while True:
            next_s += 0.08
            await asyncio.sleep(max(0.0, next_s - time.monotonic()))
            now = time.monotonic()
            leg.write(now, leg.take(now))

    task = asyncio.ensure_future(loop())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
