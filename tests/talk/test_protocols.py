"""Both protocols without a socket: what a server may say, sense and nonsense."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rtc_server.media.frames import FRAME_SAMPLES
from rtc_server.media.oggopus import OggOpusWriter
from rtc_server.talk.moshi import MoshiProtocol
from rtc_server.talk.pcm import PcmProtocol
from rtc_server.talk.protocol import Done, Heard, Message, Ready, Remark, Sound, Wishes, Words


def moshi() -> MoshiProtocol:
    return MoshiProtocol(Wishes())


@pytest.mark.parametrize(
    ("message", "heard"),
    [
        (b"\x00", [Ready()]),
        (b"\x00\x00\x00\x00\x01\x00\x00\x00\x02", [Ready()]),
        (b"\x02 hello", [Words(" hello")]),
        (b"\x05no", [Remark("no")]),
        (b"\x05\xff", [Remark("\ufffd")]),
        *(
            (message, [])
            for message in (b"", "text", b"\x01", b"\x01junk", b"\x02", b"\x03\x00", b"\x04{}", b"\x06", b"\x77")
        ),
    ],
)
def test_what_a_moshi_server_says(message: Message, heard: list[Heard]) -> None:
    assert list(moshi().receive(message)) == heard


def test_letters_may_be_cut_between_messages() -> None:
    protocol = moshi()
    pieces = [protocol.receive(b"\x02" + bytes([byte])) for byte in "für".encode()]
    assert "".join(word.text for piece in pieces for word in piece if isinstance(word, Words)) == "für"


def test_a_servers_voice_is_heard_and_ours_can_be_heard_by_it() -> None:
    tone = (0.3 * np.sin(np.arange(FRAME_SAMPLES) / 5)).astype(np.float32)
    protocol, writer = moshi(), OggOpusWriter()
    heard = [sound for _ in range(5) for sound in protocol.receive(b"\x01" + writer.encode(tone))]
    assert sum(sound.pcm.size for sound in heard if isinstance(sound, Sound)) > 4 * FRAME_SAMPLES
    first = protocol.audio(tone)
    assert first[:5] == b"\x01OggS" and b"OpusHead" in first


def test_both_prompts_are_always_asked_for_and_the_seed_only_if_wanted() -> None:
    assert moshi().query == {"text_prompt": "", "voice_prompt": ""}
    assert MoshiProtocol(Wishes(voice="NATF2.pt", seed=0)).query["seed"] == "0"


@pytest.mark.parametrize(
    ("message", "heard"),
    [
        ({"type": "ready"}, [Ready()]),
        ({"type": "text", "text": " hello"}, [Words(" hello")]),
        ({"type": "done"}, [Done()]),
        ({"type": "error", "error": "no", "hint": "ask again"}, [Remark("no; ask again")]),
        ({"type": "error"}, [Remark("an error")]),
        ({"type": "dropped", "dropped_ms": 80}, [Remark("80 ms of your audio came too late and were dropped")]),
        ({"type": "session.stats", "loss": 0}, []),
        *((junk, []) for junk in ([], "ready", 7, {"type": None}, {})),
    ],
)
def test_what_a_raw_server_says(message: object, heard: list[Heard]) -> None:
    assert list(PcmProtocol(Wishes(), "realtime").receive(json.dumps(message))) == heard


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_what_is_no_json_is_nothing(text: str) -> None:
    assert not PcmProtocol(Wishes(), "realtime").receive(text)


def test_samples_may_be_cut_between_messages() -> None:
    protocol = PcmProtocol(Wishes(), "realtime")
    data = np.array([0.25, -0.5], "<f4").tobytes()
    heard = [*protocol.receive(data[:3]), *protocol.receive(data[3:])]
    assert [sound.pcm.tolist() for sound in heard if isinstance(sound, Sound)] == [[0.25, -0.5]]
