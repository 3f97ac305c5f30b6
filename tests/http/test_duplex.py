"""The raw endpoint as tools use it: over a real socket, with an echo at the other end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtc_server.engine.stepper import FRAME_SAMPLES, Sampling, SessionPrompt
from rtc_server.media.pcm import to_int16
from rtc_server.session import session as session_module
from rtc_server.transports.websocket import intake
from tests.http.rawtool import DTYPES, Samples, Tool, line, noise, padded, through_int16, until

SCRIPTS = Path(__file__).parents[1] / "data" / "ws"


def script(name: str) -> list[tuple[str, str]]:
    """(what, argument) of each step: ``>`` a binary message, ``>T`` a text message, ``~`` a pause in milliseconds."""
    steps = [line.partition(" ") for line in (SCRIPTS / name).read_text().splitlines() if not line.startswith("#")]
    return [(what, argument) for what, _, argument in steps]


# ---- the protocol ---------------------------------------------------------------------------------------------------


async def test_open_audio_close() -> None:
    pcm = noise(5 * FRAME_SAMPLES)
    async with line() as world, world.call() as tool:
        world.engine.text = " word"
        await tool.sound(pcm)
        await tool.finish()
        assert np.array_equal(tool.heard, through_int16(pcm))
        assert tool.messages == [{"type": "ready"}, *[{"type": "text", "text": " word"}] * 5, {"type": "done"}]
        assert tool.close_code == 1000


async def test_audio_before_open_opens_with_the_defaults() -> None:
    pcm = noise(2 * FRAME_SAMPLES)
    async with line() as world, world.socket() as tool:
        await tool.sound(pcm)
        await tool.finish()
        assert world.engine.prompts == [SessionPrompt()]
        assert np.array_equal(tool.heard, through_int16(pcm))
        assert tool.types == ["ready", "done"]


async def test_the_prompt_reaches_the_engine() -> None:
    sampling = {"audio_temperature": 0.8, "text_top_k": 25}
    asked = {"persona": "You are kind.", "voice": "bass.pt", "seed": 7, "sampling": sampling}
    async with line() as world, world.call(**asked) as tool:
        assert world.engine.prompts == [SessionPrompt("You are kind.", "bass", 7, Sampling(0.8, None, None, 25))]
        await tool.finish()


@pytest.mark.parametrize("again", [{}, {"voice": "nobody"}, {"rate": 5}], ids=["as before", "another", "a bad one"])
async def test_a_second_open_is_refused_and_the_conversation_goes_on(again: dict[str, Any]) -> None:
    pcm = noise(FRAME_SAMPLES)
    async with line() as world, world.call() as tool:
        await tool.say(type="open", **again)
        error = await tool.until("error")
        assert error["error"] == "session already open"
        await tool.sound(pcm)
        await tool.finish()
        assert np.array_equal(tool.heard, through_int16(pcm))
        assert len(world.engine.prompts) == 1


async def test_a_client_that_says_nothing_but_close_is_done() -> None:
    async with line() as world:
        async with world.socket() as tool:
            await tool.finish()
            assert (tool.types, tool.close_code) == (["done"], 1000)
        async with world.call(rate=16_000) as tool:
            await tool.finish()
            assert (tool.types, tool.close_code) == (["ready", "done"], 1000)
        assert world.house.stepped_frames == 0


# ---- audio -----------------------------------------------------------------------------------------------------------


async def test_samples_that_were_cut_in_two_are_put_together() -> None:
    sent = b""
    async with line() as world, world.call(format="s16le") as tool:
        for what, argument in script("odd_byte_chunks.hex"):
            assert what == ">"
            await tool.socket.send_bytes(bytes.fromhex(argument))
            sent += bytes.fromhex(argument)
        await tool.socket.send_bytes(b"\x01")  # half a sample is no sample
        await tool.finish()
        expected = np.frombuffer(sent, "<i2")
        assert len(expected) == 2 * FRAME_SAMPLES
        assert np.array_equal(world.stepped(), expected)
        assert np.array_equal(tool.heard * 32768, expected)
        assert (tool.types, tool.close_code) == (["ready", "done"], 1000)


@pytest.mark.parametrize("format_", DTYPES)
@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000, 48_000])
async def test_a_tone_keeps_its_pitch_and_its_length_both_ways(rate: int, format_: str) -> None:
    pcm = (0.4 * np.sin(2 * np.pi * 1000 * np.arange(rate * 2 // 5) / rate)).astype(np.float32)
    async with line() as world, world.call(rate=rate, format=format_) as tool:
        for chunk in np.array_split(pcm, 7):
            await tool.sound(chunk)
        await tool.finish()
        assert pitch_hz(world.stepped() / 32768, 24_000) == pytest.approx(1000, abs=5)
        assert pitch_hz(tool.heard, rate) == pytest.approx(1000, abs=5)
        assert len(tool.heard) * 24_000 == len(world.stepped()) * rate
        delay = 0 if rate == 24_000 else 2 * 32 * rate // min(rate, 24_000)  # one filter each way
        assert np.abs(tool.heard[delay : delay + len(pcm)] - pcm).max() < 0.03


def pitch_hz(pcm: Any, rate: int) -> float:
    """By zero crossings of the loud part."""
    loud = pcm[np.flatnonzero(np.abs(pcm) > 0.2)[0] : np.flatnonzero(np.abs(pcm) > 0.2)[-1]]
    rising = np.flatnonzero((loud[:-1] < 0) & (loud[1:] >= 0))
    return float((len(rising) - 1) * rate / (rising[-1] - rising[0]))


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"rate": 44_100, "format": "f32le"}, "rate"),
        ({"rate": 8000, "format": "mulaw"}, "format"),
        ({"rate": 24_000, "format": "s16be"}, "format"),
        ({"rate": 0}, "rate"),
        ({"rate": "abc"}, "rate"),
        ({"rate": 192_000, "channels": 2}, "rate"),
        ({"channels": 2}, "channels"),
        ({"seed": -1}, "seed"),
        ({"voice": "nobody"}, "nobody"),
        ({"persona": "You are a patient museum guide. " * 1400}, "44800"),
        ({"resume": "guess"}, "no such session"),
    ],
)
async def test_what_cannot_be_had_is_refused_with_a_reason_before_any_work(asked: dict[str, Any], name: str) -> None:
    async with line() as world, world.socket() as tool:
        await tool.open(**asked)
        assert await tool.until_closed() == 1008
        (error,) = tool.messages
        assert error["type"] == "error" and name in error["error"] and error["hint"]
        assert name in tool.close_reason
        assert world.engine.prompts == []


@pytest.mark.parametrize("how", ["one message", "many messages", "text messages"])
async def test_a_recording_that_is_sent_at_once_is_heard_as_a_whole_and_comes_back_to_the_sample(how: str) -> None:
    """Far more of it than the engine's queue holds: the rest is read ahead."""
    pcm = noise(5 * 24_000 + 7)
    async with line() as world, world.call() as tool:
        sending = asyncio.create_task(send(tool, pcm, how))
        await tool.until_heard(len(pcm) // 2)
        await sending
        await tool.finish()
        assert np.array_equal(tool.heard, through_int16(padded(pcm)))
        assert tool.types == ["ready", "done"]


async def test_what_is_too_far_ahead_is_not_read_from_the_socket_and_stepped_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake, "READ_AHEAD_SAMPLES", FRAME_SAMPLES)
    pcm = noise(20 * 24_000)  # 1.9 MB
    async with line() as world, world.call() as tool:
        world.ticking.clear()
        sending = asyncio.create_task(send(tool, pcm, "many messages"))
        leg, most_ms = world.session.leg, 80 + 1000 + 80  # the next frame, the queue behind it, and what is read ahead
        assert leg is not None
        await until(lambda: leg.stats().jitter_delay_ms == most_ms)
        await asyncio.sleep(0.1)
        assert leg.stats().jitter_delay_ms == most_ms  # the rest waits in the sockets, which may hold all of it
        world.ticking.set()
        await tool.until_heard(len(pcm) // 2)
        await sending
        await tool.finish()
        assert np.array_equal(tool.heard, through_int16(padded(pcm)))


async def send(tool: Tool, pcm: Samples, how: str) -> None:
    if how == "one message":
        await tool.sound(pcm)
        return
    for chunk in np.array_split(pcm, 97):
        await (tool.sound(chunk) if how == "many messages" else tool.append(chunk))


async def test_for_who_does_not_read_for_a_while_the_engine_waits() -> None:
    pcm = noise(10 * 48_000)
    async with line() as world, world.call(rate=48_000) as tool:
        sending = asyncio.create_task(tool.sound(pcm))
        await until(lambda: world.session.frames > 0)
        stepped = 0
        while len(world.stepped()) > stepped:
            stepped = len(world.stepped())
            await asyncio.sleep(0.1)
        assert stepped < 8 * 24_000
        await tool.until_heard(2 * stepped)
        await sending
        await tool.finish()
        assert len(world.stepped()) >= 10 * 24_000
        assert len(tool.heard) == 2 * len(world.stepped())


@pytest.mark.parametrize("samples", [1, FRAME_SAMPLES - 1, FRAME_SAMPLES, FRAME_SAMPLES + 1])
async def test_close_pads_the_last_piece_to_a_frame(samples: int) -> None:
    pcm = noise(samples)
    async with line() as world, world.call() as tool:
        await tool.sound(pcm)
        await tool.finish()
        assert np.array_equal(tool.heard, through_int16(padded(pcm)))


async def test_no_engine_time_passes_while_the_audio_is_the_clock_and_none_comes() -> None:
    async with line() as world, world.call() as tool:
        await tool.sound(noise(FRAME_SAMPLES))
        await tool.until_heard(FRAME_SAMPLES)
        await asyncio.sleep(0.1)
        assert len(world.stepped()) == FRAME_SAMPLES
        await tool.finish()


# ---- real-time pace --------------------------------------------------------------------------------------------------


async def test_at_real_time_the_newest_second_is_kept_and_the_rest_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "STATS_EVERY_S", 0.05)
    pcm = noise(3 * 24_000)
    async with line() as world, world.call(pace="realtime") as tool:
        await tool.until_heard(FRAME_SAMPLES)  # silence: time is the clock
        world.ticking.clear()
        await asyncio.sleep(0.02)
        await tool.sound(pcm)
        await tool.heard_out()
        world.ticking.set()
        dropped = await tool.until("dropped")
        assert 1900 <= dropped["dropped_ms"] <= 2000
        await tool.finish()
        stepped = world.stepped().tobytes()
        assert to_int16(pcm[-12_000:]).tobytes() in stepped
        assert to_int16(pcm[24_000:26_000]).tobytes() not in stepped


async def test_batches_of_a_second_are_heard_without_a_loss() -> None:
    """As a tab in the background sends them: its timers run once a second."""
    async with line() as world, world.call(pace="realtime") as tool:
        await tool.until_heard(FRAME_SAMPLES)
        world.ticking.clear()
        await asyncio.sleep(0.02)
        world.engine.exchanges.clear()
        for number in range(4):
            await tool.sound(noise(24_000, seed=number))
            await tool.heard_out()
            await world.tick(12 + number % 2)
        heard = np.abs(world.stepped().reshape(-1, FRAME_SAMPLES)).max(axis=1)
        assert (heard > 0).mean() > 0.9
        await tool.say(type="close")
        world.ticking.set()
        await tool.until("done")
        assert tool.of("dropped") == []


async def test_words_in_capitals_hold_our_audio_back_and_let_the_newest_go() -> None:
    async with line() as world, world.call(pace="realtime") as tool:
        await tool.until_heard(FRAME_SAMPLES)
        await tool.socket.send_str("MEDIA_XOFF")
        await tool.heard_out()
        frames = len(world.stepped()) // FRAME_SAMPLES
        assert await tool.listen(0.15) == 0
        assert len(world.stepped()) // FRAME_SAMPLES > frames + 15  # the conversation went on meanwhile
        world.ticking.clear()
        await tool.socket.send_str("MEDIA_XON")
        assert 0 < await tool.listen(0.1) <= 24_000
        world.ticking.set()
        await tool.until_heard(tool.heard.size + FRAME_SAMPLES)
        await tool.finish()


async def test_a_telephone_servers_script_is_no_trouble() -> None:
    async with line() as world, world.socket() as tool:
        for what, argument in script("media_before_the_start_event.hex"):
            match what:
                case ">":
                    await tool.socket.send_bytes(bytes.fromhex(argument))
                case ">T":
                    await tool.socket.send_str(argument)
                case "~":
                    await asyncio.sleep(int(argument) / 10_000)
        await tool.finish()
        assert (tool.types, tool.close_code) == (["ready", "done"], 1000)
        assert len(tool.heard) == FRAME_SAMPLES
        assert not np.isnan(tool.heard).any()
