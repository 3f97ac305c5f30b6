from __future__ import annotations

import pytest

from rtc_server.session.liveness import Verdict
from tests.session.conftest import RULES


@pytest.mark.parametrize(
    ("silent_s", "unseen_s", "expects_audio", "verdict"),
    [
        (0, 0, True, Verdict.LIVE),
        (6, 6, True, Verdict.LIVE),
        (299, 2, True, Verdict.LIVE),
        (301, 2, True, Verdict.IDLE_TOO_LONG),
        (301, 2, False, Verdict.LIVE),
        (14, 14, True, Verdict.DEGRADED),
        (3, 14, True, Verdict.LIVE),
        (400, 14, False, Verdict.DEGRADED),
        (31, 31, True, Verdict.GONE),
        (31, 12, True, Verdict.LIVE),
        (400, 31, False, Verdict.GONE),
    ],
)
def test_verdict(silent_s: float, unseen_s: float, expects_audio: bool, verdict: Verdict) -> None:
    assert RULES.judge(1000, 1000 - silent_s, 1000 - unseen_s, expects_audio) is verdict


@pytest.mark.parametrize(
    ("unseen_s", "verdict"), [(31, Verdict.DEGRADED), (44.9, Verdict.DEGRADED), (45.1, Verdict.GONE)]
)
def test_a_caller_who_sets_up_another_leg_is_waited_for_a_little_longer(unseen_s: float, verdict: Verdict) -> None:
    assert RULES.judge(1000, 1000 - unseen_s, 1000 - unseen_s, True, returning=True) is verdict


@pytest.mark.parametrize(
    ("away_s", "can_return", "returning", "verdict"),
    [
        (0, True, False, Verdict.DEGRADED),
        (9.9, True, False, Verdict.DEGRADED),
        (10, True, False, Verdict.GONE),
        (0, False, False, Verdict.GONE),
        (14.9, False, True, Verdict.DEGRADED),
        (24.9, True, True, Verdict.DEGRADED),
        (25, True, True, Verdict.GONE),
    ],
)
def test_verdict_on_a_caller_whose_connection_was_closed(
    away_s: float, can_return: bool, returning: bool, verdict: Verdict
) -> None:
    assert RULES.judge_away(1000, 1000 - away_s, can_return, returning) is verdict
