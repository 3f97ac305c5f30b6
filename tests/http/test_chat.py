"""Clients of Moshi's protocol on the fake world's clock, and one on the real server's."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from aiohttp import ClientWebSocketResponse, WSMsgType

from rtc_server import config
from rtc_server.engine.client import SlotStatus
from rtc_server.engine.stepper import FRAME_SAMPLES, Sampling, SessionPrompt
from rtc_server.http.chat import DECODED_AT_ONCE_MS, DECODED_MS_PER_S
from rtc_server.media.frames import FloatSamples
from rtc_server.media.oggopus import OggOpusReader, OggOpusWriter
from rtc_server.media.opus import OpusDecoder
from rtc_server.server import Server
from tests.http.comings import come_and_go
from tests.http.conftest import KEY, MakeSite, Site
from tests.logs import captured_logs
from tests.session.fakes import speech

SCRIPTS = Path(__file__).resolve().parents[1] / "data" / "ws"
HANDSHAKE = b"\x00"
TICK_MS = 80
SLOTS = 4


class Client:
    """One caller. What came is kept; `until` waits for more of it."""

    def __init__(self, site: Site, socket: ClientWebSocketResponse) -> None:
        self.site = site
        self.socket = socket
        self.came: list[bytes] = []
        self.code: int | None = None
        self.reason = ""
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while (message := await self.socket.receive()).type is not WSMsgType.CLOSED:
            if message.type is WSMsgType.CLOSE:
                self.code, self.reason = message.data, message.extra or ""
                await self.socket.close()
            elif message.type is WSMsgType.BINARY:
                self.came.append(message.data)
            else:
                assert message.type is WSMsgType.CLOSING, message

    def of(self, kind: int) -> list[bytes]:
        """The payloads of one kind."""
        return [message[1:] for message in self.came if message[0] == kind]

    @property
    def errors(self) -> list[str]:
        return [payload.decode() for payload in self.of(5)]

    async def ended(self) -> int:
        """The code of the close frame."""
        await until(lambda: self.code is not None)
        assert self.code is not None
        return self.code

    async def play(self, script: str) -> None:
        """Send what a script says, with time going by where it says so."""
        for line in (SCRIPTS / f"{script}.hex").read_text().splitlines():
            match line[:2].strip():
                case ">":
                    await self.socket.send_bytes(bytes.fromhex(line[1:]))
                case ">T":
                    await self.socket.send_str(line[3:])
                case "<":
                    self.site.house.engine.ready_slots = True
                    await self.site.house.tick(2)
                    expected = bytes.fromhex(line[1:])
                    await until(lambda expected=expected: expected in self.came)  # type: ignore[misc]
                case "~":
                    await asyncio.sleep(0.02)
                    await self.site.house.tick(int(line[1:]) // TICK_MS)

    async def close(self) -> None:
        await self.socket.close()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def calling(site: Site, query: str = "", headers: dict[str, str] | None = None) -> AsyncIterator[Client]:
    async with site.client.ws_connect(f"/api/chat?{query}", autoclose=False, headers=headers) as socket:
        client = Client(site, socket)
        yield client
        await client.close()


@contextlib.asynccontextmanager
async def talking(site: Site) -> AsyncIterator[Client]:
    """A call that is live."""
    async with calling(site) as client:
        await until(lambda: len(site.house.registry) > 0)
        await site.house.tick(2)
        await until(lambda: HANDSHAKE in client.came)
        yield client


async def all_free(site: Site) -> None:
    await until(lambda: not site.house.engine.leases and not len(site.house.registry))


def heard(site: Site) -> np.ndarray[Any, np.dtype[np.int16]]:
    """What the engine was given in live ticks: [frames, 1920]."""
    frames = [pcm[0] for _, live, pcm in site.house.engine.exchanges if live and live[0]]
    return np.array(frames or np.zeros((0, FRAME_SAMPLES), np.int16))


def loud_frames(site: Site) -> int:
    return int(np.sum(np.abs(heard(site)).max(axis=1) > 1000))


def voice(seconds: float) -> list[bytes]:
    """Messages of 80 ms."""
    writer = OggOpusWriter()
    return [b"\x01" + writer.encode(speech(seed)) for seed in range(round(seconds / 0.08))]


# ---- the conversation ------------------------------------------------------------------------------------------------


async def test_handshake_comes_when_the_slot_is_live_and_then_voice_and_words(site: Site) -> None:
    site.house.engine.ready_slots = False
    site.house.engine.text = " hi"
    async with calling(site) as client:
        await until(lambda: len(site.house.registry) > 0)
        await site.house.tick(3)
        await asyncio.sleep(0.02)
        assert client.came == []
        site.house.engine.ready_slots = True
        await site.house.tick(6)
        await until(lambda: len(client.of(1)) >= 5)
    assert client.came[0] == HANDSHAKE
    assert client.of(0) == [b""]
    assert client.of(2)[0] == b" hi"
    reader = OggOpusReader()
    assert {reader.feed(page).size for page in client.of(1)[1:]} == {FRAME_SAMPLES}


async def test_voice_is_heard_by_the_engine(site: Site) -> None:
    with captured_logs() as entries:
        async with talking(site) as client:
            for message in voice(0.8):
                await client.socket.send_bytes(message)
                await asyncio.sleep(0.005)
                await site.house.tick()
            assert loud_frames(site) >= 9
        await until(lambda: any(entry["event"] == "voice ended" for entry in entries))
    [ended] = [entry for entry in entries if entry["event"] == "voice ended"]
    assert (ended["streams"], ended["packets"], ended["bad_packets"], ended["skipped_bytes"]) == (1, 40, 0, 0)


async def test_header_pages_that_come_before_the_handshake_are_kept(site: Site) -> None:
    site.house.engine.ready_slots = False
    async with calling(site) as client:
        await client.play("audio_before_ready")
        await until(lambda: len(site.house.registry) > 0)
        leg = next(iter(site.house.registry)).leg
        assert leg is not None and leg.stats().jitter_delay_ms < 300
        await asyncio.sleep(0.02)
        await site.house.tick(6)
        assert loud_frames(site) >= 3


async def test_early_audio_is_not_replayed_as_a_burst(site: Site) -> None:
    site.house.engine.ready_slots = False
    async with calling(site) as client:
        for message in voice(2.4):
            await client.socket.send_bytes(message)
        await asyncio.sleep(0.05)
        site.house.engine.ready_slots = True
        await site.house.tick(12)
        assert loud_frames(site) <= 2
        assert client.errors == []


async def test_what_no_server_knows_is_ignored_and_typed_text_is_answered_once(site: Site) -> None:
    async with calling(site) as client:
        await client.play("text_and_unknown_kinds")
        await client.socket.send_bytes(b"\x02and again")
        await asyncio.sleep(0.02)
        await site.house.tick(4)
        assert loud_frames(site) >= 1
        await until(lambda: bool(client.errors))
        assert client.errors == ["typed text is not supported; this agent is spoken to"]
        assert client.code is None


@pytest.mark.parametrize("script", ["ogg_pages_split_and_merged", "reconnect_without_headers"])
async def test_pages_are_heard_however_they_are_cut_and_without_their_headers(site: Site, script: str) -> None:
    async with calling(site) as client:
        await client.play(script)
        await asyncio.sleep(0.02)
        await site.house.tick(12)
        assert loud_frames(site) >= 8


@pytest.mark.parametrize("seconds", [4, 10])
@pytest.mark.parametrize("at_once", [False, True], ids=["message by message", "in one message"])
async def test_audio_that_comes_too_fast_is_dropped_and_told(site: Site, seconds: int, at_once: bool) -> None:
    messages = voice(seconds)
    if at_once:
        messages = [b"\x01" + b"".join(message[1:] for message in messages)]
    async with talking(site) as client:
        for message in messages:
            await client.socket.send_bytes(message)
        await asyncio.sleep(0.1)
        await site.house.tick(14)
        await until(lambda: bool(client.errors))
        assert client.errors[0].endswith("ms of your audio were dropped: it came faster than time passes")
        assert int(client.errors[0].split()[0]) == pytest.approx(1000 * seconds - 1000, abs=160)
        assert loud_frames(site) <= 14


async def test_no_more_is_decoded_than_a_client_in_real_time_can_say(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[bytes] = []
    decode = OpusDecoder.decode

    def counting(self: OpusDecoder, packet: bytes) -> FloatSamples:
        decoded.append(packet)
        return decode(self, packet)

    monkeypatch.setattr(OpusDecoder, "decode", counting)
    messages = voice(20)
    async with talking(site) as client:
        for message in messages[:200]:
            await client.socket.send_bytes(message)
        await asyncio.sleep(0.1)
        assert len(decoded) * 20 == pytest.approx(DECODED_AT_ONCE_MS, abs=80)
        site.house.clock.now += 1.0
        decoded.clear()
        for message in messages[200:]:
            await client.socket.send_bytes(message)
        await asyncio.sleep(0.1)
        assert len(decoded) * 20 == pytest.approx(DECODED_MS_PER_S, abs=80)


# ---- its end ---------------------------------------------------------------------------------------------------------


async def test_client_that_closes_frees_its_slot(site: Site) -> None:
    async with talking(site) as client:
        await client.close()
        await all_free(site)
        assert client.errors == []


@pytest.mark.parametrize("clean", [True, False])
async def test_client_that_goes_during_the_prompt_frees_its_slot_without_a_tick(
    make_site: MakeSite, clean: bool
) -> None:
    site = await make_site(slots=1)
    site.house.engine.ready_slots = False
    for _ in range(2):
        async with calling(site, "text_prompt=You+are+patient.") as client:
            await until(lambda: len(site.house.registry) > 0)
            await site.house.tick()
            if not clean:
                client.socket._response.connection.transport.abort()  # type: ignore[union-attr]
        await all_free(site)
    site.house.engine.ready_slots = True
    async with talking(site) as client:
        assert client.came[0] == HANDSHAKE
    assert [prompt.persona for prompt in site.house.engine.prompts] == ["You are patient."] * 2 + [None]


async def test_engine_that_cannot_go_on_ends_the_call_with_a_reason(site: Site) -> None:
    async with talking(site) as client:
        site.house.engine.status = SlotStatus.FAILED
        await site.house.tick()
        assert await client.ended() == 1011
        assert client.errors == ["the engine could not go on with this conversation"]
        await all_free(site)


async def test_who_did_not_end_the_call_is_told_who_did(site: Site) -> None:
    async with talking(site) as client:
        (session,) = site.house.registry
        response, code = await asyncio.gather(site.client.delete(f"/v1/sessions/{session.id}"), client.ended())
        assert (response.status, code) == (204, 1000)
        assert client.errors == [client.reason] == ["the conversation was ended from elsewhere"]


async def test_drain_is_announced_and_ends_the_call_for_a_restart(site: Site) -> None:
    async with talking(site) as client:
        await site.house.registry.drain(0.05, "server_stopping")
        assert await client.ended() == 1012
        assert client.errors == [
            "the conversation ends in 0 s: the server is shutting down",
            "the server is shutting down",
        ]
        assert client.reason == "the server is shutting down"


# ---- refusals --------------------------------------------------------------------------------------------------------


async def test_full_server_tells_everybody_in_their_own_way_and_uses_the_slot_again(make_site: MakeSite) -> None:
    site = await make_site(slots=1)
    async with talking(site) as first:
        async with calling(site) as second:
            assert await second.ended() == 1013
            assert second.errors == ["all 1 conversation slots are in use; try again in a few seconds"]
            assert second.reason == second.errors[0]
        assert (await site.client.post("/v1/sessions", json={"sdp": "v=0", "type": "offer"})).status == 503
        await first.close()
        await all_free(site)
    async with talking(site) as third:
        assert third.code is None
    assert len(site.house.engine.prompts) == 2


@pytest.mark.parametrize("state", ["draining", "not ready"])
async def test_server_that_takes_no_calls_says_when_to_come_again(site: Site, state: str) -> None:
    if state == "draining":
        site.house.admission.draining = True
    else:
        site.house.engine.ready = False
    async with calling(site) as client:
        assert await client.ended() == 1013
        assert "try again" in client.errors[0]


VOICES = ("NATF0", "NATM0")


@pytest.mark.parametrize(
    ("query", "prompt"),
    [
        ("", SessionPrompt()),
        ("voice_prompt=NATF0.pt", SessionPrompt(voice="NATF0")),
        ("text_prompt=Hi", SessionPrompt(persona="Hi")),
        ("voice_prompt=NATF0.pt&text_prompt=Hi&seed=-1", SessionPrompt("Hi", "NATF0")),
        (
            "text_temperature=0.7&text_topk=25&audio_temperature=0.8&audio_topk=250&pad_mult=0&text_seed=5&audio_seed=6"
            "&repetition_penalty_context=64&repetition_penalty=1&text_prompt=&voice_prompt=NATM0.pt&seed=7&email=a%40b",
            SessionPrompt(voice="NATM0", seed=7, sampling=Sampling(0.8, 250, 0.7, 25)),
        ),
    ],
)
async def test_parameters_reach_the_engine(site: Site, query: str, prompt: SessionPrompt) -> None:
    site.house.engine.spec = dataclasses.replace(site.house.engine.spec, voices=VOICES)
    async with calling(site, query):
        await until(lambda: len(site.house.registry) > 0)
    assert site.house.engine.prompts == [prompt]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("voice_prompt=NATF0.pt&text_prompt=&seed=abc", "seed"),
        ("voice_prompt=NATF0.pt&text_prompt=Hi&seed=99999999999999999999", "seed"),
        ("voice_prompt=NATF0.pt&voice_prompt=NATM0.pt&text_prompt=Hi", "voice_prompt"),
        ("voice_prompt=NOPE.pt&text_prompt=Hi", "voice_prompt"),
        ("text_temperature=nan&audio_topk=-5&voice_prompt=NATF0.pt&text_prompt=Hi", "audio_topk"),
        ("text_prompt=" + "x" * 4001, "text_prompt"),
    ],
)
async def test_parameter_that_cannot_be_had_is_refused_by_name(site: Site, query: str, name: str) -> None:
    site.house.engine.spec = dataclasses.replace(site.house.engine.spec, voices=VOICES)
    with captured_logs() as entries:
        async with calling(site, query) as client:
            assert await client.ended() == 1008
            assert len(client.errors) == 1 and name in client.errors[0] and ";" in client.errors[0]
    assert site.house.engine.prompts == [] and not len(site.house.registry)
    assert [entry for entry in entries if entry["log_level"] in ("warning", "error")] == []


async def test_key_and_origin_are_checked_before_the_upgrade(make_site: MakeSite) -> None:
    site = await make_site(api_key=KEY)
    for query, headers, status in [
        ("", {}, 401),
        ("token=wrong", {}, 401),
        (f"token={KEY}", {"Origin": "https://elsewhere.example"}, 403),
    ]:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await site.client.ws_connect(f"/api/chat?{query}", headers=headers)
        assert refused.value.status == status
    assert site.house.engine.prompts == []
    async with calling(site, f"token={KEY}"):
        await until(lambda: len(site.house.registry) == 1)
    async with calling(site, headers={"Authorization": f"Bearer {KEY}"}):
        await until(lambda: len(site.house.engine.prompts) == 2)


async def test_page_that_is_no_socket_is_told_so(site: Site) -> None:
    response = await site.client.get("/api/chat")
    assert response.status == 400 and "ws://" in (await response.json())["hint"]


# ---- on the real server ----------------------------------------------------------------------------------------------


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server(config.load({"engine": "echo", "slots": SLOTS, "port": 0, "udp_port": 0, "drain_s": 0.1}))
    await server.start()
    yield server
    await server.stop()


async def test_echo_comes_back_frame_by_frame_at_the_pace_of_time(server: Server) -> None:
    time_s = np.arange(FRAME_SAMPLES * 16) / 24_000
    tone = (0.3 * np.sin(2 * np.pi * 440 * time_s)).astype(np.float32)
    writer, reader = OggOpusWriter(), OggOpusReader()
    clock = asyncio.get_running_loop().time
    parts: list[np.ndarray[Any, np.dtype[np.float32]]] = []
    at_s: list[float] = []
    async with aiohttp.ClientSession() as http, http.ws_connect(f"{server.url}api/chat") as socket:
        assert await socket.receive_bytes(timeout=5) == HANDSHAKE

        async def speak() -> None:
            for frame in tone.reshape(-1, FRAME_SAMPLES):
                await socket.send_bytes(b"\x01" + writer.encode(frame))
                await asyncio.sleep(0.08)

        speaking = asyncio.create_task(speak())
        while len(parts) < 18:
            message = await socket.receive_bytes(timeout=5)
            assert message[0] == 1
            parts.append(reader.feed(message[1:]))
            at_s.append(clock())
        await speaking
    assert {part.size for part in parts[1:]} == {FRAME_SAMPLES}
    assert np.mean(np.diff(at_s)) == pytest.approx(0.08, abs=0.01)
    pcm = np.concatenate(parts)
    loud = pcm[np.abs(pcm).argmax() :][: FRAME_SAMPLES * 8]
    spectrum = np.abs(np.fft.rfft(loud * np.hanning(loud.size)))
    assert spectrum.argmax() * 24_000 / loud.size == pytest.approx(440, abs=3)
    await until(lambda: server.engine.capacity().in_use == 0)


async def test_calls_and_refusals_and_goodbyes_are_the_same_over_tls() -> None:
    flags = {"engine": "echo", "slots": 1, "port": 0, "udp_port": 0, "drain_s": 0.1, "tls": "self-signed"}
    server = Server(config.load(flags))
    with captured_logs() as entries:
        await server.start()
        url = f"{server.url}api/chat"
        async with aiohttp.ClientSession() as http, http.ws_connect(url, ssl=False, autoclose=False) as socket:
            assert await socket.receive_bytes(timeout=5) == HANDSHAKE
            assert [(await socket.receive_bytes(timeout=5))[0] for _ in range(3)] == [1, 1, 1]
            async with http.ws_connect(url, ssl=False, autoclose=False) as refused:
                assert (await refused.receive_bytes(timeout=5))[0] == 5
                assert (await refused.receive(timeout=5)).data == 1013
            draining = asyncio.create_task(server.drain())
            while (message := await socket.receive(timeout=5)).type is WSMsgType.BINARY:
                pass
            assert (message.type, message.data) == (WSMsgType.CLOSE, 1012)
            await socket.close()
            await draining
        await server.stop()
    assert [entry for entry in entries if entry["log_level"] in ("warning", "error")] == []


@pytest.mark.soak
async def test_calls_that_come_and_go_leave_nothing_behind(server: Server) -> None:
    """Some leave before the handshake, some after it."""
    messages = voice(0.4)

    async def call(socket: ClientWebSocketResponse, number: int) -> None:
        for message in messages[: number % 5]:
            await socket.send_bytes(message)
        if number % 2:
            assert await socket.receive_bytes(timeout=5) == HANDSHAKE

    await come_and_go(server, "api/chat", call)


async def test_persona_of_44_kilobytes_in_the_address_is_refused_with_the_limit(server: Server) -> None:
    persona = "You are a patient museum guide. " * 1400
    async with aiohttp.ClientSession() as http:
        async with http.ws_connect(f"{server.url}api/chat", params={"text_prompt": persona}) as socket:
            message = await socket.receive_bytes(timeout=5)
            assert message[0] == 5 and b"44799 characters; at most 4000" in message
            await socket.receive(timeout=5)
            assert socket.close_code == 1008
        async with http.get(f"{server.url}api/chat", params={"text_prompt": persona * 2}) as response:
            assert response.status == 400 and "65536" in await response.text()
    assert server.engine.capacity().in_use == 0
