import argparse
import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from rtc_server import cli
from rtc_server.bench import loss, losscalls
from rtc_server.bench.impairment import Impairment
from rtc_server.bench.loss import LossOptions
from rtc_server.bench.losscalls import Script, heard_for_real
from rtc_server.bench.lossfigures import loss_figures
from rtc_server.bench.speech import Speech, load_speech
from rtc_server.bench.words import WeightsUnusable
from rtc_server.errors import ConfigError

FIGURES = [
    *("engine_time_missing_ms", "lsd_db", "added_delay_p50_ms", "added_delay_p95_ms", "recovery_s", "word_error"),
]


def parse(flags: str) -> LossOptions:
    parser = argparse.ArgumentParser()
    loss.add_arguments(parser)
    return LossOptions.from_arguments(parser.parse_args(shlex.split(flags)))


def test_flags_and_dataclass_agree_on_the_defaults() -> None:
    assert parse("") == LossOptions()


def test_flags_reach_the_options() -> None:
    options = parse(
        "--loss 20 --burst 3 --jitter 100 --shape walk --reorder 5 --duplicate 1 --delay 50 --seed 4 "
        "--red --calls 2 --speech a.wav b.wav --virtual --server-cpu 1 --json"
    )
    assert options == LossOptions(
        loss=20,
        burst=3,
        jitter=100,
        shape="walk",
        reorder=5,
        duplicate=1,
        delay=50,
        seed=4,
        red=True,
        calls=2,
        speech=(Path("a.wav"), Path("b.wav")),
        virtual=True,
        server_cpu=1,
        json=True,
    )
    assert options.network == Impairment(
        loss=0.2, burst=3, jitter_ms=100, shape="walk", reorder=0.05, duplicate=0.01, delay_ms=50
    )


@pytest.mark.parametrize(("flags", "repairs"), [("", ("fec", "red")), ("--red", ("red",)), ("--no-red", ("fec",))])
def test_both_ways_of_repair_are_measured_unless_one_is_named(flags: str, repairs: tuple[str, ...]) -> None:
    assert parse(flags).repairs == repairs


@pytest.mark.parametrize("wrong", ["--loss 100", "--loss -1", "--calls 0", "--jitter -1", "--burst 0", "--reorder 100"])
def test_what_cannot_be_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError):
        parse(wrong)


def test_it_prints_a_line_per_way_of_repair(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_weights() -> None:
        raise WeightsUnusable("no weights", hint="install them")

    monkeypatch.setattr(loss, "load_recogniser", no_weights)
    assert cli.main(["bench", "loss", "--virtual", "--calls", "1", "--loss", "5", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["repair"] for row in rows] == ["fec", "red"]
    for row in rows:
        assert row["bench"] == "loss" and row.keys() >= set(FIGURES)
        assert (row["loss_pct"], row["jitter_ms"], row["burst"]) == (5, 60, 1)
        assert (row["engine_time_missing_ms"], row["word_error"]) == (0, None)


def test_a_missing_recording_is_a_clear_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "loss", "--speech", "missing.wav"]) == 2
    assert "cannot read missing.wav" in capsys.readouterr().err


@pytest.mark.e2e
@pytest.mark.parametrize("red", [False, True])
def test_real_calls_through_the_relay_are_heard(red: bool) -> None:
    whole = load_speech()
    speech = Speech(whole.pcm[: 4 * 24_000], whole.utterances[:1])
    network = Impairment(loss=0.05, jitter_ms=20, delay_ms=10)
    script = Script(speech, network, red, lead_s=2, calm_s=4, after_s=3)
    calls = heard_for_real(script, 2)
    assert len(calls) == 2
    figures = loss_figures(calls, speech, network.delay_ms, lambda sound: whole.utterances[0].text)
    assert figures.keys() >= set(FIGURES)
    assert (figures["word_error"], figures["words"]) == (0, 16)
    assert 0 < float(figures["lost"] or 0) < 0.2
    for call in calls:
        # What was said came through: speech is loud, whatever the machine's load did to the rest.
        frames = call.recording.pcm.astype(np.float32) / 32768
        assert np.sqrt((frames**2).mean(axis=1)).max() > 0.05
        assert losscalls.STANDSTILL_S + script.calm_s < call.live_s[1] - call.live_s[0] < 60
