from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

from rtc_server import log
from rtc_server.transports.sip.call import reception
from tests.logs import assert_no_errors, captured_logs, entry_of


@pytest.fixture
def other_logging() -> Iterator[None]:
    """Undoes what a test makes of logging."""
    before, root = structlog.get_config(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.configure(**before)
    root.handlers[:] = handlers
    root.setLevel(level)
    vars(reception.log).pop("bind", None)


def test_what_is_logged_is_seen_however_often_logging_was_configured(other_logging: None) -> None:
    log.configure()
    reception.log.info("first use")
    log.configure("warning")
    with captured_logs() as entries:
        reception.log.info("seen", number=1)
    assert entry_of(entries, "seen")["number"] == 1
    assert_no_errors(entries)


def test_a_defect_that_was_logged_is_noticed() -> None:
    with captured_logs() as entries:
        try:
            raise RuntimeError
        except RuntimeError:
            reception.log.exception("failed")
    with pytest.raises(AssertionError):
        assert_no_errors(entries)
