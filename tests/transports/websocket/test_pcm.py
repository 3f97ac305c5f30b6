"""The words of the raw endpoint: what is understood, what is refused and why, what is told."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from rtc_server import events
from rtc_server.engine.stepper import FRAME_SAMPLES, FrameSpec, Sampling, SessionPrompt
from rtc_server.errors import BadEvent, BadRequest, EngineFull
from rtc_server.events import Numbered
from rtc_server.media.pcmformat import PcmEncoder
from rtc_server.transports.websocket.pcm import (
    MAX_TEXT_CHARS,
    Append,
    Finish,
    Flow,
    Ignored,
    Open,
    Other,
    PcmDialect,
    read,
    refusal,
)

SPEC = FrameSpec("fake", "For tests.", voices=("alto", "bass", "odd.pt"))


# ---- open ------------------------------------------------------------------------------------------------------------


def opened(**fields: Any) -> Open:
    message = read(json.dumps({"type": "open", **fields}))
    assert isinstance(message, Open)
    return message


def test_open_needs_nothing() -> None:
    assert opened() == Open()
    assert Open().prompt(SPEC) == SessionPrompt()
    assert (Open().rate, Open().format, Open().pace, Open().events) == (24_000, "f32", "input", False)


def test_open_carries_the_prompt() -> None:
    sampling = {"audio_temperature": 0.8, "audio_top_k": 250, "text_temperature": 0, "text_top_k": 25}
    asked = opened(persona="You are kind.", voice="bass", seed=7, sampling=sampling)
    assert asked.prompt(SPEC) == SessionPrompt("You are kind.", "bass", 7, Sampling(0.8, 250, 0.0, 25))


@pytest.mark.parametrize("blank", ["", "  ", None])
def test_a_blank_persona_or_voice_is_the_default(blank: str | None) -> None:
    assert opened(persona=blank, voice=blank).prompt(SPEC) == SessionPrompt()


def test_where_there_is_one_voice_there_is_nothing_to_choose() -> None:
    assert opened(voice="bass.pt").prompt(FrameSpec("fake", "For tests.")).voice is None


@pytest.mark.parametrize(("name", "format_"), [("f32", "f32"), ("f32le", "f32"), ("s16", "s16"), ("s16le", "s16")])
def test_formats_have_two_names(name: str, format_: str) -> None:
    assert opened(format=name).format == format_


def test_fields_that_are_not_known_are_ignored() -> None:
    assert opened(colour="green", sampling={}) == opened(sampling={})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"rate": 44_100}, ("rate", "48000")),
        ({"rate": 0}, ("rate", "24000")),
        ({"rate": "abc"}, ("rate", "24000")),
        ({"rate": 192_000, "channels": 2}, ("rate", "24000")),
        ({"channels": 2}, ("channels", "1")),
        ({"format": "s16be"}, ("format", "s16")),
        ({"format": "mulaw", "rate": 8000}, ("format", "f32")),
        ({"format": 16}, ("format", "f32")),
        ({"pace": "fast"}, ("pace", "realtime")),
        ({"events": "yes"}, ("events", "boolean")),
        ({"seed": -1}, ("seed", "0")),
        ({"seed": 2**63}, ("seed",)),
        ({"seed": "abc"}, ("seed", "integer")),
        ({"voice": 5}, ("voice", "string")),
        ({"sampling": 5}, ("sampling",)),
        ({"sampling": {"text_top_k": -5}}, ("sampling.text_top_k", "0")),
        ({"sampling": {"audio_temperature": float("nan")}}, ("sampling.audio_temperature", "10")),
        ({"sampling": {"temperature": 1}}, ("sampling.temperature", "unknown")),
        ({"resume": "x" * 257}, ("resume", "256")),
        ({"last_event": -1}, ("last_event", "0")),
    ],
)
def test_a_value_that_cannot_be_had_is_refused_by_name_with_what_can(
    fields: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(BadRequest) as refused:
        opened(**fields)
    assert refused.value.message.startswith(words[0])
    assert all(word in refused.value.message for word in words)
    assert refused.value.hint and refused.value.close_code == 1008


def test_the_token_stands_in_no_representation() -> None:
    assert "secret" not in repr(opened(resume="secret"))


# ---- other messages --------------------------------------------------------------------------------------------------


def test_close_is_the_end_of_the_audio() -> None:
    assert isinstance(read('{"type":"close"}'), Finish)


@pytest.mark.parametrize("kind", ["response.cancel", "playback.ack", "input.commit", "nobody.knows"])
def test_what_is_not_of_this_endpoint_is_left_to_the_session(kind: str) -> None:
    text = json.dumps({"type": kind, "cursor": 5})
    assert read(text) == Other(text)


def append(**fields: Any) -> str:
    return json.dumps({"type": "input.append", **fields})


def test_audio_may_come_as_text() -> None:
    audio = bytes(range(256))
    encoded = base64.b64encode(audio).decode()
    assert read(append(data=encoded)) == Append(audio)
    assert read(append(modality="audio", data=encoded)) == Append(audio)
    assert read(append()) == Append(b"")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"modality": "video", "data": "AAAA"}, "unsupported input modality: video"),
        ({"modality": ""}, "unsupported input modality: "),
        ({"data": "AAA"}, "input.append: data is not base64"),
        ({"data": "A-_A"}, "input.append: data is not base64"),
        ({"data": "\u00e9\ud800"}, "input.append: data is not base64"),
        ({"data": 5}, "data: Input should be a valid string"),
    ],
)
def test_audio_as_text_that_cannot_be_read_says_why(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadEvent) as refused:
        read(append(**fields))
    assert refused.value.message == message


@pytest.mark.parametrize(
    "text", ["", "hello", "{", "[]", "5", '"open"', "{}", '{"type":5}', "[" * 100_000, '{"type":"open"', "\ud800"]
)
def test_what_is_no_message_is_said_so(text: str) -> None:
    with pytest.raises(BadEvent):
        read(text)


def test_two_seconds_of_the_widest_audio_fit_into_a_text_and_more_is_refused_unread() -> None:
    two_seconds = base64.b64encode(bytes(2 * 48_000 * 4)).decode()
    assert isinstance(read(append(data=two_seconds)), Append)
    with pytest.raises(BadEvent, match=str(MAX_TEXT_CHARS)):
        read(append(data="A" * MAX_TEXT_CHARS))


def test_a_persona_that_no_engine_takes_is_read_all_the_same() -> None:
    """The engine knows its limit and says it."""
    persona = "You are a patient museum guide. " * 1400
    assert opened(persona=persona).persona == persona


@pytest.mark.parametrize(
    ("text", "flow"),
    [("MEDIA_XOFF", Flow.HOLD), ("MEDIA_XON", Flow.GO_ON), ("MEDIA_XON \n", Flow.GO_ON)],
)
def test_words_in_capitals_hold_our_audio_back_and_let_it_go(text: str, flow: Flow) -> None:
    assert read(text) is flow


@pytest.mark.parametrize(
    "text", ["MEDIA_START connection_id:c1 format:ulaw ptime:20", "DTMF_END digit:5", "FOO_UNKNOWN x:1", "HANGUP"]
)
def test_other_words_in_capitals_change_nothing(text: str) -> None:
    assert isinstance(read(text), Ignored)


# ---- what is told ----------------------------------------------------------------------------------------------------


def told(dialect: PcmDialect, *happened: events.ServerEvent) -> list[dict[str, Any]]:
    return [json.loads(text) for seq, event in enumerate(happened, 1) for text in dialect.event(Numbered(seq, event))]


def plain() -> PcmDialect:
    return PcmDialect(PcmEncoder("f32", 24_000), has_events=False)


def full() -> PcmDialect:
    return PcmDialect(PcmEncoder("f32", 24_000), has_events=True)


CONVERSATION: tuple[events.ServerEvent, ...] = (
    events.SessionPrefill(done=1, total=2),
    events.SessionReady(),
    events.ResponseCreated(response_index=0),
    events.ResponseDelta(response_index=0, data=" héllo", frame=3, rtp_timestamp=None),
    events.SessionStats(loss=0.0, jitter_delay_ms=0.0, lateness_ms=0.0, tick_ms=1.0, shed=0),
    events.InputDropped(dropped_ms=160),
    events.ResponseDone(response_index=0),
    events.SessionEnded(reason="client_closed"),
)


def test_without_events_there_are_a_few_plain_words() -> None:
    assert told(plain(), *CONVERSATION) == [
        {"type": "ready"},
        {"type": "text", "text": " héllo"},
        {"type": "dropped", "dropped_ms": 160},
        {"type": "done"},
    ]


def test_with_events_all_of_them_are_told_beside_ready_and_done() -> None:
    messages = told(full(), *CONVERSATION)
    assert [message for message in messages if "seq" not in message] == [{"type": "ready"}, {"type": "done"}]
    numbered = [message for message in messages if "seq" in message]
    assert numbered == [json.loads(events.encode(Numbered(seq, event))) for seq, event in enumerate(CONVERSATION, 1)]
    assert [message["type"] for message in messages][1:3] == ["session.ready", "ready"]
    assert messages[-1] == {"type": "done"}


def test_an_error_looks_the_same_in_both_ways_and_as_a_refusal() -> None:
    event = events.ErrorEvent(code="engine_full", message="no slot", hint="wait")
    expected = {"type": "error", "error": "no slot", "message": "no slot", "code": "engine_full", "hint": "wait"}
    assert told(plain(), event) == [expected]
    assert told(full(), event) == [expected | {"seq": 1}]
    assert json.loads(refusal(EngineFull("no slot", hint="wait"))) == expected


def test_who_takes_a_live_conversation_over_is_ready_once() -> None:
    dialect = plain()
    resumed = events.SessionResumed(gap_ms=80)
    assert told(dialect, resumed, resumed, events.SessionReady()) == [{"type": "ready"}]


def test_another_end_than_the_clients_own_is_an_error_that_says_which() -> None:
    (message,) = told(plain(), events.SessionEnded(reason="server_stopping"))
    assert (message["type"], message["code"]) == ("error", "server_stopping")
    assert "shutting down" in message["error"]
    assert [message["type"] for message in told(full(), events.SessionEnded(reason="idle"))] == ["session.ended"]


def test_a_frame_is_one_binary_message_in_the_format_that_was_asked_for() -> None:
    frame = np.linspace(-0.5, 0.5, FRAME_SAMPLES, dtype=np.float32)
    assert plain().audio(frame) == frame.astype("<f4").tobytes()
    narrow = PcmDialect(PcmEncoder("s16", 8_000), has_events=False)
    assert len(narrow.audio(frame)) == FRAME_SAMPLES // 3 * 2
