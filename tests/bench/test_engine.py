import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rtc_server.bench import engine
from rtc_server.bench.engine import EngineOptions
from rtc_server.engine.personaplex.bench.spec import EngineBench
from rtc_server.errors import ConfigError

TINY = "--preset tiny --slots 1 --fill 3 --ticks 2 --device cpu"


def parse(flags: str = "") -> EngineOptions:
    parser = argparse.ArgumentParser()
    engine.add_arguments(parser)
    return EngineOptions.from_arguments(parser.parse_args(shlex.split(flags)))


def test_flags_and_dataclass_agree_on_the_defaults() -> None:
    assert parse() == EngineOptions()


def test_flags_reach_the_options() -> None:
    flags = (
        "--preset 7b --part mimi --slots 2,16 --live 1 --fill 100,2900 --depformer-steps 16 --weights int8 --kv int8"
        " --device cuda:1 --dtype bf16 --threads 3 --ticks 7 --repeat 3 --peer some/python --json"
    )
    bench = EngineBench(
        preset="7b",
        part="mimi",
        slots=(2, 16),
        live=1,
        fill=(100, 2900),
        depformer_steps=16,
        weight_bits=8,
        kv_bits=8,
        device="cuda:1",
        dtype="bf16",
        threads=3,
        ticks=7,
        peer=Path("some/python"),
    )
    assert parse(flags) == EngineOptions(bench, repeat=3, json=True)


@pytest.mark.parametrize("flag", ["--repeat 0", "--slots 0", "--fill 0", "--live 2", "--ticks 0"])
def test_a_value_out_of_range_names_its_flag(flag: str) -> None:
    with pytest.raises(ConfigError, match=flag.split()[0]):
        parse(flag)


@pytest.mark.parametrize("flag", ["--slots a", "--preset huge", "--weights int4", "--part ears"])
def test_a_value_of_the_wrong_kind_is_wrong_usage(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        parse(flag)
    assert raised.value.code == 2
    assert flag.split()[0] in capsys.readouterr().err


def test_parsing_needs_no_torch() -> None:
    code = "import sys, rtc_server.bench.engine; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_json_is_a_line_a_run_and_one_for_the_best(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    assert engine.run(parse(f"{TINY} --repeat 2 --weights int8 --json")) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    calls = [line for line in lines if line["part"] == "lm"]
    assert [line["run"] for line in calls] == [1, 2, "best"]
    assert {"bench", "part", "slots", "dtype", "tick_ms", "floor_ms", "bytes", "limit_ms"} <= set(calls[0])
    assert calls[2]["tick_ms"] == min(line["tick_ms"] for line in calls[:2])
    errors = {line["of"]: line["rms"] for line in lines if line["part"] == "rounding"}
    assert 0 < errors["text logits"] < 0.1


def test_people_get_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    engine.run(parse(TINY))
    table = capsys.readouterr().out
    assert "x @ W.T alone, ms" in table and "engine" in table
