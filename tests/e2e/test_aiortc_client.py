"""A stock aiortc ``RTCPeerConnection`` calls the echo engine."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.aiortc_client import AiortcClient
from tests.e2e.conftest import Caller, Serve
from tests.e2e.listen import best_lag
from tests.e2e.server import ROOT
from tests.e2e.speech import silence, spoken, tone, utterances

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90, method="signal")]

SDP_CASES = Path(__file__).resolve().parents[1] / "data" / "sdp"
LONGEST_LAG_S = 1.5
"""For a machine with other things to do; what the lag really is, the benchmark measures."""
LONGEST_HOLE_S = 0.5


def assert_unbroken(client: AiortcClient, since_s: float) -> None:
    """A tone was heard up to the end. A busy machine may tear holes of a frame or two into it, not longer ones."""
    heard = client.heard()
    windows = heard.between(since_s, heard.end_s).envelope() > 0.02
    assert len(windows) > 25
    silent = longest = 0
    for audible in windows:
        silent = 0 if audible else silent + 1
        longest = max(longest, silent)
    assert longest * 0.02 < LONGEST_HOLE_S
    assert windows.mean() > 0.5


async def test_hears_its_own_speech_come_back(serve: Serve, caller: Caller) -> None:
    lead_s = 2.0
    client = caller(await serve("echo"), np.concatenate([silence(lead_s), spoken("02_two_turns")]))
    await client.connect()
    await asyncio.sleep(lead_s + 10)

    sent, heard = client.sent(), client.heard()
    lags = []
    for utterance in utterances("02_two_turns"):
        began_s, ended_s = sent.start_s + lead_s + utterance.start_s, sent.start_s + lead_s + utterance.end_s
        part = sent.between(began_s - 0.2, ended_s + 0.2)
        lags.append(best_lag(part, heard.between(began_s - 0.2, ended_s + LONGEST_LAG_S + 0.2)))
    # A busy machine may spoil one of them, not both.
    lag_s, fit = max(lags, key=lambda lag: lag[1])
    assert fit > 0.85
    assert 0 < lag_s < LONGEST_LAG_S


async def test_is_told_of_session_and_response_in_order(serve: Serve, caller: Caller) -> None:
    client = caller(await serve("echo"), tone(60))
    await client.connect()
    await client.wait_event("session.stats")

    kinds = [event["type"] for event in client.events]
    order = [kinds.index(kind) for kind in ("session.created", "session.ready", "response.created", "session.stats")]
    assert order == sorted(order)
    created = client.events[kinds.index("session.created")]
    assert created["id"] == client.session_id
    assert created["engine"]["name"] == "echo"
    assert created["frame_ms"] == 80
    assert kinds.count("response.created") == 1


async def test_a_second_offer_is_answered_and_the_audio_goes_on(serve: Serve, caller: Caller) -> None:
    server = await serve("echo")
    client = caller(server, tone(60))
    await client.connect()
    await asyncio.sleep(1.5)
    before_s = client.heard().end_s
    answer = await client.renegotiate()
    await asyncio.sleep(2)

    assert answer["id"] == client.session_id
    assert client.peer.connectionState == "connected"
    assert_unbroken(client, since_s=before_s)
    assert await server.slots_in_use() == 1


async def test_a_second_offer_that_is_refused_leaves_the_call_as_it_was(serve: Serve, caller: Caller) -> None:
    client = caller(await serve("echo"), tone(60))
    await client.connect()
    await asyncio.sleep(1.5)
    before_s = client.heard().end_s
    path = f"/v1/sessions/{client.session_id}"
    for offer in ("v=0\r\n", (SDP_CASES / "S01_chrome_desktop_audio_data_trickle.sdp").read_text()):
        status, body, _ = await client.request("PATCH", path, json={"sdp": offer, "type": "offer"})
        assert 400 <= status < 500
        assert body["code"] and body["message"]
    await asyncio.sleep(1)

    assert_unbroken(client, since_s=before_s)


async def test_delete_ends_the_call(serve: Serve, caller: Caller) -> None:
    server = await serve("echo", 1)
    client = caller(server, tone(60))
    await client.connect()
    status, _, _ = await client.request("DELETE", f"/v1/sessions/{client.session_id}")

    assert status == 204
    assert await server.slots_in_use() == 0
    ended = await client.wait_event("session.ended")
    assert ended["reason"] == "client_closed"
    kinds = [event["type"] for event in client.events]
    assert kinds.index("response.done") < kinds.index("session.ended")
    await client.wait_closed()
    status, body, _ = await client.request("DELETE", f"/v1/sessions/{client.session_id}")
    assert (status, body["code"]) == (404, "session_not_found")


async def test_a_closed_peer_connection_that_is_not_taken_up_again_frees_its_slot(serve: Serve, caller: Caller) -> None:
    server = await serve("echo", 1, "--resume-s", "1")
    client = caller(server, tone(60))
    await client.connect()
    await client.peer.close()
    await server.wait_metric('rtc_sessions{state="degraded"}', 1, within_s=5)
    assert await server.slots_in_use() == 1
    await server.wait_slots_in_use(0)


async def test_a_full_server_says_when_to_come_back_and_the_first_call_goes_on(serve: Serve, caller: Caller) -> None:
    server = await serve("echo", 1)
    first, second = caller(server, tone(60)), caller(server, tone(60))
    await first.connect()
    await asyncio.sleep(1.5)
    before_s = first.heard().end_s
    for _ in range(3):
        status, body, headers = await second.request("POST", "/v1/sessions", json=await second.offer())
        assert status == 503
        assert int(headers["Retry-After"]) > 0
        assert set(body) == {"code", "message", "hint"}
        assert body["code"] == "engine_full"
    await asyncio.sleep(1)
    assert_unbroken(first, since_s=before_s)

    await first.close()
    await server.wait_slots_in_use(0)
    await second.connect()
    assert second.peer.connectionState == "connected"


@pytest.mark.parametrize("slots", [1, 2], ids=["full", "with room"])
async def test_bad_offers_do_not_disturb_a_call(slots: int, serve: Serve, caller: Caller) -> None:
    server = await serve("echo", slots)
    client = caller(server, tone(60))
    await client.connect()
    await asyncio.sleep(1.5)
    before_s = client.heard().end_s
    cases = ("S04_safari_data_only_mdns", "S29_sha1_fingerprint")
    bodies = [
        "{not json",
        '{"type": "offer"}',
        '{"sdp": "", "type": "offer"}',
        *({"sdp": (SDP_CASES / f"{case}.sdp").read_text(), "type": "offer"} for case in cases),
    ]
    for body in bodies:
        send = (
            {"data": body, "headers": {"Content-Type": "application/json"}} if isinstance(body, str) else {"json": body}
        )
        status, answer, _ = await client.request("POST", "/v1/sessions", **send)
        assert status == 503 if slots == 1 else 400 <= status < 500, answer
        assert answer["code"] and answer["message"]
    await asyncio.sleep(1)

    assert await server.slots_in_use() == 1
    assert_unbroken(client, since_s=before_s)


@pytest.mark.parametrize(
    ("body", "limit"),
    [({"sdp": "v" * 70_000}, "65536"), ({"sdp": "v" * 40_000}, "32768")],
    ids=["body over 64 KiB", "SDP over 32 KiB"],
)
async def test_what_is_too_large_is_refused(body: dict[str, str], limit: str, serve: Serve, caller: Caller) -> None:
    client = caller(await serve("echo"), tone(1))
    status, answer, _ = await client.request("POST", "/v1/sessions", json=body | {"type": "offer"})
    assert (status, answer["code"]) == (413, "too_large")
    assert limit in answer["message"]


async def test_a_caller_that_vanishes_is_frozen_and_the_slot_can_be_taken_back(serve: Serve, caller: Caller) -> None:
    """Killed: no goodbye, no datagram any more. 13 s without a sign of life, and no engine time passes for it."""
    server = await serve("echo", 1)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.e2e.aiortc_client", server.url),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        session_id = (await asyncio.wait_for(process.stdout.readline(), 30)).decode().strip()
        assert await server.metric('rtc_sessions{state="live"}') == 1
    finally:
        process.kill()
        await process.wait()
    await server.wait_metric('rtc_sessions{state="degraded"}', 1, within_s=30)

    assert await server.slots_in_use() == 1
    status, _, _ = await caller(server, tone(1)).request("DELETE", f"/v1/sessions/{session_id}")
    assert status == 204
