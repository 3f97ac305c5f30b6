import argparse
import shlex

import pytest

from rtc_server.bench import calls, latency
from rtc_server.bench.calls import CallsOptions
from rtc_server.bench.latency import LatencyOptions
from rtc_server.errors import ConfigError


def parse_latency(*flags: str) -> LatencyOptions:
    parser = argparse.ArgumentParser()
    latency.add_arguments(parser)
    return LatencyOptions.from_arguments(parser.parse_args(flags))


def parse_calls(*flags: str) -> CallsOptions:
    parser = argparse.ArgumentParser()
    calls.add_arguments(parser)
    return CallsOptions.from_arguments(parser.parse_args(flags))


def test_flags_and_dataclass_agree_on_the_defaults() -> None:
    assert parse_latency() == LatencyOptions()
    assert parse_calls() == CallsOptions()


def test_flags_reach_the_options() -> None:
    options = parse_latency(
        *shlex.split(
            "--url http://10.0.0.1:1/whip --adapter whip --calls 3 --seconds 12 --server-cpu none --client-cpu 2"
        ),
        *shlex.split("--no-events --repeat 3 --peer aiortc --json --connects 0 --loss 0.02 --drop-at 4 8"),
    )
    assert options == LatencyOptions(
        url="http://10.0.0.1:1/whip",
        adapter="whip",
        calls=3,
        seconds=12.0,
        server_cpu=None,
        client_cpu=2,
        events=False,
        repeat=3,
        peer="aiortc",
        json=True,
        connects=0,
        loss=0.02,
        drop_at=(4.0, 8.0),
    )


def test_a_ramp_replaces_the_number_of_calls() -> None:
    assert parse_calls("--ramp", "20,40,60").sizes == (20, 40, 60)
    assert parse_calls("--calls", "7").sizes == (7,)


def test_attributes_of_other_flags_are_ignored() -> None:
    assert LatencyOptions.from_arguments(argparse.Namespace(command="bench", run=print, calls=2)).calls == 2


@pytest.mark.parametrize(
    "flags",
    [
        ["--calls", "0"],
        ["--calls", "1001"],
        ["--seconds", "0"],
        ["--seconds", "nan"],
        ["--repeat", "0"],
        ["--loss", "1"],
        ["--loss", "-0.1"],
        ["--drop-at", "21"],
        ["--drop-at", "0"],
        ["--connects", "-1"],
        ["--url", "ftp://example.org"],
        ["--url", "127.0.0.1:8124"],
    ],
)
def test_a_value_out_of_range_names_its_flag(flags: list[str]) -> None:
    with pytest.raises(ConfigError, match=flags[0]):
        parse_latency(*flags)


def test_a_ramp_has_the_same_limits() -> None:
    with pytest.raises(ConfigError, match="--ramp 0"):
        parse_calls("--ramp", "20,0")


@pytest.mark.parametrize("flags", [["--server-cpu", "-1"], ["--ramp", "a"], ["--peer", "nobody"], ["--adapter", "sip"]])
def test_a_value_of_the_wrong_kind_is_wrong_usage(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        parse_calls(*flags)
    assert raised.value.code == 2
    assert flags[0] in capsys.readouterr().err


def test_phone_calls_go_to_a_sip_uri_and_have_no_stock_peer() -> None:
    assert parse_calls("--sip", "--url", "sip:100@10.0.0.1:5060").sip
    for flags in ("--sip --url http://10.0.0.1:1", "--sip --peer aiortc", "--url sip:100@10.0.0.1"):
        with pytest.raises(ConfigError):
            parse_calls(*flags.split())
