from __future__ import annotations

import itertools

import numpy as np
import pytest

from rtc_server.media.lossfollower import (
    FEC_BPS,
    FULL_PATH_COPIED_BPS,
    FULL_PATH_FEC_BPS,
    MEMORY_S,
    MOST_EXPECTED_PCT,
    PLAIN_BPS,
    LossFollower,
    Protection,
)

UNLIMITED = 510_000
PLAIN = Protection(0, PLAIN_BPS, 0)


def after(*losses: float, red: bool = False, max_bitrate_bps: int = UNLIMITED) -> Protection:
    """One report a second, and then at once."""
    follower = LossFollower(max_bitrate_bps, red)
    for at, loss in enumerate(losses):
        follower.report(float(at), loss)
    return follower.protection(max(0.0, len(losses) - 1.0))


@pytest.mark.parametrize("losses", [(), (0.0,), (0.0, 0.009)])
def test_clean_path_gets_the_plain_codec(losses: tuple[float, ...]) -> None:
    assert after(*losses) == PLAIN


@pytest.mark.parametrize(("loss", "expected_pct"), [(0.01, 5), (0.05, 5), (0.1, 10), (0.2, 20), (0.24, 20)])
def test_loss_turns_fec_on_with_more_bits_for_it(loss: float, expected_pct: int) -> None:
    assert after(loss) == Protection(expected_pct, FEC_BPS, 0)


def test_fec_stays_on_through_quiet_seconds_and_goes_when_they_last() -> None:
    follower = LossFollower(UNLIMITED, red=False)
    follower.report(0.0, 0.1)
    for second in range(1, 30):
        follower.report(float(second), 0.0)
        assert (follower.protection(float(second)).expected_loss_pct > 0) is (second < MEMORY_S)


def test_smaller_losses_count_once_the_great_one_is_forgotten() -> None:
    follower = LossFollower(UNLIMITED, red=False)
    expected_pct = []
    for second in range(20):
        follower.report(float(second), 0.2 if second == 0 else 0.06)
        expected_pct.append(follower.protection(float(second)).expected_loss_pct)
    assert expected_pct == [20] * 10 + [6] * 10


def test_peer_that_stops_reporting_is_taken_for_clean_after_a_while() -> None:
    follower = LossFollower(UNLIMITED, red=False)
    follower.report(5.0, 0.1)
    assert follower.protection(5.0 + MEMORY_S) == PLAIN


def test_peer_with_red_gets_one_copy_from_the_first_packet_and_no_fec() -> None:
    assert after(red=True) == Protection(0, PLAIN_BPS, 1)
    assert after(0.09, red=True) == Protection(0, PLAIN_BPS, 1)


def test_two_copies_from_a_tenth_lost() -> None:
    assert after(0.1, red=True) == Protection(0, PLAIN_BPS, 2)
    assert after(0.1, 0.0, red=True).copies == 2


def test_one_terrible_report_is_no_full_path() -> None:
    assert after(0.0, 0.9) == Protection(MOST_EXPECTED_PCT, FEC_BPS, 0)
    assert after(0.0, 0.9, red=True) == Protection(0, PLAIN_BPS, 2)


def test_two_terrible_reports_running_mean_a_full_path_that_gets_much_less() -> None:
    assert after(0.3, 0.4) == Protection(MOST_EXPECTED_PCT, FULL_PATH_FEC_BPS, 0)
    assert after(0.3, 0.4, red=True) == Protection(0, FULL_PATH_COPIED_BPS, 1)


def test_full_path_is_tried_again_when_it_has_been_better_for_a_while() -> None:
    follower = LossFollower(UNLIMITED, red=False)
    for second in range(30):
        follower.report(float(second), 0.4 if second < 3 else 0.05)
    assert follower.protection(29.0) == Protection(5, FEC_BPS, 0)


@pytest.mark.parametrize("red", [False, True])
@pytest.mark.parametrize("losses", [(), (0.1,), (0.4, 0.4)])
def test_peers_limit_is_never_passed(losses: tuple[float, ...], red: bool) -> None:
    assert after(*losses, red=red, max_bitrate_bps=12_000).bitrate_bps == 12_000
    assert after(*losses, red=red, max_bitrate_bps=PLAIN_BPS).bitrate_bps <= PLAIN_BPS


def test_later_offer_changes_what_is_sent_but_not_what_is_known() -> None:
    follower = LossFollower(UNLIMITED, red=True)
    follower.report(0.0, 0.1)
    follower.agree(20_000, red=False)
    assert follower.protection(1.0) == Protection(10, 20_000, 0)


def test_reports_without_end_keep_nothing_but_a_few_numbers() -> None:
    follower = LossFollower(UNLIMITED, red=False)
    rng = np.random.default_rng(1)
    for at in itertools.islice(itertools.count(0.0, 0.001), 20_000):
        follower.report(at, int(rng.integers(256)) / 256)
    assert len(follower._loss._falling) <= 256
    for step in range(2560):  # the worst: ever smaller losses
        follower.report(30.0 + step * 1e-4, (255 - step // 10) / 256)
    assert len(follower._loss._falling) <= 256
