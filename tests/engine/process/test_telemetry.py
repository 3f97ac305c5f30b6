from __future__ import annotations

import pytest

from rtc_server import metrics
from rtc_server.engine.process.telemetry import ForwardedMetrics, Samples, snapshot


def _histogram(*, counts: tuple[float, ...], total: float) -> Samples:
    """A snapshot of the ticks with so many in each of the first buckets, cumulated."""
    samples = snapshot()
    rows = []
    for (name, labels, _), count in zip(samples["TICK_SECONDS"], [*counts, *[counts[-1]] * 99], strict=False):
        rows.append((name, labels, total if name.endswith("_sum") else count))
    return {"TICK_SECONDS": rows}


def _values(metric: str) -> dict[str, float]:
    samples = [sample for sample in snapshot()[metric] if not sample[0].endswith("_created")]
    return {f"{name}{sorted(labels.items())}": value for name, labels, value in samples}


def _new(metric: str, before: dict[str, float]) -> list[float]:
    return [value - before.get(key, 0.0) for key, value in _values(metric).items()]


def test_all_metrics_of_an_engine_are_in_a_snapshot_and_no_others() -> None:
    assert {"TICK_SECONDS", "TICKS_SHED", "INPUTS_MISSING", "SLOTS"} <= set(snapshot())
    assert not {"SESSIONS", "PACKETS"} & set(snapshot())


def test_a_histogram_gets_what_is_new_into_the_right_buckets() -> None:
    forwarded, before = ForwardedMetrics(), _values("TICK_SECONDS")
    forwarded.update(_histogram(counts=(2, 2, 5), total=0.5))
    forwarded.update(_histogram(counts=(2, 3, 7), total=0.75))
    forwarded.update(_histogram(counts=(2, 3, 7), total=0.75))
    new = _new("TICK_SECONDS", before)
    assert new[:4] == [2, 3, 7, 7]
    assert new[-2:] == pytest.approx([7, 0.75])


def test_counters_of_one_process_after_the_other_add_up() -> None:
    before = _values("TICKS_SHED")
    for totals in ([3, 5], [1, 4]):
        forwarded = ForwardedMetrics()
        for total in totals:
            forwarded.update({"TICKS_SHED": [("engine_ticks_shed_total", {}, total)]})
        forwarded.end()
    assert _new("TICKS_SHED", before) == [9]


def test_gauges_follow_and_end_with_their_process() -> None:
    forwarded = ForwardedMetrics()
    live = metrics.SLOTS.labels("live")
    before = live.collect()[0].samples[0].value
    for value in (2, 3, 1):
        forwarded.update({"SLOTS": [("engine_slots", {"state": "live"}, value)]})
        assert live.collect()[0].samples[0].value == before + value
    forwarded.end()
    assert live.collect()[0].samples[0].value == before


def test_an_unknown_metric_is_passed_over_and_an_unknown_label_is_an_error() -> None:
    ForwardedMetrics().update({"SESSIONS": [("rtc_sessions", {}, 1.0)], "__name__": [("x_total", {}, 1.0)]})
    with pytest.raises(ValueError, match="label"):
        ForwardedMetrics().update({"SLOTS": [("engine_slots", {"colour": "red"}, 1.0)]})
    with pytest.raises(ValueError):
        ForwardedMetrics().update({"TICK_SECONDS": [("engine_tick_seconds_bucket", {"le": "0.123"}, 1.0)]})
