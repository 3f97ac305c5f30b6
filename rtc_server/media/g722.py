"""G.722: wideband speech, 50 Hz to 7 kHz at 64 kb/s; to and from the engine's 24 kHz.

Quadrature mirror filters cut the sound into two bands, and each is coded as how it differs from what was expected of
it (ADPCM): 6 bits for the lower band, 2 for the upper, a byte for two samples at 16 kHz. Both ends adapt as they go, so
the codec has a state that lives as long as the stream. RTP gives it a clock of 8000 Hz, by an old mistake (RFC 3551
section 4.5.2). FFmpeg has the codec itself.

There and back takes the filters 22 samples at 16 kHz, 1.4 ms, and the resampler 2 ms each way.

Behind a gap the two ends have adapted to different pasts, and until they agree again, for some 100 ms, what comes out
is distorted and may be far too loud. So the decoder is given the sound that has filled the gap, coded, to adapt to.
Behind a longer one that sound is no better than none: the decoder starts anew, and fades in as it adapts.
"""

from __future__ import annotations

from typing import Literal

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext

from rtc_server.media.frames import SAMPLE_RATE, FloatSamples
from rtc_server.media.pitchloop import PitchLoop
from rtc_server.media.resample import Resampler
from rtc_server.media.waveformdecoder import WaveformDecoder

RATE_HZ = 16_000
CODEC_DELAY_SAMPLES = 22
"""Of encoder and decoder together, at 16 kHz."""
BLOCK_SAMPLES = RATE_HZ // 100
"""10 ms at 16 kHz."""
_BRIDGED_SAMPLES = RATE_HZ // 25
"""40 ms at 16 kHz: the longest gap over which the decoder adapts to invented sound."""
_FULL_SCALE = 32_768


class G722Decoder(WaveformDecoder):
    """One stream of G.722 packets to mono samples at 24 kHz. One thread."""

    def __init__(self) -> None:
        super().__init__(RATE_HZ)
        self._codec = _codec("r")

    def _decoded(self, payload: bytes) -> FloatSamples:
        (frame,) = self._codec.decode(av.Packet(payload))
        samples = np.frombuffer(memoryview(frame.planes[0]), np.int16)[: frame.samples]  # the plane is padded
        return np.multiply(samples, 1 / _FULL_SCALE, dtype=np.float32)

    def _bridge(self, loop: PitchLoop) -> None:
        self._codec = _codec("r")
        if loop.position > _BRIDGED_SAMPLES:
            return
        # The bytes to come are those of sound that the decoder gives so much later.
        sound = np.concatenate((self.past, loop.sound(0, loop.position + CODEC_DELAY_SAMPLES)))
        self._codec.decode(av.Packet(_encode(_codec("w"), sound[sound.size % BLOCK_SAMPLES :])))

    def reset(self) -> None:
        """Forget the stream: what follows has nothing to do with what came before."""
        super().reset()
        self._codec = _codec("r")  # FFmpeg's flushing leaves the predictors as they were


class G722Encoder:
    """Mono samples at 24 kHz to G.722; a `codecs.AudioEncoder`. One thread."""

    def __init__(self) -> None:
        self._codec = _codec("w")
        self._resampler = Resampler(SAMPLE_RATE, RATE_HZ)

    def encode(self, pcm: FloatSamples) -> bytes:
        """80 bytes for every 10 ms of `pcm`, float32 in [-1, 1]; what is louder is clipped.

        Samples that fill no 10 ms wait for the next ones.
        """
        return _encode(self._codec, self._resampler.process(pcm))

    def follow(self, expected_loss_pct: int, bitrate_bps: int) -> None:
        """Nothing of G.722 can be adapted to a path."""


def _encode(codec: AudioCodecContext, samples: FloatSamples) -> bytes:
    """At 16 kHz; whole blocks of what has come so far."""
    if not samples.size:
        return b""  # FFmpeg would take it for the end
    frame = av.AudioFrame("s16", "mono", samples.size)
    frame.sample_rate = RATE_HZ
    levels = np.frombuffer(memoryview(frame.planes[0]), np.int16)[: samples.size]
    levels[:] = np.clip(np.rint(samples * _FULL_SCALE), -_FULL_SCALE, _FULL_SCALE - 1)
    return b"".join(bytes(packet) for packet in codec.encode(frame))


def _codec(mode: Literal["r", "w"]) -> AudioCodecContext:
    codec = AudioCodecContext.create("g722", mode)
    codec.format = av.AudioFormat("s16")
    codec.layout = "mono"
    codec.sample_rate = RATE_HZ
    if mode == "w":
        codec.options = {"frame_size": str(BLOCK_SAMPLES)}
    return codec
