from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.transports.ratelimit import RateLimit


def test_burst_is_allowed_once_and_refills_with_time() -> None:
    limit = RateLimit(per_second=10, burst=5)
    assert [limit.allow(0.0) for _ in range(7)] == [True] * 5 + [False] * 2
    assert limit.allow(0.1) and not limit.allow(0.1)
    assert [limit.allow(100.0) for _ in range(6)] == [True] * 5 + [False]


def test_asking_whether_there_is_a_token_takes_none() -> None:
    limit = RateLimit(per_second=10, burst=1)
    assert limit.ready(0.0) and limit.ready(0.0) and limit.allow(0.0)
    assert not limit.ready(0.0) and not limit.allow(0.0)
    assert limit.ready(0.1) and not limit.ready(0.1, tokens=1.5) and limit.allow(0.1)


def test_what_was_done_beyond_the_tokens_is_owed() -> None:
    limit = RateLimit(per_second=10, burst=5)
    limit.take(8)
    assert limit.left(0.0) == -3 and not limit.allow(0.3)
    assert limit.left(0.4) == pytest.approx(1) and limit.left(100.0) == 5


@given(st.lists(st.floats(0, 0.2), min_size=1, max_size=200))
def test_never_more_than_rate_and_burst_allow(gaps: list[float]) -> None:
    limit = RateLimit(per_second=50, burst=10)
    now, allowed = 0.0, 0
    for gap in gaps:
        now += gap
        allowed += limit.allow(now)
    assert allowed <= 10 + 50 * now + 1
