"""Calls as a phone makes them: SIP and G.711, one user agent and one loop of PCMU for all of them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import numpy as np

from rtc_server.bench import signals
from rtc_server.bench.analysis import Decode
from rtc_server.bench.impairment import Uplink
from rtc_server.bench.line import encode_loop
from rtc_server.bench.sipcall import SipCall
from rtc_server.bench.sipsignaling import SipSignaling
from rtc_server.bench.voice import LoopVoice
from rtc_server.media.g711 import RATE_HZ, G711Decoder, G711Encoder


class SipLine:
    """A `line.Line`."""

    clock_hz = RATE_HZ

    def __init__(self, signaling: SipSignaling) -> None:
        self._signaling = signaling
        self._payloads = encode_loop(G711Encoder("PCMU"))

    async def dial(self, offset_packets: int, uplink: Uplink) -> SipCall:
        call = SipCall(self._signaling, LoopVoice(self._payloads, offset_packets), uplink)
        try:
            await call.connect()
        except BaseException:
            await call.close()
            raise
        return call

    def make_decoder(self) -> Decode:
        decoder = G711Decoder("PCMU")

        def decode(payload: bytes) -> signals.Samples:
            return decoder.decode(payload) if payload else np.empty(0, np.float32)

        return decode


@contextlib.asynccontextmanager
async def sip_line(url: str) -> AsyncIterator[SipLine]:
    """Raises: ConfigError for a URL that is none, PeerError where no way leads there."""
    signaling = SipSignaling(url)
    try:
        await signaling.start()
        yield SipLine(signaling)
    finally:
        await signaling.close()
