"""Opus at the engine's rate: libopus decodes and encodes 24 kHz mono directly, so nothing is resampled (RFC 6716).

A decoder or encoder belongs to one thread at a time. libopus releases the interpreter lock while it works.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_void_p

import numpy as np

from rtc_server.media import libopus, opuspacket
from rtc_server.media.frames import FloatSamples

_MAX_PACKET_S = 0.120
_MAX_PACKET_BYTES = 1275
_MAX_FRAMES = 48
_INAUDIBLE = np.float32(1e-6)
"""Added to what is encoded: digital silence drives libopus into denormal numbers, which take three times as long."""


class OpusError(ValueError):
    """libopus refused a packet, or a setting. The decoder or encoder stays usable."""


def _fail(what: str, code: int) -> OpusError:
    return OpusError(f"{what}: {libopus.error_text(code)}")


class OpusDecoder:
    """One stream of Opus packets to mono samples; stereo packets are mixed down by libopus.

    Args:
        sample_rate: 8000, 12000, 16000, 24000 or 48000.

    Raises:
        MissingLibrary: there is no libopus on this machine.
    """

    joins_packets = False

    def __init__(self, sample_rate: int = 24_000) -> None:
        self._library = libopus.load()
        self._decode_float = self._library.opus_decode_float
        error = c_int()
        self._state: int | None = self._library.opus_decoder_create(sample_rate, 1, ctypes.byref(error))
        if error.value or not self._state:
            raise _fail(f"cannot make a decoder for {sample_rate} Hz", error.value)
        self.sample_rate = sample_rate
        self._samples_per_ms = sample_rate / 1000
        self._grain = sample_rate // 400  # 2.5 ms: libopus conceals in multiples of it
        self._buffer = np.zeros(int(sample_rate * _MAX_PACKET_S), np.float32)
        self._buffer_address = self._buffer.ctypes.data
        self._parse = self._library.opus_packet_parse
        self._frame_sizes = (ctypes.c_int16 * _MAX_FRAMES)()
        self._frame_sizes_address = ctypes.addressof(self._frame_sizes)

    def decode(self, payload: bytes) -> FloatSamples:
        """The samples of the next packet; a new array.

        Raises:
            OpusError: the packet is corrupt. The decoder goes on with the packets behind it.
        """
        return self._run(payload, self._buffer.size, 0)

    def conceal(self, n_samples: int) -> FloatSamples:
        """Go on as the last packet sounded, fading. Gives `n_samples`, rounded up to a multiple of 2.5 ms."""
        wanted = -(-n_samples // self._grain) * self._grain
        if wanted <= self._buffer.size:
            return self._run(None, wanted, 0)
        parts = []
        while wanted > 0:
            parts.append(self._run(None, min(wanted, self._buffer.size), 0))
            wanted -= self._buffer.size
        return np.concatenate(parts)

    def recover(self, payload: bytes, n_samples: int) -> FloatSamples:
        """The `n_samples` that came before `payload`, out of its in-band FEC; to be called before decoding `payload`.

        `n_samples` is rounded up to a multiple of 2.5 ms, at most 120 ms. What the packet does not repeat is concealed.

        Raises:
            OpusError: the packet is corrupt.
        """
        wanted = min(-(-n_samples // self._grain) * self._grain, self._buffer.size)
        return self._run(payload, wanted, 1)

    def reset(self) -> None:
        """Forget the stream: what follows has nothing to do with what came before."""
        self._library.opus_decoder_ctl(c_void_p(self._state), c_int(libopus.RESET_STATE))

    def duration_samples(self, payload: bytes) -> int:
        """How many samples the packet holds; 0 for something that is no Opus packet by RFC 6716 section 3.4."""
        if self._parse(payload, len(payload), None, None, self._frame_sizes_address, None) <= 0:
            return 0
        return int(opuspacket.duration_ms(payload) * self._samples_per_ms)

    def has_fec(self, payload: bytes) -> bool:
        return opuspacket.has_fec(payload)

    def is_dtx(self, payload: bytes) -> bool:
        return opuspacket.is_dtx(payload)

    def _run(self, payload: bytes | None, room: int, fec: int) -> FloatSamples:
        size = len(payload) if payload is not None else 0
        if payload is not None and not size:
            raise OpusError("cannot decode an empty packet")
        count = self._decode_float(self._state, payload, size, self._buffer_address, room, fec)
        if count < 0:
            raise _fail(f"cannot decode a packet of {size} bytes", count)
        return self._buffer[:count].copy()

    def __del__(self) -> None:
        state, self._state = getattr(self, "_state", None), None
        if state:
            self._library.opus_decoder_destroy(state)


class OpusEncoder:
    """Mono speech to Opus packets, with in-band FEC for a lossy path.

    Two ways of coding, chosen by `expected_loss_pct`: at 0 the transform codec (CELT), which at these bitrates is as
    close to the original and takes a quarter of the time; above, the speech codec, which alone carries FEC. Packets of
    both may follow each other (RFC 6716 section 4.5).

    Args:
        sample_rate: 8000, 12000, 16000, 24000 or 48000.
        bitrate_bps: 500 to 512000. FEC needs about 24000 to be worth its name.
        complexity: 0 (least work) to 10.
        fec: repeat each packet's audio in the next one, as far as `expected_loss_pct` asks for it.
        expected_loss_pct: 0 to 100; what share of packets the peer loses.
        dtx: send next to nothing in pauses. Off by default: the agent's voice is a continuous stream. On, it is always
            the speech codec, which alone tells speech from noise.

    Raises:
        MissingLibrary: there is no libopus on this machine.
        OpusError: a setting is out of range.
    """

    DEFAULT_COMPLEXITY = 3

    def __init__(
        self,
        sample_rate: int = 24_000,
        bitrate_bps: int = 40_000,
        complexity: int = DEFAULT_COMPLEXITY,
        fec: bool = True,
        expected_loss_pct: int = 0,
        dtx: bool = False,
    ) -> None:
        self._library = libopus.load()
        self._encode_float = self._library.opus_encode_float
        error = c_int()
        self._state: int | None = self._library.opus_encoder_create(
            sample_rate, 1, libopus.APPLICATION_VOIP, ctypes.byref(error)
        )
        if error.value or not self._state:
            raise _fail(f"cannot make an encoder for {sample_rate} Hz", error.value)
        self.sample_rate = sample_rate
        self._input = np.zeros(sample_rate * 60 // 1000, np.float32)
        self._input_address = self._input.ctypes.data
        self._output = (ctypes.c_char * _MAX_PACKET_BYTES)()
        self._output_address = ctypes.addressof(self._output)
        self._output_view = memoryview(self._output).cast("B")
        self._set("complexity", libopus.SET_COMPLEXITY, complexity)
        self._set("fec", libopus.SET_INBAND_FEC, int(fec))
        self._set("dtx", libopus.SET_DTX, int(dtx))
        self._dtx = dtx
        self._in_pause = False
        self._bitrate_bps = self._expected_loss_pct = -1
        self.set_bitrate(bitrate_bps)
        self.set_expected_loss(expected_loss_pct)

    def encode(self, pcm: FloatSamples) -> bytes:
        """One packet for `pcm`: mono float32 in [-1, 1], 2.5, 5, 10, 20, 40 or 60 ms of it (480 samples are 20 ms).

        Empty, with DTX, where nothing needs to be sent: in pauses, between a packet that announces the pause and
        others that describe its noise, one in 420 ms.

        Raises:
            OpusError: the number of samples is none of these.
        """
        if pcm.size > self._input.size:
            raise OpusError(f"cannot encode {pcm.size} samples: more than 60 ms")
        np.add(pcm, _INAUDIBLE, out=self._input[: pcm.size])
        size = self._encode_float(self._state, self._input_address, pcm.size, self._output_address, _MAX_PACKET_BYTES)
        if size < 0:
            raise _fail(f"cannot encode {pcm.size} samples", size)
        payload = self._output_view[:size].tobytes()
        announced, self._in_pause = self._in_pause, self._dtx and opuspacket.is_dtx(payload)
        return b"" if announced and self._in_pause else payload

    def follow(self, expected_loss_pct: int, bitrate_bps: int) -> None:
        """Adapt to the path; costs nothing where nothing has changed."""
        if expected_loss_pct != self._expected_loss_pct:
            self.set_expected_loss(expected_loss_pct)
        if bitrate_bps != self._bitrate_bps:
            self.set_bitrate(bitrate_bps)

    def set_bitrate(self, bitrate_bps: int) -> None:
        self._set("bitrate_bps", libopus.SET_BITRATE, bitrate_bps)
        self._bitrate_bps = bitrate_bps

    def set_expected_loss(self, loss_pct: int) -> None:
        """How much redundancy in-band FEC carries follows from this; feed it from the peer's receiver reports."""
        self._set("expected_loss_pct", libopus.SET_PACKET_LOSS_PERC, loss_pct)
        # libopus chooses its mode by what it takes the signal for; there is no public way to name the mode itself.
        speech = loss_pct or self._dtx
        self._set("signal", libopus.SET_SIGNAL, libopus.SIGNAL_VOICE if speech else libopus.SIGNAL_MUSIC)
        self._expected_loss_pct = loss_pct

    @property
    def lookahead_samples(self) -> int:
        """The encoder's own delay at `sample_rate`."""
        value = c_int()
        self._library.opus_encoder_ctl(c_void_p(self._state), c_int(libopus.GET_LOOKAHEAD), ctypes.byref(value))
        return value.value

    def _set(self, name: str, request: int, value: int) -> None:
        code = self._library.opus_encoder_ctl(c_void_p(self._state), c_int(request), c_int(value))
        if code < 0:
            raise _fail(f"encoder {name}={value}", code)

    def __del__(self) -> None:
        state, self._state = getattr(self, "_state", None), None
        if state:
            self._library.opus_encoder_destroy(state)
