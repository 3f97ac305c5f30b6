from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server import errors
from rtc_server.engine.client import Capacity, Lease, SlotOutput, SlotStatus
from rtc_server.engine.process.messages import (
    FROM_ENGINE,
    TO_ENGINE,
    Drain,
    ErrorReport,
    Exchange,
    Failed,
    FromEngine,
    Heartbeat,
    Launch,
    Leased,
    OutputReport,
    Refused,
    Release,
    Reserve,
    SampleVoice,
    Started,
    Stop,
    Ticked,
    ToEngine,
    VoiceSampled,
    decode,
    encode,
)
from rtc_server.engine.process.telemetry import snapshot
from rtc_server.engine.process.wire import Frame, FrameDecoder, WireError
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.slots import SlotsClosing
from rtc_server.engine.stepper import FrameSpec, Heard, Sampling, SamplingSettings, SessionPrompt, Setting
from rtc_server.errors import EngineError, EngineFull

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
numbers = st.integers(0, 2**63 - 1)
floats = st.floats(allow_nan=False, allow_infinity=False)
maybe = st.none()

leases = st.builds(Lease, texts, texts, st.integers(0, 511), texts)
capacities = st.builds(Capacity, st.integers(0, 512), st.integers(0, 512), st.booleans(), st.booleans())
samplings = st.builds(Sampling, maybe | floats, maybe | numbers, maybe | floats, maybe | numbers)
prompts = st.builds(SessionPrompt, maybe | texts, maybe | texts, maybe | numbers, samplings)
heards = st.builds(Heard, texts, numbers, numbers, st.booleans())
outputs = st.builds(
    OutputReport,
    st.sampled_from(SlotStatus),
    maybe | texts,
    st.lists(heards, max_size=3).map(tuple),
    st.tuples(numbers, numbers),
)
reports = st.builds(ErrorReport, st.sampled_from(["EngineFull", "BadRequest", "Unheard"]), texts, texts)
options = st.builds(
    EngineOptions,
    st.integers(1, 512),
    asr_model=maybe | st.just(Path("a/b")),
    model=maybe | texts,
    pin_prompt=st.booleans(),
)

to_engine = st.one_of(
    st.builds(Launch, texts, options, texts, floats),
    st.builds(Reserve, numbers, prompts),
    st.builds(Exchange, numbers, st.lists(leases, max_size=4).map(tuple), st.lists(st.booleans()).map(tuple), numbers),
    st.builds(SampleVoice, numbers, texts),
    st.builds(Release, leases),
    st.just(Drain()),
    st.just(Stop()),
)
from_engine = st.one_of(
    st.builds(Started, st.builds(FrameSpec, texts, texts, texts, st.lists(texts).map(tuple)), capacities),
    st.builds(Failed, reports),
    st.builds(Leased, numbers, leases, capacities),
    st.builds(Ticked, numbers, numbers, floats, floats, numbers, st.lists(outputs, max_size=4).map(tuple), capacities),
    st.builds(VoiceSampled, numbers, st.integers(0, 75), capacities),
    st.builds(Refused, numbers, reports, capacities),
    st.builds(Heartbeat, capacities, st.just(snapshot())),
)


@given(to_engine, st.binary(max_size=100))
def test_what_the_server_says_arrives(message: ToEngine, payload: bytes) -> None:
    [frame] = FrameDecoder().feed(encode(TO_ENGINE, message, payload))
    assert (decode(TO_ENGINE, frame), frame.payload) == (message, payload)


@given(from_engine, st.binary(max_size=100))
def test_what_the_engine_says_arrives(message: FromEngine, payload: bytes) -> None:
    [frame] = FrameDecoder().feed(encode(FROM_ENGINE, message, payload))
    assert (decode(FROM_ENGINE, frame), frame.payload) == (message, payload)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(
    st.binary(max_size=100)
    | st.fixed_dictionaries(
        {"kind": st.sampled_from(["launch", "reserve", "exchange", "ticked", "heartbeat", "nothing"])},
        optional=dict.fromkeys(("prompt", "leases", "capacity", "outputs", "metrics", "options"), json_values),
    ).map(lambda value: json.dumps(value).encode())
)
def test_what_is_no_message_is_a_wire_error(header: bytes) -> None:
    for adapter in (TO_ENGINE, FROM_ENGINE):
        with pytest.raises(WireError, match="no message of ours"):
            decode(adapter, Frame(header))


def test_an_answer_is_no_request() -> None:
    [frame] = FrameDecoder().feed(encode(TO_ENGINE, Drain()))
    with pytest.raises(WireError, match="drain"):
        decode(FROM_ENGINE, frame)


def test_what_was_said_is_not_quoted_in_an_error() -> None:
    [frame] = FrameDecoder().feed(encode(TO_ENGINE, Reserve(1, SessionPrompt(persona="a secret"))))
    with pytest.raises(WireError) as refused:
        decode(FROM_ENGINE, frame)
    assert "secret" not in str(refused.value)


def test_every_option_of_an_engine_arrives() -> None:
    odd = EngineOptions(**{field.name: _odd_value(field) for field in dataclasses.fields(EngineOptions)})
    [frame] = FrameDecoder().feed(encode(TO_ENGINE, Launch("echo", odd, "engine", 5.0)))
    launch = decode(TO_ENGINE, frame)
    assert isinstance(launch, Launch) and launch.options == odd
    assert isinstance(launch.options.asr_model, Path)


def _odd_value(field: dataclasses.Field[object]) -> object:
    """One that is not the default."""
    kind = str(field.type)
    return Path("some/where") if "Path" in kind else "odd" if "str" in kind else True if "bool" in kind else 77


ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.RtcServerError)]


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_crosses_by_its_class(kind: type[errors.RtcServerError]) -> None:
    error = ErrorReport.of(kind("what failed", hint="what to do")).to_error()
    assert (type(error), error.message, error.hint) == (kind, "what failed", "what to do")


def test_an_error_of_a_class_within_is_told_as_the_public_one() -> None:
    assert type(ErrorReport.of(SlotsClosing("all in use")).to_error()) is EngineFull


def test_an_error_that_is_not_ours_is_quoted() -> None:
    error = ErrorReport.of(MemoryError("no room\udcff")).to_error()
    assert type(error) is EngineError and error.message == "MemoryError: no room?"


@pytest.mark.parametrize("name", ["ClassVar", "__builtins__", "SystemExit", ""])
def test_only_errors_of_ours_are_raised(name: str) -> None:
    assert type(ErrorReport(name, "what failed").to_error()) is EngineError


def test_numbers_and_characters_of_an_engine_are_made_fit_to_be_sent() -> None:
    heard = Heard("a\ud800b", np.int64(1), np.int64(2), np.True_)  # type: ignore[arg-type]
    report = OutputReport.of(SlotOutput(SlotStatus.LIVE, None, "\udfff", (heard,), (np.int64(1), np.int64(2))))  # type: ignore[arg-type]
    assert report == OutputReport(SlotStatus.LIVE, "?", (Heard("a?b", 1, 2, True),), (1, 2))
    encode(FROM_ENGINE, Ticked(0, 0, 0.0, 0.0, 0, (report,), Capacity(1, 1, False, True)))


def test_half_a_character_in_a_prompt_cannot_be_sent() -> None:
    with pytest.raises(WireError, match="reserve cannot be sent"):
        encode(TO_ENGINE, Reserve(1, SessionPrompt(persona="\ud800")))


def test_a_setting_is_whole_or_not_as_it_was() -> None:
    settings = SamplingSettings(Setting(0.8, 0, 10.0), Setting(250, 1, 250), Setting(0.7, 0, 10.0), Setting(25, 1, 250))
    started = Started(FrameSpec("name", "summary", sampling=settings), Capacity(1, 0, False, True))
    [frame] = FrameDecoder().feed(encode(FROM_ENGINE, started))
    arrived = decode(FROM_ENGINE, frame)
    assert isinstance(arrived, Started) and arrived.spec.sampling == settings
    assert isinstance(arrived.spec.sampling.audio_top_k.default, int)
