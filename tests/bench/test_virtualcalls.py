"""Whole calls through bad networks in virtual time: the same figures on every machine."""

import pytest

from rtc_server.bench.figures import Figures
from rtc_server.bench.impairment import Impairment
from rtc_server.bench.losscalls import Script
from rtc_server.bench.lossfigures import engine_time_missing_ms, loss_figures
from rtc_server.bench.speech import Speech, load_speech
from rtc_server.bench.virtualcalls import heard_in_virtual_time


@pytest.fixture(scope="module")
def speech() -> Speech:
    whole = load_speech()
    return Speech(whole.pcm[: 17 * 24_000], whole.utterances[:3])


def measured(speech: Speech, network: Impairment, red: bool = False, calls: int = 1) -> Figures:
    script = Script(speech, network, red)
    return loss_figures(heard_in_virtual_time(script, calls), speech, network.delay_ms, find_words=None)


def test_a_clean_path_changes_nothing_and_adds_little(speech: Speech) -> None:
    figures = measured(speech, Impairment(delay_ms=20))
    assert (figures["engine_time_missing_ms"], figures["lost"]) == (0, 0)
    assert float(figures["lsd_db"] or 0) < 0.1
    assert 5 <= float(figures["added_delay_p50_ms"] or 0) <= 35
    assert 0 < float(figures["recovery_s"] or 0) < 4


def test_loss_costs_less_with_redundant_audio_than_with_fec(speech: Speech) -> None:
    network = Impairment(delay_ms=20, loss=0.1, jitter_ms=60)
    fec, red = measured(speech, network, calls=2), measured(speech, network, red=True, calls=2)
    assert 0.05 < float(fec["lost"] or 0) < 0.15
    assert 0 < float(red["lsd_db"] or 0) < 0.8 * float(fec["lsd_db"] or 0)
    assert float(fec["lsd_db"] or 0) < 1.6


@pytest.mark.parametrize(
    "network",
    [
        Impairment(loss=0.2, burst=12, jitter_ms=100, delay_ms=50),
        Impairment(jitter_ms=100, shape="iid", reorder=0.2, duplicate=0.2),
        Impairment(rate_bps=40_000, queue_bytes=4000),
    ],
)
def test_the_engine_is_given_every_frame_whatever_the_network_does(speech: Speech, network: Impairment) -> None:
    short = Speech(speech.pcm[: 5 * 24_000], ())
    (call,) = heard_in_virtual_time(Script(short, network, calm_s=2, after_s=2), 1)
    assert engine_time_missing_ms(call) == 0
