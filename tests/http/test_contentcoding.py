from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.http.contentcoding import compressed, wants_gzip


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("x-gzip", True),
        ("gzip, deflate, br, zstd", True),
        ("br;q=1.0, gzip;q=0.8, *;q=0.1", True),
        ("*", True),
        ("deflate", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("gzip;q=0, *", False),
        ("*;q=0", False),
        ("identity;q=0, *", True),
        ("identity, gzip", True),
        ("identity;q=1, gzip;q=0.5", False),
        ("identity;q=0.5, gzip;q=1", True),
        ("gzip;q=much", False),
        ("gzip;q=2", False),
        ("gzip;q=nan", False),
        (" gzip ; q=0.5 ", True),
        (",,;q=,gzip", True),
    ],
)
def test_a_client_gets_what_it_says_that_it_takes(header: str, wanted: bool) -> None:
    assert wants_gzip(header) is wanted


@given(st.text())
def test_no_header_is_too_odd(header: str) -> None:
    wants_gzip(header)


def test_the_same_bytes_come_out_each_time_and_unpack_to_what_went_in() -> None:
    body = b"export const answer = 42;\n" * 100
    packed = compressed(body)
    assert packed is not None and packed == compressed(body)
    assert gzip.decompress(packed) == body and len(packed) < len(body) / 5


def test_what_grows_is_left_as_it_is() -> None:
    assert compressed(b"") is None
    assert compressed(bytes(range(256))) is None
