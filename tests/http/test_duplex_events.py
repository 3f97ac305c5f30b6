"""The event protocol over the raw endpoint, and conversations that outlive their socket."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest

from rtc_server.engine.stepper import FRAME_SAMPLES
from tests.http.rawtool import line, noise, through_int16, until


async def test_with_events_the_whole_protocol_is_spoken() -> None:
    pcm = noise(4 * FRAME_SAMPLES)
    async with line() as world, world.call(events=True) as tool:
        world.engine.text = "word"
        await tool.append(pcm[:FRAME_SAMPLES], modality="audio")
        await tool.sound(pcm[FRAME_SAMPLES:])
        await tool.until_heard(4 * FRAME_SAMPLES)
        await tool.say(type="input.commit")
        await tool.say(type="response.create")
        await tool.say(type="playback.ack", cursor=160)
        await tool.say(type="response.cancel", id="a")
        cancelled = await tool.until("response.cancelled")
        assert (cancelled["epoch"], cancelled["played_ms"], cancelled["dropped_ms"]) == (1, 160, 0)
        await tool.finish()
        assert np.array_equal(tool.heard, through_int16(pcm))
        opening = ["session.created", "session.prefill", "session.prefill", "session.ready", "ready"]
        assert tool.types[:6] == [*opening, "response.created"]
        assert tool.types[-3:] == ["response.done", "session.ended", "done"]
        assert [delta["frame"] for delta in tool.of("response.delta")] == [0, 1, 2, 3]
        assert all(delta["rtp_timestamp"] is None for delta in tool.of("response.delta"))
        numbers = [message["seq"] for message in tool.messages if "seq" in message]
        assert numbers == sorted(set(numbers))
        assert tool.of("session.ended")[0]["reason"] == "client_closed"


@pytest.mark.parametrize("events", [False, True])
async def test_a_modality_that_the_engine_lacks_is_said_so_and_the_call_goes_on(events: bool) -> None:
    async with line() as world, world.call(events=events) as tool:
        await tool.say(type="input.append", modality="video", data="AAAA")
        error = await tool.until("error")
        assert error["error"] == error["message"] == "unsupported input modality: video"
        await tool.sound(noise(FRAME_SAMPLES))
        await tool.finish()
        assert len(tool.heard) == FRAME_SAMPLES


async def test_a_conversation_goes_on_over_a_new_socket_with_the_words_of_the_gap() -> None:
    async with line() as world:
        world.engine.text = "word"
        async with world.call(events=True) as tool:
            created = tool.of("session.created")[0]
            await tool.sound(noise(5 * FRAME_SAMPLES))
            await tool.until_heard(5 * FRAME_SAMPLES)
            known = tool.of("response.delta")[1]
            tool.drop()
        await until(lambda: world.session.leg is None)
        async with world.socket() as tool:
            await tool.open(events=True, resume=created["resume_token"], last_event=known["seq"], voice="nobody")
            await tool.until("ready")
            assert tool.types[0] == "session.created" and tool.messages[0]["id"] == created["id"]
            assert [delta["frame"] for delta in tool.of("response.delta")] == [2, 3, 4]
            assert tool.of("session.resumed")[0]["gap_ms"] >= 0
            await tool.sound(noise(FRAME_SAMPLES))
            await tool.until_heard(FRAME_SAMPLES)
            await tool.finish()
            assert tool.of("response.delta")[-1]["frame"] == 5
        assert len(world.engine.prompts) == 1


async def test_a_full_server_lets_the_owner_back_in() -> None:
    async with line(slots=1) as world, world.call(events=True) as tool:
        token = tool.of("session.created")[0]["resume_token"]
        async with world.socket() as new:
            await new.open(resume=token)
            await new.until("ready")
            assert await tool.until_closed() == 1000
            assert tool.of("session.ended")[0]["reason"] == "replaced"
            await new.finish()
            assert new.types == ["ready", "done"]


async def test_delete_ends_a_conversation_over_a_socket() -> None:
    async with line() as world, world.call(events=True) as tool:
        session_id = tool.of("session.created")[0]["id"]
        assert (await world.client.patch(f"/v1/sessions/{session_id}", json={"sdp": "v=0"})).status == 404
        deleted, code = await asyncio.gather(world.client.delete(f"/v1/sessions/{session_id}"), tool.until_closed())
        assert (deleted.status, code) == (204, 1000)
        assert tool.close_reason == "the conversation was ended from elsewhere"
        assert tool.messages[-1]["type"] == "session.ended"
        assert tool.messages[-1]["reason"] == "ended_elsewhere"


async def test_delete_is_no_answer_to_all_that_was_said() -> None:
    async with line() as world, world.call() as tool:
        await tool.sound(noise(50 * FRAME_SAMPLES))
        await tool.say(type="close")
        await tool.until_heard(FRAME_SAMPLES)
        deleted, code = await asyncio.gather(
            world.client.delete(f"/v1/sessions/{world.session.id}"), tool.until_closed()
        )
        assert (deleted.status, code) == (204, 1000)
        assert "done" not in tool.types
        assert (tool.messages[-1]["type"], tool.messages[-1]["code"]) == ("error", "ended_elsewhere")
        assert tool.messages[-1]["error"] == tool.close_reason == "the conversation was ended from elsewhere"


async def test_without_events_nothing_tells_the_sessions_id_or_its_token() -> None:
    async with line() as world, world.call() as tool:
        told = json.dumps(tool.messages)
        assert world.session.id not in told and world.session.token.secret not in told
        await tool.finish()
