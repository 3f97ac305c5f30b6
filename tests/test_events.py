from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server import events
from rtc_server.errors import BadEvent


def server_events() -> list[type[events.ServerEvent]]:
    kinds = [value for value in vars(events).values() if isinstance(value, type)]
    return [kind for kind in kinds if issubclass(kind, events.ServerEvent) and kind is not events.ServerEvent]


def test_every_server_event_has_a_type_of_its_own() -> None:
    types = [event.type for event in server_events()]
    assert len(types) == len(set(types)) >= 20


@pytest.mark.parametrize("kind", server_events(), ids=lambda kind: kind.type)
def test_encoded_event_carries_type_and_fields(kind: type[events.ServerEvent]) -> None:
    samples = {
        "int": 1,
        "float": 0.5,
        "str": "é",
        "bool": True,
        "int | None": None,
        "float | None": None,
        "str | None": None,
        "dict[str, Any]": {},
    }
    fields = {field.name: samples[str(field.type)] for field in dataclasses.fields(kind)}
    decoded = json.loads(events.encode(events.Numbered(7, kind(**fields))))
    assert decoded == {"type": kind.type, **fields, "seq": 7}


def test_events_of_the_same_tick_are_an_array_in_order() -> None:
    first, second = events.Numbered(1, events.SessionReady()), events.Numbered(2, events.ResponseCreated(0))
    assert json.loads(events.encode(first, second)) == [
        {"type": "session.ready", "seq": 1},
        {"type": "response.created", "response_index": 0, "seq": 2},
    ]


def test_created_names_protocol_and_frame() -> None:
    created = events.SessionCreated(id="x", engine={}, capabilities={}).to_json()
    assert created["protocol"] == events.PROTOCOL
    assert created["frame_ms"] == 80


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ('{"type":"input.commit"}', events.InputCommit),
        ('{"type":"response.create","extra":[1,2]}', events.ResponseCreate),
        ('{"type":"response.cancel"}', events.ResponseCancel),
        ('{"type":"response.cancel","id":"7"}', events.ResponseCancel),
        ('{"type":"playback.ack","cursor":1200}', events.PlaybackAck),
        (b'{"type":"close"}', events.Close),
        ('{"type":"input.append","modality":"audio","data":"AAAA"}', events.InputAppend),
    ],
)
def test_client_events(message: str | bytes, kind: type[events.ClientEvent]) -> None:
    assert isinstance(events.decode(message), kind)


def test_unknown_type_is_told_apart_from_malformed() -> None:
    with pytest.raises(events.UnknownEvent):
        events.decode('{"type":"session.levitate"}')


@pytest.mark.parametrize(
    "message",
    [
        "",
        "x",
        "null",
        "[]",
        "{}",
        '{"type":null}',
        '{"type":"playback.ack","cursor":"12"}',
        '{"type":"playback.ack","cursor":1e400}',
        '{"type":"playback.ack","cursor":true}',
        "[" * 10_000,
        b"\xff\xfe",
        '{"type":"' + "x" * 20_000 + '"}',
        '{"type":"close","note":"' + "é" * 9_000 + '"}',
    ],
)
def test_malformed_message_is_a_bad_event(message: str | bytes) -> None:
    with pytest.raises(BadEvent):
        events.decode(message)


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_decode_raises_nothing_else(message: str | bytes) -> None:
    try:
        events.decode(message)
    except BadEvent as error:
        assert error.message
