from __future__ import annotations

import aiohttp
import pytest

from rtc_server import config
from rtc_server.http.icefragment import OfferAnswer
from rtc_server.server import Server
from rtc_server.transports.webrtc.negotiation import answer_offer
from tests.http.conftest import Site, answer_to
from tests.transports.webrtc import offers
from tests.transports.webrtc.callers import Caller, let_aioice_use_loopback
from tests.transports.webrtc.waiting import eventually

PWD = "p" * 22
OFFER = "\r\n".join(
    [
        "v=0",
        "a=group:BUNDLE 0 1",
        "m=audio 9 UDP/TLS/RTP/SAVPF 111",
        "a=mid:0",
        "a=ice-ufrag:one",
        f"a=ice-pwd:{PWD}",
        "a=candidate:1 1 udp 1 192.0.2.1 1 typ host",
        "m=application 9 UDP/DTLS/SCTP webrtc-datachannel",
        "a=mid:1",
        "a=ice-ufrag:one",
        f"a=ice-pwd:{PWD}",
        "",
    ]
)
FRAGMENT = f"a=ice-ufrag:newer\r\na=ice-pwd:{'q' * 22}\r\nm=audio 9 RTP/AVP 0\r\na=mid:0\r\n"
ANSWER = "\r\n".join(
    [
        "v=0",
        "o=- 1 2 IN IP4 0.0.0.0",
        "a=group:BUNDLE 0 1",
        "a=ice-lite",
        "m=audio 9 UDP/TLS/RTP/SAVPF 111",
        "a=mid:0",
        "a=ice-ufrag:ours",
        f"a=ice-pwd:{PWD}",
        "a=fingerprint:sha-256 AB",
        "a=candidate:1 1 udp 1 192.0.2.9 8125 typ host",
        "a=end-of-candidates",
        "m=application 9 UDP/DTLS/SCTP webrtc-datachannel",
        "a=mid:1",
        "a=ice-ufrag:ours",
        "",
    ]
)
TYPE = "application/trickle-ice-sdpfrag"


def test_new_credentials_stand_for_the_last_offer_with_them() -> None:
    offer = OfferAnswer(OFFER, ANSWER).restarted_by(FRAGMENT)
    assert offer is not None
    lines = offer.splitlines()
    assert lines.count("a=ice-ufrag:newer") == lines.count(f"a=ice-pwd:{'q' * 22}") == 2
    assert [line for line in lines if "ice-" not in line] == [line for line in OFFER.splitlines() if "ice-" not in line]


def test_candidates_of_a_restart_take_the_place_of_the_offers() -> None:
    moved = "a=candidate:1 1 udp 1 203.0.113.5 5000 typ host"
    offer = OfferAnswer(OFFER, ANSWER).restarted_by(f"{FRAGMENT}{moved} \r\na=end-of-candidates\r\n")
    assert offer is not None
    section = offer.partition("m=audio")[2].partition("m=application")[0].splitlines()
    assert [line for line in section if line.startswith("a=candidate")] == [moved]


@pytest.mark.parametrize(
    ("candidate", "host"),
    [("", "203.0.113.51"), ("a=candidate:1 1 udp 2130706431 203.0.113.6 5000 typ host\r\n", "203.0.113.6")],
    ids=["where it was", "elsewhere"],
)
def test_a_peer_that_is_lite_itself_restarts_by_fragment_too(candidate: str, host: str) -> None:
    first = answer_offer(offers.read("S23"), offers.LOCAL)
    offer = OfferAnswer(offers.read("S23"), first.answer_sdp).restarted_by(FRAGMENT + candidate)
    assert offer is not None
    agreed = answer_offer(offer, offers.LOCAL, first)
    assert agreed.restarts_ice and agreed.remote_ufrag == "newer"
    assert [item.host for item in agreed.remote_candidates] == [host]


@pytest.mark.parametrize(
    "fragment",
    [
        "",
        "a=candidate:1 1 udp 1 192.0.2.1 1 typ host",
        f"a=ice-ufrag:one\r\na=ice-pwd:{PWD}\r\na=candidate:1 1 udp 1 192.0.2.1 1 typ host",
        "a=ice-ufrag:two",
        f"a=ice-pwd:{'q' * 22}",
        "a=ice-ufrag:\na=ice-pwd:",
    ],
)
def test_a_fragment_without_other_credentials_restarts_nothing(fragment: str) -> None:
    assert OfferAnswer(OFFER, ANSWER).restarted_by(fragment) is None


def test_the_answer_says_all_of_ice_and_nothing_else() -> None:
    assert OfferAnswer(OFFER, ANSWER).answer_fragment.splitlines() == [
        "a=group:BUNDLE 0 1",
        "a=ice-lite",
        "m=audio 9 UDP/TLS/RTP/SAVPF 111",
        "a=mid:0",
        "a=ice-ufrag:ours",
        f"a=ice-pwd:{PWD}",
        "a=candidate:1 1 udp 1 192.0.2.9 8125 typ host",
        "a=end-of-candidates",
    ]


def test_the_entity_tag_names_the_ice_session() -> None:
    assert OfferAnswer(OFFER, ANSWER).entity_tag == '"ours"'
    assert OfferAnswer("", "").entity_tag == OfferAnswer("", "v=0\r\n").entity_tag == ""


# ---- over HTTP -------------------------------------------------------------------------------------------------------


async def call(site: Site) -> tuple[str, str]:
    """Where the session is, and the name of its ICE session."""
    response = await site.client.post("/v1/sessions", data=OFFER, headers={"Content-Type": "application/sdp"})
    return response.headers["Location"], response.headers["ETag"]


async def test_a_whip_client_restarts_ice(site: Site) -> None:
    place, tag = await call(site)
    response = await site.client.patch(place, data=FRAGMENT, headers={"Content-Type": TYPE, "If-Match": "*"})
    assert response.status == 200
    assert response.content_type == TYPE
    assert "a=ice-ufrag:our-newer" in (await response.text()).splitlines()
    assert response.headers["ETag"] == '"our-newer"' != tag
    assert len(site.webrtc.legs[0].offers) == 2


async def test_candidates_for_the_present_ice_session_are_taken_and_those_for_an_old_one_refused(site: Site) -> None:
    place, tag = await call(site)
    candidates = f"a=ice-ufrag:one\r\na=ice-pwd:{PWD}\r\na=candidate:1 1 udp 1 192.0.2.1 1 typ host"
    response = await site.client.patch(place, data=candidates, headers={"Content-Type": TYPE, "If-Match": tag})
    assert response.status == 204
    await site.client.patch(place, data=FRAGMENT, headers={"Content-Type": TYPE, "If-Match": "*"})
    response = await site.client.patch(place, data=candidates, headers={"Content-Type": TYPE, "If-Match": tag})
    assert response.status == 412
    assert (await response.json())["code"] == "old_ice_session"
    assert len(site.webrtc.legs[0].offers) == 2


async def test_a_restart_that_is_refused_leaves_the_ice_session_as_it_was(site: Site) -> None:
    place, tag = await call(site)
    bad = f"a=ice-ufrag:refuse\r\na=ice-pwd:{PWD}"
    response = await site.client.patch(place, data=bad, headers={"Content-Type": TYPE, "If-Match": "*"})
    assert response.status == 422
    response = await site.client.patch(place, data="", headers={"Content-Type": TYPE, "If-Match": tag})
    assert response.status == 204
    assert site.webrtc.legs[0].closed == []


async def test_a_restart_that_would_make_the_offer_too_large_is_refused(site: Site) -> None:
    place, _ = await call(site)
    huge = f"a=ice-ufrag:{'u' * 40_000}\r\na=ice-pwd:{PWD}"
    response = await site.client.patch(place, data=huge, headers={"Content-Type": TYPE})
    assert response.status == 413
    assert len(site.webrtc.legs[0].offers) == 1


async def test_a_json_client_is_told_the_ice_session_too(site: Site) -> None:
    response = await site.client.post("/v1/sessions", json={"sdp": OFFER, "type": "offer"})
    assert response.headers["ETag"] == '"our-one"'
    assert (await response.json())["sdp"] == answer_to(OFFER)


async def test_a_stock_clients_ice_is_restarted_by_a_fragment(monkeypatch: pytest.MonkeyPatch) -> None:
    let_aioice_use_loopback(monkeypatch)
    server = Server(config.load({"engine": "echo", "slots": 1, "port": 0, "udp_port": 0}))
    await server.start()
    caller = Caller()
    try:
        async with aiohttp.ClientSession(server.url) as http:
            sdp = await caller.offer()
            async with http.post("/v1/sessions", data=sdp, headers={"Content-Type": "application/sdp"}) as response:
                place, tag = response.headers["Location"], response.headers["ETag"]
                await caller.answer(await response.text())
            await eventually(lambda: caller.connection.connectionState == "connected")
            headers = {"Content-Type": TYPE, "If-Match": "*"}
            async with http.patch(place, data=FRAGMENT, headers=headers) as response:
                fragment = (await response.text()).splitlines()
                assert response.status == 200
                assert response.headers["ETag"] == f'"{_value(fragment, "a=ice-ufrag:")}"' != tag
                assert _value(fragment, "a=ice-pwd:") and _value(fragment, "a=candidate:") and "a=ice-lite" in fragment
            async with http.patch(place, data="", headers=headers | {"If-Match": tag}) as response:
                assert response.status == 412
        assert caller.connection.connectionState == "connected", "the old path is good until the new one is"
    finally:
        await caller.close()
        await server.stop()


def _value(lines: list[str], prefix: str) -> str:
    return next((line.removeprefix(prefix) for line in lines if line.startswith(prefix)), "")
