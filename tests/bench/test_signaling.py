import json

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from rtc_server.bench.signaling import Answer, Signaling, offer_url
from rtc_server.errors import PeerError


def test_a_bare_address_means_our_sessions_and_a_path_stands() -> None:
    assert offer_url("http://127.0.0.1:8124") == "http://127.0.0.1:8124/v1/sessions"
    assert offer_url("http://127.0.0.1:8124/") == "http://127.0.0.1:8124/v1/sessions"
    assert offer_url("https://example.org/whip") == "https://example.org/whip"


class Recorder:
    """A server that answers as told and keeps what it was sent."""

    def __init__(self, status: int, body: str, headers: dict[str, str] | None = None) -> None:
        self.requests: list[tuple[str, str, str, str]] = []
        self._answer = (status, body, headers or {})

    async def handle(self, request: web.Request) -> web.Response:
        authorization = request.headers.get("Authorization", "")
        self.requests.append((request.method, request.path, authorization, await request.text()))
        status, body, headers = self._answer
        return web.Response(status=status, text=body, headers=headers)

    def server(self) -> TestServer:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        return TestServer(app)


async def exchange(recorder: Recorder, adapter: str, hang_up: bool = False) -> str:
    async with recorder.server() as server, aiohttp.ClientSession() as http:
        signaling = Signaling(http, str(server.make_url("/v1/sessions")), adapter)
        answer = await signaling.exchange("v=0 offer")
        if hang_up:
            await signaling.hang_up(answer)
        return answer.sdp


async def test_plain_posts_json_with_the_key_and_deletes_the_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTC_API_KEY", "secret")
    recorder = Recorder(201, json.dumps({"sdp": "v=0 answer", "type": "answer"}), {"Location": "/v1/sessions/7"})
    assert await exchange(recorder, "plain", hang_up=True) == "v=0 answer"
    (method, path, key, body), delete = recorder.requests
    assert (method, path, key) == ("POST", "/v1/sessions", "Bearer secret")
    assert json.loads(body) == {"sdp": "v=0 offer", "type": "offer"}
    assert delete[:3] == ("DELETE", "/v1/sessions/7", "Bearer secret")


async def test_a_later_offer_is_patched_to_the_calls_resource() -> None:
    recorder = Recorder(201, json.dumps({"sdp": "v=0 answer", "type": "answer"}), {"Location": "/v1/sessions/7"})
    async with recorder.server() as server, aiohttp.ClientSession() as http:
        signaling = Signaling(http, str(server.make_url("/v1/sessions")), "plain")
        answer = await signaling.exchange("v=0 offer", seed=3)
        assert await signaling.update(answer, "v=0 later") == "v=0 answer"
    post, patch = recorder.requests
    assert json.loads(post[3]) == {"sdp": "v=0 offer", "type": "offer", "seed": 3}
    assert patch[:2] == ("PATCH", "/v1/sessions/7") and json.loads(patch[3])["sdp"] == "v=0 later"


async def test_a_later_offer_needs_a_resource_and_may_be_refused() -> None:
    async with aiohttp.ClientSession() as http:
        with pytest.raises(PeerError, match="no resource"):
            await Signaling(http, "http://127.0.0.1:1/", "plain").update(Answer("v=0", None), "v=0 later")
    recorder = Recorder(404, json.dumps({"code": "session_not_found", "message": "it has ended"}))
    async with recorder.server() as server, aiohttp.ClientSession() as http:
        answer = Answer("v=0", str(server.make_url("/v1/sessions/7")))
        with pytest.raises(PeerError, match="HTTP 404: session_not_found: it has ended"):
            await Signaling(http, str(server.make_url("/")), "plain").update(answer, "v=0 later")


async def test_whip_posts_sdp_and_takes_sdp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RTC_API_KEY", raising=False)
    recorder = Recorder(201, "v=0 answer")
    assert await exchange(recorder, "whip", hang_up=True) == "v=0 answer"
    assert recorder.requests == [("POST", "/v1/sessions", "", "v=0 offer")]


async def test_fastrtc_carries_an_id() -> None:
    recorder = Recorder(200, json.dumps({"sdp": "v=0 answer", "type": "answer"}))
    await exchange(recorder, "fastrtc")
    assert json.loads(recorder.requests[0][3])["webrtc_id"]


async def test_a_refusal_gives_the_reason_of_the_server() -> None:
    recorder = Recorder(503, json.dumps({"code": "engine_full", "message": "all slots taken", "hint": "wait"}))
    with pytest.raises(PeerError, match="HTTP 503: engine_full: all slots taken; wait"):
        await exchange(recorder, "plain")


@pytest.mark.parametrize(
    ("adapter", "status", "body"), [("plain", 200, "[]"), ("plain", 404, ""), ("whip", 500, "<p>")]
)
async def test_any_other_answer_is_a_refusal(adapter: str, status: int, body: str) -> None:
    with pytest.raises(PeerError, match=f"refused the offer with HTTP {status}"):
        await exchange(Recorder(status, body), adapter)


async def test_nobody_there_is_told_as_such() -> None:
    async with aiohttp.ClientSession() as http:
        with pytest.raises(PeerError, match=r"cannot reach http://127\.0\.0\.1:1/"):
            await Signaling(http, "http://127.0.0.1:1/", "plain").exchange("v=0")
