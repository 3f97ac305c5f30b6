"""RFC 4028, as either end and in either role."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.transports.sip.dialog.sessiontimer import Refusal, SessionTimer, refusal_of
from rtc_server.transports.sip.message.message import Headers, Request, Response
from tests.transports.sip.transaction.virtualtime import VirtualTime

ALLOW = "INVITE, ACK, BYE, CANCEL, UPDATE"
KNOWS = {"Supported": "timer"}


class End:
    """A session timer, and what it asks of its call."""

    def __init__(self, time: VirtualTime, session_expires_s: int = 1800, min_se_s: int = 90) -> None:
        self.min_se_s = min_se_s
        self.refreshes: list[tuple[float, str]] = []
        self.expired_at_s: list[float] = []
        self._time = time
        self.timer = SessionTimer(
            time.timers,
            lambda method: self.refreshes.append((round(time.now_s, 3), method)),
            lambda: self.expired_at_s.append(round(time.now_s, 3)),
            session_expires_s=session_expires_s,
            min_se_s=min_se_s,
        )

    def answer(self, headers: dict[str, str] | None = None, method: str = "INVITE") -> dict[str, str]:
        """The other end's request, accepted."""
        request = _request(headers or {}, method)
        assert refusal_of(request, self.min_se_s) is None
        return dict(self.timer.answer_headers(request))

    def answered(self, **headers: str) -> None:
        """Ours, accepted."""
        self.timer.on_answer(_response(200, {name.replace("_", "-"): value for name, value in headers.items()}))

    def asks(self) -> dict[str, str]:
        return dict(self.timer.request_headers())


@pytest.fixture
def end(time: VirtualTime) -> End:
    return End(time)


def _request(headers: dict[str, str], method: str = "INVITE") -> Request:
    return Request(method, "sip:agent@192.0.2.10", _headers(headers))


def _response(status: int, headers: dict[str, str]) -> Response:
    return Response(status, "Whatever", _headers(headers))


def _headers(lines: dict[str, str]) -> Headers:
    headers = Headers()
    for name, value in lines.items():
        headers.add(name, value)
    return headers


# ---- a session that is too short -------------------------------------------------------------------------------------


def test_a_session_of_less_than_90_seconds_is_refused_with_what_would_do(end: End) -> None:
    request = _request({**KNOWS, "Session-Expires": "60"})
    assert refusal_of(request) == Refusal(422, [("Min-SE", "90")])
    assert end.answer({**KNOWS, "Session-Expires": "90", "Min-SE": "90"})["Session-Expires"] == "90;refresher=uac"


def test_the_limit_is_a_setting_that_may_not_be_below_90() -> None:
    request = _request({**KNOWS, "Session-Expires": "100"})
    assert refusal_of(request, 120) == Refusal(422, [("Min-SE", "120")])
    assert refusal_of(_request({**KNOWS, "Session-Expires": "60"}), 10) == Refusal(422, [("Min-SE", "90")])


def test_a_client_without_timers_is_not_refused_for_what_a_proxy_has_put_in(end: End, time: VirtualTime) -> None:
    assert end.answer({"Session-Expires": "60;refresher=uac"}) == {"Session-Expires": "90;refresher=uas"}
    time.advance(45)
    assert end.refreshes == [(45.0, "INVITE")]


@pytest.mark.parametrize(
    "headers",
    [{"Session-Expires": "soon"}, {"Session-Expires": "90;refresher=me"}, {"Session-Expires": "90", "Min-SE": "-1"}],
)
def test_what_is_no_number_is_refused_with_400(headers: dict[str, str]) -> None:
    assert refusal_of(_request(headers)) == Refusal(400, [])


# ---- as the end that is asked ----------------------------------------------------------------------------------------


def test_who_asks_for_a_timer_and_names_nobody_refreshes(end: End, time: VirtualTime) -> None:
    headers = end.answer({**KNOWS, "Session-Expires": "600"})
    assert headers == {"Session-Expires": "600;refresher=uac", "Require": "timer"}
    assert not end.timer.refreshing
    time.advance(567)
    assert not end.refreshes
    assert not end.expired_at_s
    time.advance(1)
    assert end.expired_at_s == [568.0]  # 32 s before the session expires
    assert len(time.timers) == 0


def test_an_update_every_45_seconds_keeps_a_session_of_90_alive_until_they_stop(end: End, time: VirtualTime) -> None:
    asked = {**KNOWS, "Session-Expires": "90;refresher=uac"}
    end.answer({**asked, "Min-SE": "90"})
    for _ in range(5):
        time.advance(45)
        headers = end.answer(asked, "UPDATE")
        assert headers == {"Session-Expires": "90;refresher=uac", "Require": "timer"}
    assert time.now_s > 180
    assert not end.expired_at_s
    time.advance(100)
    assert end.expired_at_s == [225.0 + 60.0]  # a third before the session expires
    assert not end.refreshes


def test_asked_to_refresh_we_do_so_half_way_through(end: End, time: VirtualTime) -> None:
    headers = end.answer({**KNOWS, "Session-Expires": "90;refresher=uas", "Allow": ALLOW})
    assert headers == {"Session-Expires": "90;refresher=uas", "Require": "timer"}
    for second in (45.0, 90.0, 135.0, 180.0):
        time.advance(45)
        assert end.refreshes[-1] == (second, "UPDATE")
        assert end.asks()["Session-Expires"] == "90;refresher=uac"
        end.answered(Session_Expires="90;refresher=uac", Require="timer")
    assert len(end.refreshes) == 4
    assert not end.expired_at_s


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [
        ({"Session-Expires": "7200;refresher=uac"}, "1800;refresher=uac"),
        ({"Session-Expires": "7200;refresher=uac", "Min-SE": "3600"}, "3600;refresher=uac"),
        ({"Session-Expires": "4294967295", "Min-SE": "4294967295"}, "86400;refresher=uac"),
        ({"Session-Expires": "1800"}, "1800;refresher=uac"),
        ({}, "1800;refresher=uas"),
        ({"Min-SE": "2400"}, "2400;refresher=uas"),
    ],
)
def test_what_is_agreed_lies_between_what_both_can_live_with(end: End, asked: dict[str, str], agreed: str) -> None:
    assert end.answer({**KNOWS, **asked})["Session-Expires"] == agreed


def test_a_request_that_requires_timers_knows_them(end: End) -> None:
    assert end.answer({"Require": "timer", "Session-Expires": "90"})["Require"] == "timer"


# ---- as the end that asks --------------------------------------------------------------------------------------------


def test_our_first_request_asks_for_half_an_hour_and_leaves_the_rest_open(end: End) -> None:
    assert end.asks() == {"Session-Expires": "1800", "Min-SE": "90"}


@pytest.mark.parametrize(("allow", "method"), [(ALLOW, "UPDATE"), ("INVITE, ACK, BYE", "INVITE"), (None, "INVITE")])
def test_the_answer_makes_us_refresh_as_the_other_end_allows(
    end: End, time: VirtualTime, allow: str | None, method: str
) -> None:
    end.answered(Session_Expires="1800;refresher=uac", **({} if allow is None else {"Allow": allow}))
    time.advance(900)
    assert end.refreshes == [(900.0, method)]


def test_the_answer_makes_the_other_end_refresh(end: End, time: VirtualTime) -> None:
    end.answered(Session_Expires="300;refresher=uas", Require="timer")
    assert end.asks()["Session-Expires"] == "300;refresher=uas"
    time.advance(150)
    assert end.answer({**KNOWS, "Session-Expires": "300;refresher=uac"}, "UPDATE")["Session-Expires"] == (
        "300;refresher=uac"
    )
    time.advance(300)
    assert end.expired_at_s == [150.0 + 268.0]
    assert not end.refreshes


def test_an_answer_that_names_nobody_or_too_little_leaves_it_to_us(end: End, time: VirtualTime) -> None:
    end.answered(Session_Expires="1")
    time.advance(15)
    assert end.refreshes == [(15.0, "INVITE")]


def test_a_422_raises_what_we_ask_for(end: End) -> None:
    assert end.timer.on_too_small(_response(422, {"Min-SE": "3600"}))
    assert end.asks() == {"Session-Expires": "3600", "Min-SE": "3600"}
    assert end.timer.on_too_small(_response(422, {"Min-SE": "4000"}))
    end.answered(Session_Expires="4000;refresher=uac")
    assert end.asks() == {"Session-Expires": "4000;refresher=uac", "Min-SE": "4000"}


@pytest.mark.parametrize("headers", [{}, {"Min-SE": "90"}, {"Min-SE": "1800"}, {"Min-SE": "x"}, {"Min-SE": "99999999"}])
def test_a_422_that_asks_for_nothing_new_is_no_reason_to_try_again(end: End, headers: dict[str, str]) -> None:
    assert not end.timer.on_too_small(_response(422, headers))
    assert end.asks() == {"Session-Expires": "1800", "Min-SE": "90"}


def test_the_other_ends_minimum_is_remembered(end: End) -> None:
    end.answer({**KNOWS, "Session-Expires": "200;refresher=uas", "Min-SE": "200"})
    assert end.asks() == {"Session-Expires": "200;refresher=uac", "Min-SE": "200"}


# ---- refreshes that fail ---------------------------------------------------------------------------------------------


def test_a_refresh_without_success_is_tried_again_until_the_session_expires(end: End, time: VirtualTime) -> None:
    end.answered(Session_Expires="1800;refresher=uac", Allow=ALLOW)
    time.advance(1800)
    assert [second for second, _ in end.refreshes] == [
        900.0,
        1334.0,
        1551.0,
        1659.5,
        1713.75,
        1740.875,
        1754.438,
        1761.219,
    ]
    assert end.expired_at_s == [1768.0]
    assert len(time.timers) == 0


def test_a_refresh_that_is_late_but_succeeds_counts_from_then_on(end: End, time: VirtualTime) -> None:
    end.answered(Session_Expires="90;refresher=uac", Allow=ALLOW)
    time.advance(55)
    end.answered(Session_Expires="90;refresher=uac")
    time.advance(44)
    assert [second for second, _ in end.refreshes] == [45.0, 52.5]
    time.advance(1)
    assert [second for second, _ in end.refreshes] == [45.0, 52.5, 100.0]
    assert not end.expired_at_s


# ---- roles change with each refresh ----------------------------------------------------------------------------------


def test_each_refresh_may_change_who_is_to_refresh(end: End, time: VirtualTime) -> None:
    end.answer({**KNOWS, "Session-Expires": "90;refresher=uac", "Allow": ALLOW})
    time.advance(30)
    end.answer({**KNOWS, "Session-Expires": "90;refresher=uas"}, "UPDATE")
    time.advance(45)
    assert end.refreshes == [(75.0, "UPDATE")]
    end.answered(Session_Expires="120;refresher=uas")
    assert not end.timer.refreshing
    time.advance(87)
    assert not end.expired_at_s
    time.advance(1)
    assert end.expired_at_s == [75.0 + 88.0]


@pytest.mark.parametrize(("first", "kept"), [("uac", "uac"), ("uas", "uas")])
@pytest.mark.parametrize("again", [{}, {"Session-Expires": "90"}])
def test_a_request_that_names_nobody_leaves_the_roles_as_they_are(
    end: End, first: str, kept: str, again: dict[str, str]
) -> None:
    end.answer({**KNOWS, "Session-Expires": f"90;refresher={first}"})
    assert end.answer({**KNOWS, **again})["Session-Expires"] == f"90;refresher={kept}"


# ---- the other end knows no timers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ours", [True, False])
def test_we_refresh_alone_where_an_update_does_it_and_nothing_expires(end: End, time: VirtualTime, ours: bool) -> None:
    if ours:
        end.answered(Allow=ALLOW)
    else:
        assert end.answer({"Allow": ALLOW}) == {}
    assert end.timer.interval_s is None
    time.advance(900)
    end.answered()
    time.advance(900)
    end.answered(Session_Expires="malformed")
    time.advance(10_000)
    assert end.refreshes[:3] == [(900.0, "UPDATE"), (1800.0, "UPDATE"), (2700.0, "UPDATE")]
    assert end.asks() == {"Session-Expires": "1800", "Min-SE": "90"}
    assert not end.expired_at_s


def test_a_peer_that_knows_neither_timers_nor_update_is_left_alone(end: End, time: VirtualTime) -> None:
    assert end.answer({"Allow": "INVITE, ACK, BYE"}) == {}
    end.answered()
    assert len(time.timers) == 0
    assert not end.timer.refreshing


def test_a_2xx_without_session_expires_turns_the_timer_off(end: End, time: VirtualTime) -> None:
    end.answered(Session_Expires="90;refresher=uas")
    end.answered()
    time.advance(1000)
    assert not end.expired_at_s


# ---- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refresher", ["uac", "uas"])
def test_stopped_nothing_happens_any_more(end: End, time: VirtualTime, refresher: str) -> None:
    end.answered(Session_Expires=f"90;refresher={refresher}")
    end.timer.stop()
    end.timer.stop()
    assert len(time.timers) == 0


def test_the_call_may_stop_it_from_within_a_refresh(time: VirtualTime) -> None:
    timer = SessionTimer(time.timers, lambda method: timer.stop(), lambda: pytest.fail("it was stopped"))
    timer.on_answer(_response(200, {"Session-Expires": "90;refresher=uac"}))
    time.advance(100)
    assert len(time.timers) == 0


# ---- two of them -----------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    ours=st.integers(90, 4000),
    theirs=st.integers(90, 4000),
    minimum=st.integers(90, 2000),
    who=st.lists(st.booleans(), min_size=1, max_size=8),
)
def test_two_timers_agree_on_the_interval_and_on_one_refresher(
    ours: int, theirs: int, minimum: int, who: list[bool]
) -> None:
    """Whoever sends the next request, and whatever its limits are."""
    time = VirtualTime()
    ends = [End(time, ours), End(time, theirs, minimum)]
    for first in who:
        asking, asked = (ends[0], ends[1]) if first else (ends[1], ends[0])
        for _ in range(2):
            request = _request({**KNOWS, **asking.asks()})
            if (refusal := refusal_of(request, asked.min_se_s)) is None:
                break
            assert asking.timer.on_too_small(_response(refusal.status, dict(refusal.headers)))
        asking.timer.on_answer(_response(200, dict(asked.timer.answer_headers(request))))
        assert ends[0].timer.interval_s == ends[1].timer.interval_s
        assert ends[0].timer.refreshing != ends[1].timer.refreshing
        interval_s = ends[0].timer.interval_s
        assert interval_s is not None
        assert interval_s >= 90
        time.advance(interval_s / 2)
        assert sum(len(end.refreshes) for end in ends) >= 1
    assert not ends[0].expired_at_s
    assert not ends[1].expired_at_s
    time.advance(5000)
    assert len(ends[0].expired_at_s) == len(ends[1].expired_at_s) == 1
    assert len(time.timers) == 0
