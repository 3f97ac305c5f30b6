from __future__ import annotations

from rtc_server.log import get_logger
from rtc_server.transports.sip.sparselog import MAX_SOURCES, SparseLog
from tests.logs import captured_logs

LOG = get_logger(__name__)


def test_each_source_has_its_lines_a_minute() -> None:
    with captured_logs() as logs:
        sparse = SparseLog(LOG, 2, 100)
        for number in range(5):
            sparse.info("one", "refused", 0.0, number=number)
        sparse.info("other", "refused", 0.0, number=5)
        sparse.info("one", "refused", 29.9, number=6)
        sparse.info("one", "refused", 30.1, number=7)
    assert [(entry["number"], entry.get("left_out")) for entry in logs] == [(0, None), (1, None), (5, 3), (7, 1)]
    assert "one" not in str(logs)


def test_all_sources_together_have_theirs() -> None:
    with captured_logs() as logs:
        sparse = SparseLog(LOG, 2, 10)
        for number in range(5 * MAX_SOURCES):
            sparse.info(str(number), "refused", 0.0)
    assert len(logs) == 10
    assert len(sparse._sources) == MAX_SOURCES
