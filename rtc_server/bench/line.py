"""What the load client needs to know of a kind of call: how it is set up, and what it carries."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from rtc_server.bench import signals
from rtc_server.bench.analysis import Decode
from rtc_server.bench.impairment import Uplink
from rtc_server.bench.lightcall import LightCall
from rtc_server.media.codecs import AudioEncoder


class Line(Protocol):
    """Makes calls of one kind to one server. Loop thread only."""

    clock_hz: int
    """Of the RTP timestamps."""

    async def dial(self, offset_packets: int, uplink: Uplink) -> LightCall:
        """A call that is up; it says the loop from packet `offset_packets` on.

        Raises: PeerError and its kinds; then nothing is left of it.
        """

    def make_decoder(self) -> Decode:
        """For one call. It hears nothing in a corrupt packet."""


def encode_loop(encoder: AudioEncoder) -> list[bytes]:
    """The loop as payloads of 20 ms. Encoded twice over, the second turn kept: its end fits its start."""
    sound = np.concatenate([signals.loop(), signals.loop()])
    packets = [
        encoder.encode(sound[at : at + signals.PACKET_SAMPLES]) for at in range(0, sound.size, signals.PACKET_SAMPLES)
    ]
    return packets[signals.LOOP_PACKETS :]
