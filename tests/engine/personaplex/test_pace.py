from __future__ import annotations

from rtc_server.engine.personaplex.pace import ChunkPace


def paced(**seconds: float) -> ChunkPace:
    pace = ChunkPace()
    for size, took_s in seconds.items():
        pace.took(int(size[1:]), took_s)
    return pace


def test_the_largest_chunk_that_fits_is_taken() -> None:
    pace = paced(n1=0.010, n8=0.012, n64=0.030)
    assert pace.fitting(0.011, most=500) == 1  # two: twice as long, for all that is known
    assert pace.fitting(0.013, most=500) == 8
    assert pace.fitting(0.031, most=500) == 64


def test_nothing_is_taken_when_not_even_one_position_fits() -> None:
    assert paced(n1=0.010).fitting(0.005, most=100) == 0


def test_never_more_than_there_is() -> None:
    assert paced(n1=0.001, n256=0.002).fitting(1.0, most=5) == 5


def test_a_size_never_seen_is_guessed_in_proportion() -> None:
    assert paced(n4=0.004).expected_s(64) == 0.064


def test_one_stall_is_forgotten_with_time() -> None:
    pace = paced(n8=0.010)
    pace.took(8, 0.500)
    assert pace.fitting(0.050, most=8) < 8
    for _ in range(40):
        pace.took(8, 0.010)
    assert pace.fitting(0.050, most=8) == 8


def test_a_stall_does_not_keep_a_prompt_waiting_for_long() -> None:
    pace = paced(n1=0.500)
    refusals = 0
    while pace.fitting(0.040, most=1) == 0:
        pace.refused()
        refusals += 1
    assert refusals < 25  # two seconds of ticks
