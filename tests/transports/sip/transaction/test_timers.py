from __future__ import annotations

import gc
import weakref
from random import Random

import pytest

from rtc_server.transports.sip.transaction.timers import Intervals, Timers
from tests.transports.sip.transaction.virtualtime import VirtualTime


def test_timers_run_in_the_order_of_time_and_never_early() -> None:
    time = VirtualTime()
    ran: list[tuple[str, float]] = []
    for name, at_s in (("c", 3.0), ("a", 1.0), ("b", 2.0), ("b2", 2.0)):
        time.timers.schedule(at_s, lambda name=name: ran.append((name, time.now_s)))  # type: ignore[misc]
    time.advance(0.999)
    assert not ran
    time.advance(10)
    assert ran == [("a", 1.0), ("b", 2.0), ("b2", 2.0), ("c", 3.0)]
    assert time.timers.next_s is None
    assert len(time.timers) == 0


def test_after_a_stall_everything_due_runs_at_once_in_its_order() -> None:
    time = VirtualTime()
    ran: list[int] = []
    for second in (3, 1, 2):
        time.timers.after(second, lambda second=second: ran.append(second))  # type: ignore[misc]
    time.now_s = 60.0
    time.timers.run_due()
    assert ran == [1, 2, 3]


def test_a_cancelled_timer_does_not_run_even_if_it_is_due_already() -> None:
    time = VirtualTime()
    ran: list[str] = []
    second = time.timers.after(1.0, lambda: ran.append("first") or second.cancel())  # type: ignore[func-returns-value]
    other = time.timers.after(1.0, lambda: ran.append("second"))
    other.cancel()
    other.cancel()
    time.advance(2)
    assert ran == ["first"]
    assert not other.pending
    assert not second.pending


def test_a_timer_may_start_another_one() -> None:
    time = VirtualTime()
    ran: list[float] = []

    def again() -> None:
        ran.append(time.now_s)
        if len(ran) < 3:
            time.timers.after(0.5, again)

    time.timers.after(0.5, again)
    time.advance(5)
    assert ran == [0.5, 1.0, 1.5]


def test_a_callback_that_raises_does_not_stop_the_others() -> None:
    time = VirtualTime()
    ran: list[str] = []
    time.timers.after(1.0, lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    time.timers.after(1.0, lambda: ran.append("other"))
    time.advance(1)
    assert ran == ["other"]


def test_whoever_sleeps_is_woken_only_by_an_earlier_timer() -> None:
    woken: list[float | None] = []
    timers = Timers(lambda: 0.0, on_earlier=lambda: woken.append(timers.next_s))
    first = timers.after(5.0, lambda: None)
    timers.after(6.0, lambda: None)
    timers.after(2.0, lambda: None).cancel()
    timers.after(4.0, lambda: None)
    first.cancel()
    assert woken == [5.0, 2.0, 4.0]


def test_cancelled_timers_do_not_pile_up() -> None:
    """Every transaction cancels timers that lie half a minute ahead."""
    timers = Timers(lambda: 0.0)
    random = Random(1)
    running = [timers.after(random.uniform(10, 40), lambda: None) for _ in range(100)]
    for _ in range(10_000):
        timers.after(random.uniform(10, 40), lambda: None).cancel()
    assert len(timers) == 100
    assert len(timers._heap) < 1000
    for timer in running:
        timer.cancel()
    assert len(timers) == 0
    assert timers.next_s is None


def test_a_cancelled_timer_lets_go_of_what_it_would_have_called() -> None:
    class Call:
        def ring(self) -> None: ...

    timers = Timers(lambda: 0.0)
    call = Call()
    gone = weakref.ref(call)
    timer = timers.after(32.0, call.ring)
    timer.cancel()
    del call
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(("t1_s", "timeout_s", "linger_s"), [(0.5, 32.0, 32.0), (1.0, 64.0, 64.0), (0.05, 3.2, 32.0)])
def test_intervals_follow_t1(t1_s: float, timeout_s: float, linger_s: float) -> None:
    intervals = Intervals(t1_s=t1_s)
    assert (intervals.timeout_s, intervals.linger_s) == (pytest.approx(timeout_s), linger_s)
