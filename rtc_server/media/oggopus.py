"""Opus in Ogg, as a live stream at the engine's rate (RFC 7845): one of them each way on a socket.

Sans-IO. RFC 7845 counts time in samples at 48 kHz ("granules") whatever the decoder's rate is; so does this file where
a name says so.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from rtc_server.media import libopus, opuspacket
from rtc_server.media.frames import PACKET_SAMPLES, SAMPLE_RATE, SAMPLES_PER_MS, FloatSamples
from rtc_server.media.ogg import OggCounters, OggPage, OggReader, OggWriter
from rtc_server.media.opus import OpusDecoder, OpusEncoder, OpusError

MAX_FEED_MS = 1080.0
"""What is decoded of one message: a live stream's consumer queues a second, and hears a frame."""
GRANULES_PER_MS = 48
GRANULES_PER_SAMPLE = GRANULES_PER_MS // SAMPLES_PER_MS

_HEAD_MAGIC, _TAGS_MAGIC = b"OpusHead", b"OpusTags"
_HEADERS = (_HEAD_MAGIC, _TAGS_MAGIC)
"""No audio packet can begin like these: as Opus they would be longer than 120 ms."""
_HEAD = struct.Struct("<8sBBHIhB")
_SHORTEST_PACKET_MS = 2.5
_MAX_CONCEALED_MS = 120.0
_MAX_FOREIGN = 8
_NOTHING = np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True)
class OpusHead:
    """The identification header, RFC 7845 section 5.1."""

    channels: int = 1
    pre_skip_granules: int = 0
    """How much of the decoder's first output is not meant to be heard."""
    input_rate_hz: int = SAMPLE_RATE
    """What was encoded; of no meaning for decoding."""
    output_gain: float = 1.0
    """What the decoded samples are to be multiplied by."""
    opus_streams: int = 1
    """How many Opus packets stand in each Ogg packet; one or two channels are one stream."""

    @classmethod
    def decode(cls, packet: bytes) -> OpusHead | None:
        """None for a packet that is no such header, or of a version that cannot be read."""
        if len(packet) < _HEAD.size or not packet.startswith(_HEAD_MAGIC):
            return None
        _, version, channels, pre_skip, rate_hz, gain_q8_db, family = _HEAD.unpack_from(packet)
        if version > 15:
            return None
        streams = 1 if family == 0 else packet[_HEAD.size] if len(packet) > _HEAD.size else channels
        return cls(channels, pre_skip, rate_hz, 10 ** (gain_q8_db / 256 / 20), streams)

    def encode(self) -> bytes:
        """Mapping family 0, without output gain."""
        return _HEAD.pack(_HEAD_MAGIC, 1, self.channels, self.pre_skip_granules, self.input_rate_hz, 0, 0)


@dataclass(slots=True)
class OggOpusCounters:
    streams: int = 0
    """Begun, with a header or without."""
    unsupported_streams: int = 0
    """With more than one Opus stream in a packet (surround sound): nothing of them is heard."""
    packets: int = 0
    bad_packets: int = 0
    concealed_samples: int = 0
    """Made up for bad packets and missing pages."""
    dropped_samples: int = 0
    """Not decoded, because one `feed` held more than the bound."""
    decoded_ms: float = 0.0
    """Work: good packets, bad ones and concealment; each packet counts for 2.5 ms at least."""


class OggOpusReader:
    """Ogg pages, cut anywhere, to mono samples at 24 kHz; whatever comes is heard as far as it can be.

    A stream that starts mid-way, or whose header is lost, starts by itself: each packet says how it is to be decoded.
    A stream with another serial number, or with a new header, starts anew. Logical streams that are no Opus are passed
    over. Where pages are missing, the time that their neighbours tell of is concealed.

    Bound: one `feed` gives at most `max_ms` of sound, rounded up to a whole packet, and 120 ms of concealment; of more
    sound than that the oldest is not decoded, and of more bytes than `ogg.MAX_FEED_BYTES` the oldest are not even
    looked at. Not thread-safe.

    Raises:
        MissingLibrary: there is no libopus on this machine.
    """

    def __init__(self) -> None:
        self.counters = OggOpusCounters()
        self._ogg = OggReader()
        self._decoder = OpusDecoder(SAMPLE_RATE)
        self._serial: int | None = None
        self._foreign: dict[int, None] = {}
        self._concealable_ms = _MAX_CONCEALED_MS
        self._begin(OpusHead())

    @property
    def page_counters(self) -> OggCounters:
        return self._ogg.counters

    def feed(self, data: bytes, max_ms: float = MAX_FEED_MS) -> FloatSamples:
        """What can be heard by now of all that was fed, and was not given out before: [n] samples. Never raises.

        Args:
            max_ms: nothing is decoded for 0 or less.
        """
        pages = [page for page in self._ogg.feed(data) if self._is_opus(page)]
        self._concealable_ms = min(_MAX_CONCEALED_MS, max_ms)
        too_old = self._too_old(pages, max_ms)
        sound = [self._play(page, count) for page, count in zip(pages, too_old, strict=True)]
        return np.concatenate(sound) if sound else _NOTHING

    def _too_old(self, pages: list[OggPage], room_ms: float) -> list[int]:
        """How many packets of each page came before the newest `room_ms`."""
        counts = []
        for page in reversed(pages):
            count = len(page.packets)
            while count and room_ms > 0:
                count -= 1
                room_ms -= max(opuspacket.duration_ms(page.packets[count]), _SHORTEST_PACKET_MS)
            counts.append(count)
        return counts[::-1]

    def _is_opus(self, page: OggPage) -> bool:
        if page.bos:
            self._foreign.pop(page.serial, None)
            first = page.packets[0] if page.packets else b""
            head = OpusHead.decode(first)
            unsupported = head is not None and head.opus_streams != 1
            self.counters.unsupported_streams += unsupported
            if unsupported or not first.startswith(_HEAD_MAGIC):
                self._foreign[page.serial] = None
                if len(self._foreign) > _MAX_FOREIGN:
                    del self._foreign[next(iter(self._foreign))]
        return page.serial not in self._foreign

    def _begin(self, head: OpusHead) -> None:
        self._decoder.reset()
        self._to_skip_samples = head.pre_skip_granules // GRANULES_PER_SAMPLE
        self._gain = head.output_gain
        self._position: int | None = None
        self._packet_ms = 0.0  # how long the last good packet was; 0 before the first

    def _play(self, page: OggPage, too_old: int) -> FloatSamples:
        if page.bos or page.serial != self._serial:
            head = OpusHead.decode(page.packets[0]) if page.bos else None
            self._begin(head or OpusHead())
            self._serial = page.serial
            self.counters.streams += 1
        if too_old:  # the packets of a page are alike
            dropped_ms = too_old * opuspacket.duration_ms(page.packets[0])
            self.counters.dropped_samples += int(dropped_ms * SAMPLES_PER_MS)
        packets = [packet for packet in page.packets[too_old:] if not packet.startswith(_HEADERS)]
        surplus = self._advance(page.granule, sum(map(opuspacket.duration_ms, packets)))
        sound = [self._conceal(-surplus / GRANULES_PER_MS)] if page.gap and not too_old else []
        sound += [self._decode(packet) for packet in packets]
        return self._finish(np.concatenate(sound) if sound else _NOTHING, surplus if page.eos else 0)

    def _advance(self, granule: int | None, duration_ms: float) -> int:
        """How many granules more the packets last than the page's position allows; below 0: something is missing."""
        if self._position is None:
            self._position = granule
            return 0
        ends_at = self._position + int(duration_ms * GRANULES_PER_MS)
        self._position = ends_at if granule is None else granule
        return ends_at - self._position

    def _decode(self, packet: bytes) -> FloatSamples:
        duration_ms = opuspacket.duration_ms(packet)
        self.counters.packets += 1
        self.counters.decoded_ms += max(duration_ms, _SHORTEST_PACKET_MS)
        if duration_ms:
            try:
                sound = self._decoder.decode(packet)
            except OpusError:
                pass
            else:
                self._packet_ms = duration_ms
                return sound
        self.counters.bad_packets += 1
        return self._conceal(duration_ms or self._packet_ms)

    def _conceal(self, duration_ms: float) -> FloatSamples:
        duration_ms = min(duration_ms, self._concealable_ms)
        if duration_ms <= 0 or not self._packet_ms:
            return _NOTHING
        self._concealable_ms -= duration_ms
        self.counters.decoded_ms += duration_ms
        sound = self._decoder.conceal(int(duration_ms * SAMPLES_PER_MS))
        self.counters.concealed_samples += sound.size
        return sound

    def _finish(self, sound: FloatSamples, trimmed_granules: int) -> FloatSamples:
        """Pre-skip, end trimming and output gain: RFC 7845 sections 4.2, 4.4 and 5.1."""
        if trimmed_granules > 0:
            sound = sound[: max(0, sound.size - trimmed_granules // GRANULES_PER_SAMPLE)]
        if self._to_skip_samples:
            skipped = min(self._to_skip_samples, sound.size)
            self._to_skip_samples -= skipped
            sound = sound[skipped:]
        if self._gain != 1:
            sound = np.clip(sound * np.float32(self._gain), -1, 1)
        return sound


class OggOpusWriter:
    """Mono samples at 24 kHz to one Ogg Opus stream that is heard as it grows: each call gives whole pages.

    The transform codec without FEC: a socket loses nothing. Not thread-safe.

    Args:
        bitrate_bps: 500 to 512000.
        serial: of the logical stream; a socket carries one, so any number will do.

    Raises:
        MissingLibrary: there is no libopus on this machine.
        OpusError: the bitrate is out of range.
    """

    def __init__(self, bitrate_bps: int = 40_000, serial: int = 1) -> None:
        self._encoder = OpusEncoder(SAMPLE_RATE, bitrate_bps, fec=False)
        self._ogg = OggWriter(serial)
        self._granule = 0

    def encode(self, pcm: FloatSamples) -> bytes:
        """One page of 20 ms packets for `pcm`, [n * 480] samples in [-1, 1]; in front of the first the two headers.

        Raises:
            OpusError: the samples are no whole packets.
        """
        packets = [self._encoder.encode(pcm[at : at + PACKET_SAMPLES]) for at in range(0, pcm.size, PACKET_SAMPLES)]
        headers = b"" if self._granule else self._headers()
        self._granule += pcm.size * GRANULES_PER_SAMPLE
        return headers + self._ogg.page(packets, self._granule)

    def _headers(self) -> bytes:
        head = OpusHead(pre_skip_granules=self._encoder.lookahead_samples * GRANULES_PER_SAMPLE)
        vendor = libopus.version().encode()
        tags = _TAGS_MAGIC + struct.pack("<I", len(vendor)) + vendor + struct.pack("<I", 0)  # no comments
        return self._ogg.page([head.encode()], 0, bos=True) + self._ogg.page([tags], 0)
