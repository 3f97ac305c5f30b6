"""A second POST takes a conversation over; only its owner can, and whatever goes wrong changes nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rtc_server import events
from rtc_server.http.sessions import OfferBody
from rtc_server.session.session import Session, State
from tests.http.conftest import KEY, FakeWebRtcLeg, MakeSite, Site

OFFER = {"sdp": "v=0", "type": "offer"}
SDP = {"Content-Type": "application/sdp"}


async def live_call(site: Site) -> tuple[dict[str, Any], Session, FakeWebRtcLeg]:
    body = await (await site.client.post("/v1/sessions", json=OFFER)).json()
    leg = site.webrtc.legs[-1]
    leg.connect()
    await site.house.tick(2)
    session = site.house.registry.get(body["id"])
    assert session.state is State.LIVE
    return body, session, leg


async def resume(site: Site, token: str, **more: Any) -> Any:
    return await site.client.post("/v1/sessions", json=OFFER | {"resume": token} | more)


async def test_the_owner_takes_the_conversation_over(site: Site) -> None:
    body, session, old = await live_call(site)
    old.end()
    response = await resume(site, body["resume_token"], sdp="v=1")
    assert response.status == 201
    assert await response.json() == {**body, "sdp": "answer to v=1", "resumed": True}
    assert response.headers["Location"] == f"/v1/sessions/{session.id}"
    site.webrtc.legs[-1].connect()
    assert session.state is State.LIVE and session.leg is site.webrtc.legs[-1]
    assert len(site.house.engine.prompts) == 1


async def test_the_token_stays_good_for_the_next_time(site: Site) -> None:
    """An answer that got lost must not lock the owner out."""
    body, session, _ = await live_call(site)
    for _ in range(3):
        assert (await (await resume(site, body["resume_token"])).json())["resume_token"] == body["resume_token"]
    assert session.state is State.LIVE


async def test_a_full_server_lets_the_owner_in_and_refuses_everybody_else(make_site: MakeSite) -> None:
    site = await make_site(slots=1)
    body, session, leg = await live_call(site)
    leg.end()
    for send in (OFFER, OFFER | {"resume": None}):
        response = await site.client.post("/v1/sessions", json=send)
        assert response.status == 503 and int(response.headers["Retry-After"]) > 0
    assert (await resume(site, "guess")).status == 404
    assert (await resume(site, body["resume_token"])).status == 201
    assert session.state is State.DEGRADED


async def test_a_draining_server_lets_the_owner_in(site: Site) -> None:
    body, _, _ = await live_call(site)
    site.house.admission.draining = True
    assert (await site.client.post("/v1/sessions", json=OFFER)).status == 503
    assert (await resume(site, body["resume_token"])).status == 201


@pytest.mark.parametrize("ended", [False, True], ids=["a guess", "an ended session"])
async def test_a_stranger_gets_404_and_nothing_else(site: Site, ended: bool) -> None:
    body, session, leg = await live_call(site)
    if ended:
        await site.client.delete(f"/v1/sessions/{session.id}")
    token = body["resume_token"] if ended else session.id
    response = await resume(site, token, sdp="bad", voice="nobody")
    assert response.status == 404
    assert (await response.json())["code"] == "session_not_found"
    assert len(site.webrtc.legs) == 1
    assert ended or leg.closed == []


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"sdp": "bad"}, 400),
        ({"sdp": "refuse"}, 422),
        ({"sdp": "defect"}, 500),
        ({"sdp": "v" * 33_000}, 413),
        ({"sdp": 5}, 400),
        ({"resume": 5}, 400),
        ({"resume": "x" * 257}, 400),
        ({"last_event": -1}, 400),
        ({"last_event": "5"}, 400),
        ({"last_event": 2**60}, 400),
    ],
)
async def test_a_bad_request_changes_nothing(site: Site, more: dict[str, Any], status: int) -> None:
    body, session, leg = await live_call(site)
    response = await resume(site, body["resume_token"], **more)
    assert response.status == status
    await site.house.tick(3, alive=leg)
    assert session.state is State.LIVE and session.leg is leg
    assert leg.closed == [] and session.legs == (leg,)


@pytest.mark.parametrize(
    "name", ["o=- 17 {} IN IP4 0.0.0.0", "a=fingerprint:sha-256 AB:{}"], ids=["origin", "certificate"]
)
async def test_an_offer_goes_to_the_leg_of_its_peer_though_another_one_was_asked_for(site: Site, name: str) -> None:
    """A resume whose answer got lost must not take the live connection's offers."""
    first, other = (f"v=0\r\n{name.format(number)}\r\n" for number in (1, 2))
    if name.startswith("o="):
        other = other.replace(" 17 ", " 18 ")
    body = await (await site.client.post("/v1/sessions", json=OFFER | {"sdp": first})).json()
    live = site.webrtc.legs[-1]
    live.connect()
    await site.house.tick(2)
    await resume(site, body["resume_token"], sdp=other)
    stray = site.webrtc.legs[-1]
    response = await site.client.patch(f"/v1/sessions/{body['id']}", json=OFFER | {"sdp": first + "a=mid:0\r\n"})
    assert response.status == 200
    assert (len(live.offers), len(stray.offers)) == (2, 1)


async def test_a_token_that_is_no_text_is_refused(site: Site) -> None:
    reader, writer = await asyncio.open_connection(site.client.host, site.client.port)
    head = b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sdp\r\nContent-Length: 3\r\n"
    writer.write(head + b"Resume-Token: \xff\r\n\r\nv=0")
    assert b" 400 " in await reader.readline()
    writer.close()
    assert site.webrtc.legs == []


async def test_an_offer_to_a_session_that_is_ending_gets_404(site: Site) -> None:
    body, session, _ = await live_call(site)
    session.close("client_closed")
    assert (await site.client.patch(f"/v1/sessions/{body['id']}", json=OFFER)).status == 404


async def test_the_conversation_keeps_its_persona_and_voice(site: Site) -> None:
    """A client sends the same request as at first, and gets a new conversation only when the old one is gone."""
    body, _, _ = await live_call(site)
    response = await resume(site, body["resume_token"], persona="You are someone else.", voice="nobody", seed=3)
    assert response.status == 201
    assert len(site.house.engine.prompts) == 1


async def test_events_behind_the_last_one_that_is_known_come_again(site: Site) -> None:
    body, _, leg = await live_call(site)
    site.house.engine.text = "word"
    await site.house.tick(3, alive=leg)
    await resume(site, body["resume_token"], last_event=leg.numbered[-1].seq - 1)
    new = site.webrtc.legs[-1]
    new.connect()
    assert [event.type for event in new.events] == ["session.created", "response.delta", "session.resumed"]


async def test_a_client_that_loops_is_told_to_wait(site: Site) -> None:
    body, session, leg = await live_call(site)
    for _ in range(5):
        assert (await resume(site, body["resume_token"])).status == 201
    response = await resume(site, body["resume_token"])
    assert response.status == 429
    assert int(response.headers["Retry-After"]) > 0
    assert (await response.json())["code"] == "too_many_resumes"
    assert session.leg is leg and leg.closed == []


async def test_a_whip_client_resumes_by_header(site: Site) -> None:
    body, session, _ = await live_call(site)
    headers = SDP | {"Resume-Token": body["resume_token"]}
    response = await site.client.post("/v1/sessions", data="v=1", headers=headers)
    assert (response.status, await response.text()) == (201, "answer to v=1")
    assert response.headers["Location"] == f"/v1/sessions/{session.id}"
    headers["Resume-Token"] = "x" * 5000
    assert (await site.client.post("/v1/sessions", data="v=1", headers=headers)).status == 404


async def test_a_whip_client_without_events_has_no_token_and_is_not_waited_for(site: Site) -> None:
    await site.client.post("/v1/sessions", data="v=0", headers=SDP)
    leg = site.webrtc.legs[-1]
    leg.has_events = False
    leg.connect()
    await site.house.tick(2)
    leg.end()
    (session,) = site.house.registry
    assert session.state is State.CLOSED


async def test_the_api_key_is_needed_as_for_any_call(make_site: MakeSite) -> None:
    site = await make_site(api_key=KEY)
    authorized = {"Authorization": f"Bearer {KEY}"}
    body = await (await site.client.post("/v1/sessions", json=OFFER, headers=authorized)).json()
    send = OFFER | {"resume": body["resume_token"]}
    assert (await site.client.post("/v1/sessions", json=send)).status == 401
    assert (await site.client.post("/v1/sessions", json=send, headers=authorized)).status == 201


async def test_an_offer_for_a_caller_who_is_away_says_how_to_come_back(site: Site) -> None:
    _, session, leg = await live_call(site)
    leg.end()
    response = await site.client.patch(f"/v1/sessions/{session.id}", json=OFFER)
    assert response.status == 409
    assert (await response.json())["code"] == "not_connected"
    assert session.state is State.DEGRADED


async def test_delete_ends_a_conversation_whose_caller_is_away(site: Site) -> None:
    _, session, leg = await live_call(site)
    leg.end()
    assert (await site.client.delete(f"/v1/sessions/{session.id}")).status == 204
    assert site.house.engine.leases == []
    assert events.SessionEnded.type not in leg.types


async def test_later_offers_go_to_the_leg_that_was_made_last(site: Site) -> None:
    body, session, old = await live_call(site)
    await resume(site, body["resume_token"])
    new = site.webrtc.legs[-1]
    await site.client.patch(f"/v1/sessions/{session.id}", json={"sdp": "v=2", "type": "offer"})
    assert (old.offers, new.offers) == (["v=0"], ["v=0", "v=2"])


async def test_config_tells_how_long_a_caller_may_be_away(site: Site) -> None:
    config = await (await site.client.get("/v1/config")).json()
    assert config["limits"]["resume_s"] == 10.0


def test_the_token_stands_in_no_representation_of_an_offer() -> None:
    assert "secret" not in repr(OfferBody(sdp="v=0", resume="secret"))
