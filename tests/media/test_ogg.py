from __future__ import annotations

import itertools
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.media import ogg
from rtc_server.media.ogg import (
    MAX_FEED_BYTES,
    MAX_PAGE_BYTES,
    MAX_UNFINISHED_BYTES,
    OggPage,
    OggReader,
    OggWriter,
)

RECORDED = Path(__file__).parent.parent / "data" / "ws" / "ogg_pages_split_and_merged.hex"


def recorded_stream() -> bytes:
    """What a browser's recorder sent: the audio messages of the capture without their kind byte, put together."""
    lines = RECORDED.read_text().splitlines()
    return b"".join(bytes.fromhex(line[4:]) for line in lines if line.startswith("> 01"))


def checksum(page: bytes) -> int:
    """RFC 3533 section 6, one bit after the other."""
    register = 0
    for byte in page:
        register ^= byte << 24
        for _ in range(8):
            register = (register << 1) ^ (0x104C11DB7 if register & 0x80000000 else 0)
    return register


def raw_page(body: bytes, lacing: list[int], sequence: int, flags: int = 0, granule: int = 0, serial: int = 7) -> bytes:
    header = struct.pack("<4sBBqII", b"OggS", 0, flags, granule, serial, sequence)
    table = bytes([len(lacing), *lacing])
    return header + struct.pack("<I", checksum(header + bytes(4) + table + body)) + table + body


def chopped(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def read(*messages: bytes) -> list[OggPage]:
    reader = OggReader()
    return list(itertools.chain.from_iterable(reader.feed(message) for message in messages))


def packets_of(pages: list[OggPage]) -> list[bytes]:
    return [packet for page in pages for packet in page.packets]


def some_pages(count: int, serial: int = 7, size: int = 60) -> list[bytes]:
    writer = OggWriter(serial)
    noise = np.random.default_rng(serial)
    return [writer.page([noise.bytes(size), noise.bytes(3)], 960 * n, bos=n == 0) for n in range(count)]


def test_checksum_is_the_one_of_the_standard() -> None:
    page = OggWriter(3).page([b"one", b"two"], 99)
    assert struct.unpack_from("<I", page, 22)[0] == checksum(page[:22] + bytes(4) + page[26:])


def test_pages_of_a_recorder_are_read_and_written_as_they_were() -> None:
    stream = recorded_stream()
    pages = read(stream)
    writer = OggWriter(pages[0].serial)
    written = [writer.page(page.packets, page.granule or 0, bos=page.bos, eos=page.eos) for page in pages]
    assert b"".join(written) == stream
    assert [page.bos for page in pages] == [True] + [False] * (len(pages) - 1)
    assert [page.eos for page in pages] == [False] * (len(pages) - 1) + [True]
    assert not any(page.gap for page in pages)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 700), max_size=20), min_size=1, max_size=6),
    st.lists(st.integers(0, 20_000), max_size=12),
)
def test_pages_cut_anywhere_are_the_same_pages(sizes: list[list[int]], cuts: list[int]) -> None:
    writer = OggWriter(5)
    written = [[bytes([n % 256]) * size for n, size in enumerate(page)] for page in sizes]
    stream = b"".join(writer.page(packets, 960 * n, bos=n == 0) for n, packets in enumerate(written))
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pages = read(*(stream[start:end] for start, end in itertools.pairwise(edges)))
    assert [list(page.packets) for page in pages] == written
    assert pages == read(stream)
    assert pages == read(*chopped(stream, 1))


def test_packet_goes_on_over_pages() -> None:
    packet = np.random.default_rng(1).bytes(255 * 4 + 10)
    stream = (
        raw_page(b"abc" + packet[:510], [3, 255, 255], 0, flags=2, granule=1)
        + raw_page(packet[510:765], [255], 1, flags=1, granule=-1)
        + raw_page(packet[765:] + b"xyz", [255, 10, 3], 2, flags=1, granule=3)
    )
    pages = read(stream)
    assert [page.packets for page in pages] == [(b"abc",), (), (packet, b"xyz")]
    assert [page.granule for page in pages] == [1, None, 3]
    assert not any(page.gap for page in pages)


def test_packet_of_whole_segments_ends_with_an_empty_one() -> None:
    packet = bytes(510)
    page = OggWriter(1).page([packet, b"", b"x"], 0)
    assert page[26:32] == bytes([5, 255, 255, 0, 0, 1])
    assert packets_of(read(page)) == [packet, b"", b"x"]


def test_packet_whose_beginning_was_missed_is_left_out() -> None:
    stream = raw_page(bytes(260) + b"whole", [255, 5, 5], 41, flags=1) + raw_page(b"next", [4], 42)
    assert packets_of(read(stream)) == [b"whole", b"next"]
    stream = raw_page(bytes(255), [255], 41, flags=1) + raw_page(b"end" + b"whole", [3, 5], 42, flags=1)
    assert packets_of(read(stream)) == [b"whole"]


def test_missing_page_is_told_and_takes_the_packet_that_went_over_it() -> None:
    first = raw_page(b"abc" + bytes(255), [3, 255], 0)
    third = raw_page(b"end" + b"whole", [3, 5], 2, flags=1)
    pages = read(first, third)
    assert [page.packets for page in pages] == [(b"abc",), (b"whole",)]
    assert [page.gap for page in pages] == [False, True]


def test_packet_that_is_never_finished_is_a_gap() -> None:
    pages = read(raw_page(bytes(255), [255], 0, granule=-1), raw_page(b"new", [3], 1))
    assert packets_of(pages) == [b"new"]
    assert [page.gap for page in pages] == [False, True]


def test_page_numbers_begin_again_after_the_last() -> None:
    reader = OggReader()
    pages = reader.feed(raw_page(b"a", [1], 0xFFFFFFFF) + raw_page(b"b", [1], 0))
    assert packets_of(pages) == [b"a", b"b"]
    assert not any(page.gap for page in pages)
    writer = OggWriter(1)
    writer._sequence = 0xFFFFFFFF
    assert not any(page.gap for page in read(writer.page([b"a"], 0), writer.page([b"b"], 0)))


def test_streams_side_by_side_do_not_disturb_one_another() -> None:
    packet = bytes(range(200)) * 2
    pages = read(
        raw_page(packet[:255], [255], 0, flags=2, granule=-1, serial=1),
        raw_page(b"other", [5], 0, flags=2, serial=2),
        raw_page(packet[255:], [145], 1, flags=1, serial=1),
        raw_page(b"more", [4], 1, serial=2),
    )
    assert [(page.serial, page.packets) for page in pages] == [
        (1, ()),
        (2, (b"other",)),
        (1, (packet,)),
        (2, (b"more",)),
    ]
    assert not any(page.gap for page in pages)


def test_stream_that_begins_again_has_no_gap() -> None:
    pages = read(*some_pages(3), *some_pages(2))
    assert [page.bos for page in pages] == [True, False, False, True, False]
    assert not any(page.gap for page in pages)


def test_what_is_no_page_is_passed_over_and_counted() -> None:
    first, second, third = some_pages(3)
    reader = OggReader()
    pages = reader.feed(first + b"Oggnoise" + second + b"OggS" + third + b"Og")
    assert packets_of(pages) == packets_of(read(first, second, third))
    assert reader.counters.skipped_bytes == 8 + 4
    assert reader.feed(b"x" + first) == read(first)
    assert reader.counters.skipped_bytes == 8 + 4 + 3


def test_later_version_of_the_format_is_no_page() -> None:
    page = bytearray(some_pages(1)[0])
    page[4] = 1
    assert read(bytes(page)) == []


@pytest.mark.parametrize("at", [5, 6, 14, 18, 22, 26, 27, 40])
def test_damaged_page_costs_itself_and_no_other(at: int) -> None:
    first, second, third = some_pages(3)
    damaged = bytearray(second)
    damaged[at] ^= 0x11
    reader = OggReader()
    pages = reader.feed(first + bytes(damaged) + third)
    assert packets_of(pages) == packets_of(read(first, third))
    assert pages[-1].gap
    assert reader.counters.gaps == 1
    assert reader.counters.skipped_bytes == len(second)


@pytest.mark.parametrize("keep_bytes", [4, 5, 10, 26, 27, 28, 40])
def test_page_that_was_cut_short_holds_up_nothing_behind_it(keep_bytes: int) -> None:
    first, second, third, fourth = some_pages(4)
    reader = OggReader()
    reader.feed(first)
    pages = [page for message in (second[:keep_bytes], third, fourth) for page in reader.feed(message)]
    assert packets_of(pages) == packets_of(read(third, fourth))


def test_damaged_length_does_not_make_a_live_stream_wait_for_64_kilobytes() -> None:
    first, second, third = some_pages(3)
    damaged = second[:26] + b"\xff" + b"\xff" * 255 + second[27:]
    reader = OggReader()
    reader.feed(first)
    assert reader.feed(damaged) == []
    assert packets_of(reader.feed(third)) == packets_of(read(third))


def test_capture_pattern_inside_a_packet_means_nothing() -> None:
    inner = OggWriter(9).page([b"not to be seen"], 0)
    writer = OggWriter(1)
    stream = writer.page([b"a" + inner[:-1] + b"b"], 0) + writer.page([b"c" + inner[:-1] + b"d"], 1)
    assert [page.serial for page in read(stream)] == [1, 1]
    assert [page.serial for page in read(*chopped(stream, 7))] == [1, 1]


def test_packet_without_end_is_given_up() -> None:
    reader = OggReader()
    n_pages = MAX_UNFINISHED_BYTES // 25_500 + 3
    for sequence in range(n_pages):
        reader.feed(raw_page(bytes(25_500), [255] * 100, sequence, flags=min(sequence, 1), granule=-1))
        assert len(reader._streams[7].unfinished or b"") <= MAX_UNFINISHED_BYTES
    pages = reader.feed(raw_page(b"end" + b"whole", [3, 5], n_pages, flags=1))
    assert packets_of(pages) == [b"whole"]


def test_streams_without_end_take_no_more_memory() -> None:
    reader = OggReader()
    for serial in range(8):
        reader.feed(raw_page(bytes(25_500), [255] * 100, 0, granule=-1, serial=serial))
    kept = [stream.unfinished for stream in reader._streams.values()]
    assert sum(len(unfinished or b"") for unfinished in kept) == 4 * 25_500


def test_of_a_message_that_is_too_large_the_newest_is_read() -> None:
    pages = some_pages(2000, size=250)
    reader = OggReader()
    got = reader.feed(b"".join(pages))
    assert MAX_FEED_BYTES - 2 * len(pages[0]) < sum(len(pages[-1]) for _ in got) <= MAX_FEED_BYTES
    assert got[-1] == read(pages[-1])[-1]
    assert reader.counters.skipped_bytes == sum(map(len, pages)) - len(got) * len(pages[-1])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=60), st.sampled_from([b"OggS", b"OggS\0", *some_pages(3)])), max_size=30))
def test_no_bytes_raise_or_pile_up(messages: list[bytes]) -> None:
    reader = OggReader()
    for message in messages:
        reader.feed(message)
        assert len(reader._rest) < MAX_PAGE_BYTES
    assert reader.counters.pages <= len(messages)


@pytest.mark.parametrize("bait", [b"OggS\0", b"OggS\0\0" + bytes(20) + b"\x01", b"OggS\0" + b"\xff" * 22])
@pytest.mark.parametrize("message_bytes", [5, 1000, 65_536])
def test_pages_that_pretend_to_be_long_cost_no_more_than_their_bytes(
    bait: bytes, message_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked_bytes = 0

    def counted(page: bytes) -> int:
        nonlocal checked_bytes
        checked_bytes += len(page)
        return -1

    monkeypatch.setattr(ogg, "_checksum", counted)
    reader = OggReader()
    total_bytes = 300_000
    for message in chopped((bait * (total_bytes // len(bait) + 1))[:total_bytes], message_bytes):
        reader.feed(message)
    assert checked_bytes <= 6 * total_bytes + 9 * MAX_PAGE_BYTES


def test_what_does_not_fit_into_a_page_is_refused() -> None:
    writer = OggWriter(1)
    assert len(writer.page([bytes(255 * 254)], 0)) <= MAX_PAGE_BYTES
    with pytest.raises(ValueError, match="256 segments"):
        writer.page([bytes(255 * 255)], 0)
