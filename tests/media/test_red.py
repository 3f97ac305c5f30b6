from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.media.red import MAX_COPIES, MAX_COPY_BYTES, MAX_OFFSET, Block, MalformedRed, unwrap, wrap

payload_types = st.integers(0, 127)
copies = st.lists(st.tuples(st.integers(1, MAX_OFFSET), st.binary(min_size=1, max_size=1023)), max_size=MAX_COPIES)


def test_bytes_are_those_of_the_standard() -> None:
    wrapped = wrap(111, b"now", [(960, b"before")])
    # 1 | 111, 960 << 10 | 6, 0 | 111
    assert wrapped == bytes([0xEF, 0x0F, 0x00, 0x06, 0x6F]) + b"before" + b"now"


def test_primary_alone_costs_one_byte() -> None:
    assert wrap(111, b"now") == b"\x6fnow"
    assert unwrap(b"\x6fnow") == [Block(111, 0, b"now")]


def test_primary_comes_first_then_copies_from_the_newest_to_the_oldest() -> None:
    blocks = unwrap(wrap(111, b"c", [(960, b"b"), (1920, b"a")]))
    assert blocks == [Block(111, 0, b"c"), Block(111, 960, b"b"), Block(111, 1920, b"a")]


def test_order_of_the_headers_on_the_wire_does_not_matter() -> None:
    newest_first = bytes([0xEF, 0x0F, 0x00, 0x01, 0xEF, 0x1E, 0x00, 0x01, 0x6F]) + b"bac"
    assert [block.payload for block in unwrap(newest_first)] == [b"c", b"b", b"a"]


def test_blocks_may_be_of_several_payload_types() -> None:
    mixed = bytes([0x80 | 13, 0x0F, 0x00, 0x01, 111]) + b"\x40" + b"now"
    assert unwrap(mixed) == [Block(111, 0, b"now"), Block(13, 960, b"\x40")]


def test_empty_copies_are_skipped_and_the_primary_may_be_empty() -> None:
    assert unwrap(bytes([0xEF, 0x0F, 0x00, 0x00, 0x6F])) == [Block(111, 0, b"")]


@pytest.mark.parametrize(
    "copy", [(0, b"x"), (-960, b"x"), (MAX_OFFSET + 1, b"x"), (960, b""), (960, bytes(MAX_COPY_BYTES + 1))]
)
def test_copy_that_does_not_fit_its_header_is_left_out(copy: tuple[int, bytes]) -> None:
    assert wrap(111, b"now", [copy]) == wrap(111, b"now")
    assert unwrap(wrap(111, b"now", [copy, (960, b"fits")]))[1:] == [Block(111, 960, b"fits")]


def test_greatest_copy_that_fits_comes_back_whole() -> None:
    greatest = (MAX_OFFSET, bytes(range(256)) * 3 + bytes(255))
    assert unwrap(wrap(127, b"", [greatest]))[1] == Block(127, *greatest)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "no primary"),
        (b"\xef\x0f\x00", "cut off after 3"),
        (b"\xef\x0f\x00\x06", "no primary"),
        (b"\xef\x0f\x00\x06\x6fshort", "6 bytes in 5"),
        (b"\xef\x0f\x00\x00" * (MAX_COPIES + 1) + b"\x6f", f"more than {MAX_COPIES}"),
        (b"\xff" * 1200, f"more than {MAX_COPIES}"),
    ],
)
def test_malformed_payload_is_refused_with_its_fault(data: bytes, complaint: str) -> None:
    with pytest.raises(MalformedRed, match=complaint):
        unwrap(data)


@given(payload_types, st.binary(max_size=1275), copies)
def test_what_was_wrapped_comes_back(payload_type: int, primary: bytes, earlier: list[tuple[int, bytes]]) -> None:
    first, *rest = unwrap(wrap(payload_type, primary, earlier))
    assert first == Block(payload_type, 0, primary)
    assert sorted(rest) == sorted(Block(payload_type, *copy) for copy in earlier)
    assert [block.timestamp_offset for block in rest] == sorted(offset for offset, _ in earlier)


@given(st.binary(max_size=1500))
def test_any_bytes_are_blocks_or_malformed(data: bytes) -> None:
    try:
        blocks = unwrap(data)
    except MalformedRed:
        return
    assert 1 <= len(blocks) <= 1 + MAX_COPIES
    assert sum(len(block.payload) for block in blocks) < len(data)
    assert all(0 <= block.timestamp_offset <= MAX_OFFSET and block.payload_type < 128 for block in blocks)


def test_good_payload_with_bytes_changed_is_blocks_or_malformed() -> None:
    rng = random.Random(5)
    good = wrap(111, rng.randbytes(80), [(960, rng.randbytes(70)), (1920, rng.randbytes(90))])
    refused = 0
    for _ in range(5000):
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(12)] = rng.randrange(256)
        try:
            unwrap(bytes(data[: rng.randint(0, len(data))]))
        except MalformedRed:
            refused += 1
    assert refused > 1000
