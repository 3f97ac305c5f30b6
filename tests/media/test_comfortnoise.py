from __future__ import annotations

import pytest

from rtc_server.media.comfortnoise import level_dbov


@pytest.mark.parametrize(("payload", "level"), [(b"\x00", 0), (b"\x40", -64), (b"\x7f\x10\x20", -127)])
def test_first_byte_is_the_level(payload: bytes, level: int) -> None:
    assert level_dbov(payload) == level


def test_top_bit_is_reserved_and_ignored() -> None:
    assert level_dbov(b"\xc0") == -64


def test_empty_payload_says_no_level() -> None:
    assert level_dbov(b"") is None
