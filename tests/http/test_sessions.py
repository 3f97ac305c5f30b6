from __future__ import annotations

import json
from typing import Any

import pytest

from rtc_server.engine.stepper import Sampling, SessionPrompt
from tests.http.conftest import MakeSite, Site

OFFER = {"sdp": "v=0", "type": "offer"}


async def test_json_offer_gets_a_json_answer_with_its_place(site: Site) -> None:
    response = await site.client.post("/v1/sessions", json=OFFER)
    body = await response.json()
    assert response.status == 201
    session = site.house.registry.get(body["id"])
    assert body == {
        "id": session.id,
        "sdp": "answer to v=0",
        "type": "answer",
        "resume_token": session.token.secret,
        "resumed": False,
        "ice_servers": [],
    }
    assert response.headers["Location"] == f"/v1/sessions/{body['id']}"


async def test_sdp_offer_gets_an_sdp_answer(site: Site) -> None:
    response = await site.client.post("/v1/sessions", data="v=0", headers={"Content-Type": "application/sdp"})
    assert response.status == 201
    assert response.content_type == "application/sdp"
    assert await response.text() == "answer to v=0"
    assert response.headers["Location"].startswith("/v1/sessions/")


async def test_prompt_reaches_the_engine(site: Site) -> None:
    sampling = {"audio_temperature": 0.8, "audio_top_k": 250, "text_temperature": 0.7, "text_top_k": 25}
    offer = {**OFFER, "persona": "You are kind.", "voice": "bass", "seed": 7, "sampling": sampling}
    assert (await site.client.post("/v1/sessions", json=offer)).status == 201
    assert site.house.engine.prompts == [
        SessionPrompt("You are kind.", "bass", 7, Sampling(0.8, 250, 0.7, 25)),
    ]


async def test_full_server_says_503_with_a_time_before_reading_the_offer(site: Site) -> None:
    for _ in range(2):
        await site.client.post("/v1/sessions", json=OFFER)
    response = await site.client.post("/v1/sessions", data=b"not even json")
    body = await response.json()
    assert response.status == 503
    assert int(response.headers["Retry-After"]) > 0
    assert body["code"] == "engine_full" and body["message"] and body["hint"]


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        (b"", 400, "JSON"),
        (b"{", 400, "JSON"),
        (b"[]", 400, "object"),
        (b"\xff", 400, "UTF-8"),
        (b"[" * 60_000, 400, "JSON"),
        (b"{}", 400, "sdp"),
        (b'{"sdp": 5}', 400, "sdp"),
        (b'{"sdp": "v=0", "type": "answer"}', 400, "type"),
        (b'{"sdp": "v=0", "seed": -1}', 400, "seed"),
        (b'{"sdp": "v=0", "seed": "one"}', 400, "seed"),
        (b'{"sdp": "v=0", "sampling": {"audio_temperature": 1e9}}', 400, "audio_temperature"),
        (b'{"sdp": "v=0", "sampling": {"temperature": 1}}', 400, "sampling.temperature is unknown"),
        (b'{"sdp": "v=0", "sampling": {"' + b"x" * 5000 + b'": 1}}', 400, "xxx is unknown"),
        (b'{"sdp": "v=0", "voice": "nobody"}', 422, "nobody"),
        (json.dumps({"sdp": "v=0", "persona": "x" * 5000}).encode(), 400, "persona"),
        (b'{"sdp": "bad"}', 400, "audio"),
        (json.dumps({"sdp": "v" * 33_000}).encode(), 413, "SDP"),
        (b'{"sdp": "' + b"v" * 70_000 + b'"}', 413, "body"),
    ],
)
async def test_bad_request_gets_a_clear_error_and_loses_no_slot(
    site: Site, body: bytes, status: int, word: str
) -> None:
    response = await site.client.post("/v1/sessions", data=body, headers={"Content-Type": "application/json"})
    answer = await response.json()
    assert response.status == status
    assert word in answer["message"]
    assert set(answer) == {"code", "message", "hint"}
    for session in site.house.registry:
        await session.wait_closed()
    assert site.house.engine.leases == []


async def test_defect_of_ours_is_a_500_without_a_traceback_and_frees_the_slot(site: Site) -> None:
    response = await site.client.post("/v1/sessions", json={"sdp": "defect"})
    assert response.status == 500
    assert "Traceback" not in await response.text()
    for session in site.house.registry:
        await session.wait_closed()
    assert site.house.engine.leases == []


async def test_second_call_never_disturbs_the_first(make_site: MakeSite) -> None:
    site = await make_site(slots=1)
    first = await (await site.client.post("/v1/sessions", json=OFFER)).json()
    for body in (b"{", b'{"sdp": "bad"}', json.dumps(OFFER).encode()):
        assert (await site.client.post("/v1/sessions", data=body)).status == 503
    assert site.house.registry.get(first["id"]).lease in site.house.engine.leases
    assert site.webrtc.legs[0].closed == []


async def create(site: Site) -> str:
    body: dict[str, Any] = await (await site.client.post("/v1/sessions", json=OFFER)).json()
    return f"/v1/sessions/{body['id']}"


async def test_later_offer_is_answered_in_its_own_form(site: Site) -> None:
    place = await create(site)
    response = await site.client.patch(place, json={"sdp": "v=1", "type": "offer"})
    assert (response.status, (await response.json())["sdp"]) == (200, "answer to v=1")
    response = await site.client.patch(place, data="v=2", headers={"Content-Type": "application/sdp"})
    assert (response.status, await response.text()) == (200, "answer to v=2")


async def test_refused_later_offer_leaves_the_call_as_it_was(site: Site) -> None:
    place = await create(site)
    response = await site.client.patch(place, json={"sdp": "refuse", "type": "offer"})
    assert response.status == 422
    assert site.webrtc.legs[0].closed == []
    assert len(site.house.registry) == 1


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b'{"candidates": []}', "application/json", 204),
        (b'{"candidates": [{"candidate": "candidate:1 1 udp 1 x.local 1 typ host"}]}', "application/json", 204),
        (b'{"candidates": 5}', "application/json", 400),
        (b"a=candidate:1 1 udp 1 192.0.2.1 1 typ host", "application/trickle-ice-sdpfrag", 204),
        (b"{", "application/json", 400),
    ],
)
async def test_candidates_are_accepted_and_ignored(site: Site, body: bytes, kind: str, status: int) -> None:
    place = await create(site)
    response = await site.client.patch(place, data=body, headers={"Content-Type": kind})
    assert response.status == status


async def test_delete_ends_the_call_and_frees_its_slot(site: Site) -> None:
    place = await create(site)
    assert (await site.client.delete(place)).status == 204
    assert site.house.engine.leases == []
    assert (await site.client.delete(place)).status == 404


@pytest.mark.parametrize("method", ["patch", "delete"])
async def test_unknown_session_is_a_404(site: Site, method: str) -> None:
    response = await site.client.request(method, "/v1/sessions/nobody", json=OFFER)
    assert response.status == 404
    assert (await response.json())["code"] == "session_not_found"


@pytest.mark.parametrize("path", ["/v1/sessions/x", "/v1/config", "/v1/sessions"])
async def test_wrong_method_is_a_405_in_json(site: Site, path: str) -> None:
    response = await site.client.put(path)
    assert response.status == 405
    assert (await response.json())["code"] == "method_not_allowed"
    assert response.headers["Allow"]


async def test_body_that_is_not_what_its_encoding_says_is_a_bad_request(site: Site) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    response = await site.client.post("/v1/sessions", data=b"not gzip", headers=headers)
    assert response.status == 400
    assert (await response.json())["code"] == "bad_request"
    assert site.house.engine.leases == []
