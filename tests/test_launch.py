from __future__ import annotations

from pathlib import Path

import pytest

from rtc_server import config
from rtc_server.engine.local import LocalEngine
from rtc_server.engine.remote import RemoteEngine
from rtc_server.launch import chosen_engine, engine_options, make_engine


def settings(**flags: object) -> config.Settings:
    return config.load(flags)


def test_an_engine_that_was_asked_for_is_taken_at_its_word() -> None:
    choice = chosen_engine(settings(engine="echo").engine)
    assert (choice.name, choice.reason) == ("echo", "Engine echo, as asked for.")


def test_auto_says_why_it_chose() -> None:
    assert chosen_engine(settings().engine).reason.startswith("Engine ")


def test_what_the_operator_said_reaches_the_engine() -> None:
    options = engine_options(
        settings(
            slots=3,
            model="a/b",
            revision="main",
            device="cuda:1",
            dtype="bf16",
            voices=Path("voices"),
            depformer_steps=16,
            max_context=1500,
            pin_prompt=True,
            weights="int8",
            kv="int8",
            threads=2,
        ).engine
    )
    assert (options.slots, options.model, options.revision, options.device) == (3, "a/b", "main", "cuda:1")
    assert (options.dtype, options.voices, options.depformer_steps) == ("bf16", Path("voices"), 16)
    assert (options.max_context, options.pin_prompt, options.threads) == (1500, True, 2)
    assert (options.weight_bits, options.kv_bits) == (8, 8)


@pytest.mark.parametrize(
    ("engine", "process", "kind"),
    [
        ("echo", "auto", LocalEngine),
        ("echo", "on", RemoteEngine),
        ("personaplex", "auto", RemoteEngine),
        ("personaplex", "off", LocalEngine),
    ],
)
def test_an_engine_runs_where_it_is_told_to(engine: str, process: str, kind: type) -> None:
    chosen = settings(engine=engine, engine_process=process)
    assert type(make_engine(engine, chosen.engine, chosen.log)) is kind
