"""A silence counts when it is still there at a second look."""

from __future__ import annotations

from rtc_server.engine.silence import SECOND_LOOK_S, SilenceWatch


def test_an_engine_that_stays_silent_is_lost() -> None:
    watch = SilenceWatch(5.0)
    assert [watch.is_lost(0.0, now) for now in (4.9, 5.1, 5.3, 5.4)] == [False, False, False, True]
    assert watch.is_lost(0.0, 100.0)


def test_who_has_slept_blames_nobody_at_the_first_look() -> None:
    watch = SilenceWatch(5.0)
    assert not watch.is_lost(0.0, 60.0)
    assert not watch.is_lost(60.01, 60.0 + 2 * SECOND_LOOK_S)
    assert not watch.is_lost(60.01, 65.0)


def test_every_silence_is_looked_at_twice() -> None:
    watch = SilenceWatch(5.0)
    watch.is_lost(0.0, 60.0)
    watch.is_lost(60.0, 61.0)
    assert not watch.is_lost(61.0, 120.0)
    assert watch.is_lost(61.0, 121.0)
