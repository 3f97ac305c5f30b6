"""The codecs of a call, by what offer and answer agreed on."""

from __future__ import annotations

from typing import Protocol

from rtc_server.media.audioformat import AudioFormat
from rtc_server.media.concealment import AudioDecoder
from rtc_server.media.frames import FloatSamples
from rtc_server.media.g711 import G711Decoder, G711Encoder
from rtc_server.media.g722 import G722Decoder, G722Encoder
from rtc_server.media.opus import OpusDecoder, OpusEncoder


class AudioEncoder(Protocol):
    """Mono samples at 24 kHz to one codec's packets."""

    def encode(self, pcm: FloatSamples) -> bytes:
        """The payload for 20 ms, [480] samples in [-1, 1]; empty where nothing needs to be sent."""

    def follow(self, expected_loss_pct: int, bitrate_bps: int) -> None:
        """Adapt to the path: what share of the packets is lost, and what it has room for."""


def make_decoder(audio: AudioFormat) -> AudioDecoder:
    """For what the peer sends. Raises: MissingLibrary where Opus is agreed on and there is no libopus."""
    if audio.codec == "opus":
        return OpusDecoder()
    return G722Decoder() if audio.codec == "G722" else G711Decoder(audio.codec)


def make_encoder(audio: AudioFormat, dtx: bool = False) -> AudioEncoder:
    """For what we send. `dtx` is of no meaning for G.711 and G.722, which have no word for silence of their own.

    Raises: MissingLibrary, as above.
    """
    if audio.codec == "opus":
        return OpusEncoder(bitrate_bps=audio.max_bitrate_bps, dtx=dtx)
    return G722Encoder() if audio.codec == "G722" else G711Encoder(audio.codec)
