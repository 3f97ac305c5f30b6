from collections import Counter
from itertools import groupby

import numpy as np
import pytest

from rtc_server.bench.impairment import SHAPES, Impairment, NetworkPath, Shape, Uplink
from rtc_server.errors import ConfigError

EVERY_S = 0.02
SIZE_BYTES = 100


def sent_through(impairment: Impairment, packets: int, seed: int | str = 1) -> list[tuple[float, ...]]:
    path = NetworkPath(impairment, seed)
    return [path.arrivals(number * EVERY_S, SIZE_BYTES) for number in range(packets)]


def delays_ms(arrivals: list[tuple[float, ...]]) -> list[float]:
    return [(when[0] - number * EVERY_S) * 1000 for number, when in enumerate(arrivals) if when]


def lost(uplink: Uplink, begin_s: float, seconds: float) -> list[int]:
    return [n for n in range(round(seconds * 50)) if uplink.loses(begin_s + n * 0.02)]


def test_a_perfect_network_delivers_everything_at_once() -> None:
    assert sent_through(Impairment(), 50) == [(number * EVERY_S,) for number in range(50)]


@pytest.mark.parametrize("burst", [1.0, 3.0, 12.0])
def test_loss_and_the_length_of_its_runs_are_those_that_were_asked_for(burst: float) -> None:
    gone = [not when for when in sent_through(Impairment(loss=0.1, burst=burst), 100_000)]
    runs = [len(list(run)) for was_lost, run in groupby(gone) if was_lost]
    assert np.mean(gone) == pytest.approx(0.1, rel=0.15)
    # Independent losses follow each other too: a run then has 1 / (1 - loss) packets.
    assert np.mean(runs) == pytest.approx(max(burst, 1 / 0.9), rel=0.15)


def test_the_same_seed_loses_the_same_packets_whatever_else_is_set() -> None:
    def gone(seed: int, **more: float) -> list[bool]:
        return [not when for when in sent_through(Impairment(loss=0.2, **more), 1000, seed)]

    assert gone(1) == gone(1) == gone(1, jitter_ms=80, duplicate=0.3, reorder=0.1) != gone(2)


@pytest.mark.parametrize("shape", SHAPES)
def test_jitter_lies_on_top_of_the_delay_and_keeps_its_percentile(shape: Shape) -> None:
    delays = delays_ms(sent_through(Impairment(delay_ms=20, jitter_ms=60, shape=shape), 20_000))
    assert min(delays) >= 20
    p95 = np.percentile(delays, 95) - 20
    # A queue adds the waiting behind slower packets; the figure is of each packet alone.
    expected = 57 if shape == "uniform" else 60
    assert expected * 0.85 <= p95 <= expected * (1.6 if shape == "fifo" else 1.15)


@pytest.mark.parametrize(("shape", "in_order"), [("fifo", True), ("walk", True), ("iid", False), ("uniform", False)])
def test_a_queue_keeps_the_order_and_independent_delays_do_not(shape: Shape, in_order: bool) -> None:
    arrivals = [when[0] for when in sent_through(Impairment(jitter_ms=80, shape=shape), 1000)]
    assert (arrivals == sorted(arrivals)) == in_order


def test_packets_that_are_held_back_are_overtaken_and_delay_nobody() -> None:
    delays = Counter(round(delay) for delay in delays_ms(sent_through(Impairment(reorder=0.05), 10_000)))
    assert set(delays) == {0, 30}
    assert 400 < delays[30] < 600


def test_duplicates_come_twice() -> None:
    copies = Counter(len(when) for when in sent_through(Impairment(duplicate=0.1), 10_000))
    assert set(copies) == {1, 2}
    assert 850 < copies[2] < 1150


def test_a_bottleneck_delays_what_is_too_much_and_drops_what_does_not_fit() -> None:
    # 100 bytes every 20 ms are 40 kb/s: half of them pass, and the queue holds 5 packets.
    path = NetworkPath(Impairment(rate_bps=20_000, queue_bytes=500))
    arrivals = [path.arrivals(number * EVERY_S, SIZE_BYTES) for number in range(500)]
    passed = [when for when in arrivals if when]
    assert len(passed) == pytest.approx(250, abs=10)
    assert max(delays_ms(arrivals)) <= 200
    assert path.overflowed == 500 - len(passed) and path.lost == 0


def test_a_bottleneck_that_is_wide_enough_delays_nothing() -> None:
    assert max(delays_ms(sent_through(Impairment(rate_bps=64_000), 500))) == 0


def test_after_a_standstill_everything_comes_at_once_and_in_order() -> None:
    path = NetworkPath(Impairment(delay_ms=20))
    under_way = path.arrivals(9.99, SIZE_BYTES)
    path.stand_still(10.0, 1.0)
    stuck = [path.arrivals(10 + number * EVERY_S, SIZE_BYTES)[0] for number in range(50)]
    assert under_way == (pytest.approx(10.01),)
    assert max(stuck) - min(stuck) < 0.05 and stuck == sorted(stuck)
    assert path.arrivals(11.0, SIZE_BYTES) == (pytest.approx(11.02),)


@pytest.mark.parametrize(
    "wrong",
    [
        {"loss": 1.0},
        {"loss": -0.1},
        {"burst": 0.5},
        {"loss": 0.8, "burst": 2},
        {"jitter_ms": -1},
        {"delay_ms": 1e9},
        {"shape": "square"},
        {"rate_bps": 0},
        {"queue_bytes": -1},
        {"duplicate": 1.5},
    ],
)
def test_a_network_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))) if len(wrong) == 1 else pytest.raises(ConfigError):
        Impairment(**wrong)  # type: ignore[arg-type]


def test_nothing_is_lost_before_the_run_begins() -> None:
    uplink = Uplink(loss=0.9, drop_at_s=[0.1])
    assert lost(uplink, 100.0, 10.0) == []


def test_exactly_one_packet_is_lost_at_each_drop() -> None:
    uplink = Uplink(drop_at_s=[3.0, 1.01])
    uplink.begin(100.0)
    assert lost(uplink, 100.0, 10.0) == [51, 150]
    assert uplink.dropped == 2


def test_random_loss_keeps_to_its_rate_and_its_seed() -> None:
    def run(seed: int) -> list[int]:
        uplink = Uplink(loss=0.1, seed=seed)
        uplink.begin(0.0)
        return lost(uplink, 0.0, 200.0)

    assert 900 < len(run(1)) < 1100
    assert run(1) == run(1) != run(2)
