from __future__ import annotations

import pytest

from rtc_server.session.liveness import LivenessRules, Verdict

RULES = LivenessRules()


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
