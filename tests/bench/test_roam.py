import argparse
import json

import pytest

from rtc_server import cli
from rtc_server.bench import roam
from rtc_server.bench.analysis import ReceivedPacket
from rtc_server.bench.roam import RoamOptions, roam_figures
from rtc_server.bench.roamcalls import Move, longest_gap_ms
from rtc_server.errors import ConfigError


def packets(*arrivals_ms: float, numbers: list[int] | None = None) -> list[ReceivedPacket]:
    numbers = numbers or list(range(65_530, 65_530 + len(arrivals_ms)))
    return [
        ReceivedPacket(number % 65_536, number * 960, at_ms / 1000, b"x")
        for number, at_ms in zip(numbers, arrivals_ms, strict=True)
    ]


def test_flags_and_dataclass_agree_on_the_defaults() -> None:
    parser = argparse.ArgumentParser()
    roam.add_arguments(parser)
    assert RoamOptions.from_arguments(parser.parse_args([])) == RoamOptions()
    given = parser.parse_args(["--times", "3", "--delay", "40", "--server-cpu", "0", "--json"])
    assert RoamOptions.from_arguments(given) == RoamOptions(times=3, delay=40, server_cpu=0, json=True)


@pytest.mark.parametrize("wrong", [{"times": 0}, {"delay": -1.0}])
def test_what_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        RoamOptions(**wrong)  # type: ignore[arg-type]


def test_the_gap_is_the_longest_wait_beyond_a_packets_own_time() -> None:
    assert longest_gap_ms(packets(0, 20, 40, 95, 100, 120)) == pytest.approx(35)
    assert longest_gap_ms(packets(0, 20, 40, 60)) == pytest.approx(0)
    assert longest_gap_ms(packets(0, 20, 80, 40, 100, numbers=[1, 2, 4, 3, 5])) == pytest.approx(20)
    assert longest_gap_ms(packets(0)) == longest_gap_ms([]) == 0


def test_a_packet_that_comes_by_both_paths_counts_once() -> None:
    assert longest_gap_ms(packets(0, 20, 20, 70, numbers=[1, 2, 2, 3])) == pytest.approx(30)
    assert longest_gap_ms(packets(0, 20, 40, 70, numbers=[1, 2, 2, 3])) == pytest.approx(30)


def test_the_worse_side_counts_and_losses_are_added_up() -> None:
    restarts = [Move(gap, concealed, 0, 0, 30.0) for gap, concealed in ((5, 0), (4, 20), (60, 0))]
    figures = roam_figures(restarts, [Move(12.0, 0, 1, 2, 0.5)])
    assert (figures["restart_gap_ms"], figures["restart_gap_worst_ms"]) == (20, 60)
    assert (figures["restart_heard_gap_ms"], figures["restart_concealed_ms"]) == (5, 0)
    assert (figures["move_gap_ms"], figures["move_lost"], figures["packets_lost"]) == (12, 3, 3)


@pytest.mark.e2e
def test_a_call_moves_and_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "roam", "--times", "2", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    row = json.loads(line)
    assert (row["bench"], row["moves"]) == ("roam", 2)
    assert row["restart_gap_ms"] >= 0 and row["move_gap_ms"] >= 0 and row["packets_lost"] >= 0
