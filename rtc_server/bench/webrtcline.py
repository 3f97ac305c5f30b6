"""Calls over WebRTC: offer and answer by HTTP, one certificate and one loop of Opus for all of them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import aiohttp
import numpy as np
from aiortc import RTCCertificate

from rtc_server.bench import signals
from rtc_server.bench.analysis import OPUS_CLOCK_HZ, Decode
from rtc_server.bench.call import Call
from rtc_server.bench.impairment import Uplink
from rtc_server.bench.line import encode_loop
from rtc_server.bench.signaling import TIMEOUT_S, Signaling
from rtc_server.bench.voice import LoopVoice
from rtc_server.media.opus import OpusDecoder, OpusEncoder, OpusError


class WebRtcLine:
    """A `line.Line`.

    Args:
        events: offer the data channel for events.
    """

    clock_hz = OPUS_CLOCK_HZ

    def __init__(self, signaling: Signaling, events: bool) -> None:
        self._signaling = signaling
        self._events = events
        self._certificate = RTCCertificate.generateCertificate()
        self._payloads = opus_loop()

    async def dial(self, offset_packets: int, uplink: Uplink) -> Call:
        call = Call(LoopVoice(self._payloads, offset_packets), uplink)
        try:
            await call.connect(self._signaling, self._certificate, self._events)
        except BaseException:
            await call.close()
            raise
        return call

    def make_decoder(self) -> Decode:
        decoder = OpusDecoder(signals.SAMPLE_RATE)

        def decode(payload: bytes) -> signals.Samples:
            try:
                return decoder.decode(payload)
            except OpusError:
                return np.empty(0, np.float32)

        return decode


def opus_loop() -> list[bytes]:
    return encode_loop(
        OpusEncoder(signals.SAMPLE_RATE, bitrate_bps=32_000, complexity=5, fec=True, expected_loss_pct=10)
    )


@contextlib.asynccontextmanager
async def webrtc_line(url: str, adapter: str, events: bool) -> AsyncIterator[WebRtcLine]:
    """Raises: ConfigError for a URL that is none."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as http:
        yield WebRtcLine(Signaling(http, url, adapter), events)
