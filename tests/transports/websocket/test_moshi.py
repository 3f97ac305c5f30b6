from __future__ import annotations

import json

import numpy as np
import pytest

from rtc_server import events
from rtc_server.engine.stepper import FRAME_SAMPLES, FrameSpec, Sampling, SessionPrompt
from rtc_server.errors import BadRequest, ClientError, EngineFull, UnknownVoice
from rtc_server.events import Numbered, ServerEvent
from rtc_server.media.oggopus import OggOpusReader
from rtc_server.transports.websocket import moshi
from rtc_server.transports.websocket.moshi import Kind, MoshiDialect
from tests.session.fakes import speech

SPEC = FrameSpec(name="model", summary="A model.", voices=("NATF0", "NATM0", "odd.wav"))
ONE_VOICE = FrameSpec(name="plain", summary="One voice.")


def prompt(*query: tuple[str, str], spec: FrameSpec = SPEC) -> SessionPrompt:
    return moshi.prompt_of(query, spec)


def said(*told: ServerEvent) -> list[bytes]:
    dialect = MoshiDialect()
    return [message for seq, event in enumerate(told, 1) for message in dialect.event(Numbered(seq, event))]


# ---- the query -------------------------------------------------------------------------------------------------------


def test_nothing_is_required() -> None:
    assert prompt() == SessionPrompt()


def test_everything_is_honoured() -> None:
    asked = prompt(
        ("text_prompt", "You are kind."),
        ("voice_prompt", "NATM0.pt"),
        ("seed", "7"),
        ("text_temperature", "0.7"),
        ("text_topk", "25"),
        ("audio_temperature", "0.8"),
        ("audio_topk", "250"),
    )
    assert asked == SessionPrompt("You are kind.", "NATM0", 7, Sampling(0.8, 250, 0.7, 25))


def test_the_other_spelling_of_top_k_is_known() -> None:
    assert prompt(("text_top_k", "3"), ("audio_top_k", "4")).sampling == Sampling(text_top_k=3, audio_top_k=4)


def test_what_is_empty_is_as_if_it_were_not_there() -> None:
    names = ("text_prompt", "voice_prompt", "seed", "text_temperature", "text_topk", "audio_temperature", "audio_topk")
    assert prompt(*((name, " ") for name in names)) == SessionPrompt()


def test_what_the_web_clients_send_beside_it_is_ignored() -> None:
    names = ("pad_mult", "repetition_penalty", "repetition_penalty_context", "text_seed", "audio_seed", "email")
    names += ("worker_auth_id", "max_steps")
    assert prompt(*((name, "x") for name in names), *((name, "y") for name in names)) == SessionPrompt()


def test_seed_of_minus_one_is_none() -> None:
    assert prompt(("seed", "-1")).seed is None


@pytest.mark.parametrize("name", ["NATF0.pt", "NATF0.wav", "NATF0.safetensors", "NATF0", " NATF0.pt "])
def test_voice_is_named_with_the_file_or_without(name: str) -> None:
    assert prompt(("voice_prompt", name)).voice == "NATF0"


def test_voice_that_is_called_like_a_file_is_found() -> None:
    assert prompt(("voice_prompt", "odd.wav")).voice == "odd.wav"


def test_where_there_is_one_voice_each_name_gets_it() -> None:
    assert prompt(("voice_prompt", "NATF0.pt"), spec=ONE_VOICE).voice is None


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("seed", "abc", "from -1 to"),
        ("seed", "-2", "from -1 to"),
        ("seed", "1.5", "a whole number"),
        ("seed", "99999999999999999999", "from -1 to"),
        ("seed", "9" * 5000, "from -1 to"),
        ("text_temperature", "nan", "from 0 to 10"),
        ("text_temperature", "inf", "from 0 to 10"),
        ("audio_temperature", "-0.1", "from 0 to 10"),
        ("audio_topk", "-5", "from 0 to 100000"),
        ("text_topk", "many", "from 0 to 100000"),
        ("voice_prompt", "NOPE.pt", "NATF0, NATM0"),
        ("voice_prompt", "../NATF0.pt", "NATF0, NATM0"),
        ("text_prompt", "You are a patient museum guide. " * 1400, "at most 4000"),
    ],
)
def test_what_cannot_be_had_is_refused_by_name_and_with_what_can(name: str, value: str, allowed: str) -> None:
    with pytest.raises(ClientError) as refused:
        prompt((name, value))
    assert refused.value.message.startswith(name)
    assert len(refused.value.message) < 120
    assert allowed in refused.value.hint


@pytest.mark.parametrize("names", [("voice_prompt", "voice_prompt"), ("text_topk", "text_top_k")])
def test_a_parameter_that_comes_twice_is_refused(names: tuple[str, str]) -> None:
    with pytest.raises(BadRequest, match=f"{names[0]} is given twice"):
        prompt(*((name, "1") for name in names))


def test_an_unknown_voice_has_its_own_code() -> None:
    with pytest.raises(UnknownVoice):
        prompt(("voice_prompt", "NOPE"))


# ---- from the client -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "kind", "payload"),
    [
        (b"\x01OggS", Kind.AUDIO, b"OggS"),
        (b"\x01", Kind.AUDIO, b""),
        (b"\x02hi", Kind.TEXT, b"hi"),
        (b"\x03\x00", Kind.CONTROL, b"\x00"),
        (b"\x06", Kind.PING, b""),
        (b"\xff\x01", None, b""),
        (b"", None, b""),
        ("hello", None, b""),
    ],
)
def test_messages_are_told_apart_by_their_first_byte(data: str | bytes, kind: Kind | None, payload: bytes) -> None:
    assert moshi.split(data) == (kind, payload)


# ---- from the server -------------------------------------------------------------------------------------------------


def test_handshake_is_one_byte() -> None:
    assert said(events.SessionReady()) == [b"\x00"]


def test_words_are_utf_8() -> None:
    assert said(events.ResponseDelta(0, " naïve 🎈", 3, None)) == ["\x02 naïve 🎈".encode()]


def test_voice_is_one_ogg_stream_with_a_message_for_each_frame() -> None:
    dialect, reader = MoshiDialect(), OggOpusReader()
    frames = [dialect.audio(speech(seed)) for seed in range(5)]
    assert all(frame[0] == Kind.AUDIO for frame in frames)
    assert [frame.count(b"OpusHead") for frame in frames] == [1, 0, 0, 0, 0]
    heard = [reader.feed(frame[1:]) for frame in frames]
    assert [part.size for part in heard[1:]] == [FRAME_SAMPLES] * 4
    assert np.concatenate(heard).std() == pytest.approx(
        np.concatenate([speech(seed) for seed in range(5)]).std(), rel=0.2
    )


def test_errors_are_sentences() -> None:
    event = events.ErrorEvent(code="bad", message="that went wrong", hint="do it right")
    assert said(event) == [b"\x05that went wrong; do it right"]
    assert moshi.refusal(EngineFull("all slots are busy")) == b"\x05all slots are busy"
    assert said(events.InputDropped(dropped_ms=160))[0].startswith(b"\x05160 ms of your audio")


def test_an_end_that_the_client_asked_for_needs_no_word() -> None:
    assert said(events.SessionEnded("client_closed"), events.SessionEnded("peer_closed")) == []


@pytest.mark.parametrize("reason", ["server_stopping", "engine_failed", "idle", "never_heard_of"])
def test_any_other_end_is_explained(reason: str) -> None:
    [sentence] = said(events.SessionEnded(reason))
    assert sentence[0] == Kind.ERROR and b"_" not in sentence and len(sentence) > 10


def test_an_end_that_is_near_is_announced() -> None:
    assert said(events.SessionEnding(5.0, "server_stopping")) == [
        b"\x05the conversation ends in 5 s: the server is shutting down"
    ]


def test_what_the_protocol_has_no_word_for_is_left_out() -> None:
    created = events.SessionCreated(id="x", engine={}, capabilities={}, resume_token="secret")
    assert said(created, events.SessionPrefill(1, 2), events.BargeIn(1, "speech", 80), events.ResponseDone(0)) == []
    assert "secret" not in json.dumps([message.decode() for message in said(created)])
