"""Ogg: packets of several logical streams in one run of bytes, a page at a time (RFC 3533).

Sans-IO. A reader is fed whatever the wire brought, cut anywhere, and may come in at any point of the stream. Bytes that
are no page, and pages whose checksum is wrong, are passed over and counted; the next good page goes on.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

MAX_PAGE_BYTES = 65_307
MAX_FEED_BYTES = 65_536
"""What a reader looks at of one `feed`: its newest bytes. Room for the largest page, and for seconds of speech."""
MAX_UNFINISHED_BYTES = 61_440
"""What is kept of a packet that goes on in the next page; RFC 7845 section 6 asks nobody to play a longer one."""

_MAX_SEGMENTS = 255
_MAX_STREAMS = 4
_CAPTURE = b"OggS\0"
"""The capture pattern with the only version there is."""
_HEADER = struct.Struct("<4sBBqIIIB")
_CHECKSUM_AT = 22
_CONTINUED, _BOS, _EOS = 1, 2, 4
_NO_GRANULE = -1

_PATIENCE_BYTES = 8 * MAX_PAGE_BYTES
_PATIENCE_PER_BYTE = 4
"""How much is checked in vain for each byte that comes: a page may pretend to be a thousand times its size."""

_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


@dataclass(frozen=True, slots=True)
class OggPage:
    """What one page brings to an end."""

    serial: int
    packets: tuple[bytes, ...]
    """Those that end on this page, also where they began before it."""
    granule: int | None
    """The position at the end of the last of `packets`, in the codec's unit; None where no packet ends here."""
    bos: bool
    """The first page of a logical stream."""
    eos: bool
    """The last one."""
    gap: bool
    """A page or a packet of this logical stream is missing just before `packets`."""


@dataclass(slots=True)
class OggCounters:
    pages: int = 0
    bad_pages: int = 0
    """With a wrong checksum."""
    gaps: int = 0
    skipped_bytes: int = 0
    """Part of no page that could be read, or more than `MAX_FEED_BYTES` at once."""


@dataclass(slots=True)
class _Stream:
    next_sequence: int | None = None
    unfinished: bytes | None = None
    """The beginning of the packet that the last page did not finish; None where that is lost, or there is none."""


class OggReader:
    """One direction of a connection to its pages.

    Bounds: of one `feed` the newest `MAX_FEED_BYTES` are looked at, so that no message stalls its thread; between
    calls at most one page is kept, and for each of the four logical streams that began last one unfinished packet of at
    most `MAX_UNFINISHED_BYTES`. Work grows with the bytes fed, whatever they hold.
    """

    def __init__(self) -> None:
        self.counters = OggCounters()
        self._rest = b""
        self._streams: dict[int, _Stream] = {}
        self._patience_bytes = _PATIENCE_BYTES

    def feed(self, data: bytes) -> list[OggPage]:
        """The pages that end in `data`, in order. Never raises."""
        if len(data) > MAX_FEED_BYTES:
            self.counters.skipped_bytes += len(self._rest) + len(data) - MAX_FEED_BYTES
            self._rest, data = b"", data[-MAX_FEED_BYTES:]
        self._patience_bytes = min(self._patience_bytes + _PATIENCE_PER_BYTE * len(data), _PATIENCE_BYTES)
        buffer = self._rest + data
        pages: list[OggPage] = []
        at = 0
        while True:
            start, end = self._next_page(buffer, at)
            self.counters.skipped_bytes += start - at
            if end > len(buffer):
                self._rest = buffer[start:]
                return pages
            pages.append(self._read(buffer, start, end))
            at = end

    def _next_page(self, buffer: bytes, at: int) -> tuple[int, int]:
        """Where the next good page starts and ends; ends beyond the buffer where more has to come first."""
        while (start := buffer.find(_CAPTURE, at)) >= 0:
            end = _least_end(buffer, start)
            if end > len(buffer):
                return self._page_inside(buffer, start) or (start, end)
            if self._is_intact(buffer, start, end):
                return start, end
            self.counters.bad_pages += 1
            # The length of a damaged page can't be trusted, so the next one is looked for inside it as well.
            at = start + 1 if self._patience_bytes > 0 else end
        start = max(at, len(buffer) - len(_CAPTURE) + 1)
        return start, len(buffer) + 1

    def _page_inside(self, buffer: bytes, start: int) -> tuple[int, int] | None:
        """A good page inside one that is still waited for: the outer one was cut short, and must not hold up more."""
        inner = buffer.find(_CAPTURE, start + 1)
        if inner < 0 or self._patience_bytes <= 0:
            return None
        end = _least_end(buffer, inner)
        return (inner, end) if end <= len(buffer) and self._is_intact(buffer, inner, end) else None

    def _is_intact(self, buffer: bytes, start: int, end: int) -> bool:
        stated = int.from_bytes(buffer[start + _CHECKSUM_AT : start + _CHECKSUM_AT + 4], "little")
        if _checksum(buffer[start:end]) == stated:
            return True
        self._patience_bytes -= end - start
        return False

    def _read(self, buffer: bytes, start: int, end: int) -> OggPage:
        _, _, flags, granule, serial, sequence, _, segments = _HEADER.unpack_from(buffer, start)
        table = start + _HEADER.size
        packets, unfinished = _unlace(buffer[table : table + segments], buffer[table + segments : end])
        stream = self._stream(serial, bos=bool(flags & _BOS))
        gap = stream.next_sequence not in (None, sequence)
        begun = None if gap else stream.unfinished
        if not flags & _CONTINUED:
            gap = gap or begun is not None
        elif packets:
            packets[0:1] = [] if begun is None else [begun + packets[0]]
        elif unfinished is not None:
            unfinished = None if begun is None else begun + unfinished
        if unfinished is not None and len(unfinished) > MAX_UNFINISHED_BYTES:
            unfinished = None
        stream.unfinished = unfinished
        stream.next_sequence = (sequence + 1) & 0xFFFFFFFF
        self.counters.pages += 1
        self.counters.gaps += gap
        return OggPage(
            serial=serial,
            packets=tuple(packets),
            granule=None if granule == _NO_GRANULE else granule,
            bos=bool(flags & _BOS),
            eos=bool(flags & _EOS),
            gap=gap,
        )

    def _stream(self, serial: int, bos: bool) -> _Stream:
        if bos:
            self._streams.pop(serial, None)
        if serial not in self._streams:
            if len(self._streams) >= _MAX_STREAMS:
                del self._streams[next(iter(self._streams))]
            self._streams[serial] = _Stream()
        return self._streams[serial]


class OggWriter:
    """One logical stream to pages, numbered from 0. Each page is whole packets: none goes on in the next."""

    def __init__(self, serial: int) -> None:
        self._serial = serial
        self._sequence = 0

    def page(self, packets: Sequence[bytes], granule: int, *, bos: bool = False, eos: bool = False) -> bytes:
        """The next page.

        Args:
            packets: in order; together at most 255 segments of 255 bytes, of which each packet begins a new one.
            granule: the position at the end of the last packet, in the codec's unit.

        Raises:
            ValueError: the packets do not fit into one page.
        """
        lacing = b"".join(b"\xff" * (len(packet) // 255) + bytes([len(packet) % 255]) for packet in packets)
        if len(lacing) > _MAX_SEGMENTS:
            raise ValueError(f"cannot put {len(packets)} packets into one page: {len(lacing)} segments, 255 at most")
        flags = _BOS * bos | _EOS * eos
        header = _HEADER.pack(_CAPTURE[:4], 0, flags, granule, self._serial, self._sequence, 0, len(lacing))
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        page = b"".join((header, lacing, *packets))
        return page[:_CHECKSUM_AT] + _checksum(page).to_bytes(4, "little") + page[_CHECKSUM_AT + 4 :]


def _least_end(buffer: bytes, start: int) -> int:
    """Where the page ends, as far as its header is there to tell: beyond the buffer where it is not whole yet."""
    end = start + _HEADER.size
    if end > len(buffer):
        return end
    end += buffer[end - 1]
    if end > len(buffer):
        return end
    return end + sum(buffer[start + _HEADER.size : end])


def _unlace(lacing: bytes, body: bytes) -> tuple[list[bytes], bytes | None]:
    """The packets that end in `body`, and what is left for one that does not; RFC 3533 section 5."""
    packets: list[bytes] = []
    start = end = 0
    for segment_bytes in lacing:
        end += segment_bytes
        if segment_bytes < 255:
            packets.append(body[start:end])
            start = end
    return packets, body[start:] if lacing.endswith(b"\xff") else None


def _checksum(page: bytes) -> int:
    """CRC-32 with the checksum field as zeros, RFC 3533 section 6: highest bit first, nothing inverted.

    zlib has the same polynomial, lowest bit first and inverted; mirrored bytes make one out of the other.
    """
    blanked = page[:_CHECKSUM_AT] + b"\0\0\0\0" + page[_CHECKSUM_AT + 4 :]
    mirrored = zlib.crc32(blanked.translate(_MIRRORED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int.from_bytes(mirrored.to_bytes(4, "little").translate(_MIRRORED), "big")
