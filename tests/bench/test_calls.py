from rtc_server.bench.calls import carried
from rtc_server.bench.figures import Figures


def run(calls: int, late_p99_ms: float | None, received_share: float | None = 1.0) -> Figures:
    return {"calls": calls, "late_p99_ms": late_p99_ms, "received_share": received_share}


def test_the_greatest_size_on_time_is_carried() -> None:
    assert carried([run(20, 3.0), run(40, 19.9), run(60, 20.0)]) == 40


def test_packets_that_were_never_sent_do_not_count_as_on_time() -> None:
    assert carried([run(20, 3.0), run(40, 5.0, received_share=0.9)]) == 20
    assert carried([run(20, None, None)]) == 0
    assert carried([]) == 0
