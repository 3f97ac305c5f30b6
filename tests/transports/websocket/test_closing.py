from __future__ import annotations

import pytest

from rtc_server.transports.websocket.closing import goodbye

REASONS = {
    "client_closed": 1000,
    "ended_elsewhere": 1000,
    "session_ended": 1000,
    "replaced": 1000,
    "peer_closed": 1000,
    "peer_silent": 1001,
    "server_stopping": 1012,
    "idle": 1008,
    "not_reading": 1008,
    "engine_failed": 1011,
    "engine_lost": 1011,
    "internal_error": 1011,
    "a_reason_of_tomorrow": 1011,
}


@pytest.mark.parametrize(("reason", "code"), REASONS.items())
def test_each_reason_has_a_code_and_a_sentence_that_fits_a_close_frame(reason: str, code: int) -> None:
    assert goodbye(reason).code == code
    assert 10 < len(goodbye(reason).sentence.encode()) <= 123
    assert "_" not in goodbye(reason).sentence
