"""Real peers over real sockets: stock aiortc as the client."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import time
import weakref
from collections.abc import Iterator

import pytest
from aioice import stun

from rtc_server import events
from rtc_server.errors import BadOffer, UnsupportedOffer
from rtc_server.events import Numbered
from rtc_server.session.leg import Leg
from rtc_server.transports.webrtc.addresses import default_route_addresses
from rtc_server.transports.webrtc.peer import WebRtcLeg
from tests.transports.webrtc import offers
from tests.transports.webrtc.callers import TONE_HZ, Caller, Handler, echoing, house, let_aioice_use_loopback
from tests.transports.webrtc.checks import request
from tests.transports.webrtc.waiting import eventually

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    let_aioice_use_loopback(monkeypatch)
    yield


async def test_stock_client_hears_its_echo_and_exchanges_events() -> None:
    async with house() as home:
        caller = Caller()
        leg, handler = await home.connect(caller)
        as_leg: Leg = leg
        async with echoing(leg):
            as_leg.send_event(Numbered(1, events.SessionReady()))
            await eventually(lambda: caller.channel.readyState == "open")
            caller.channel.send('{"type":"response.cancel"}')
            await eventually(lambda: sum(map(len, caller.heard)) > 2 * 48_000)
        assert caller.heard_hz() == pytest.approx(TONE_HZ, abs=5)
        assert handler.messages == ['{"type":"response.cancel"}']
        assert [json.loads(message)["type"] for message in caller.messages] == ["session.ready"]
        stats = as_leg.stats()
        assert stats.loss == 0.0 and stats.round_trip_ms is not None
        assert as_leg.expects_audio and as_leg.played_ms() > 1000
        assert time.monotonic() - as_leg.last_audio_s < 1.0
        assert time.monotonic() - as_leg.last_sign_of_life_s < 10.0
        await caller.close()
        await eventually(lambda: handler.closed == ["peer_closed"])
        home.assert_nothing_left()


async def test_our_close_is_seen_by_the_client_at_once_and_frees_everything() -> None:
    async with house() as home:
        caller = Caller()
        leg, handler = await home.connect(caller)
        await eventually(lambda: caller.channel.readyState == "open")
        leg.send_event(Numbered(1, events.SessionEnded(reason="done")))
        await asyncio.gather(leg.close("done"), leg.close("done"))
        home.assert_nothing_left()
        await eventually(lambda: caller.channel.readyState == "closed", 2)
        assert json.loads(caller.messages[-1])["type"] == "session.ended"
        assert handler.closed == []
        await caller.close()


async def test_offer_whose_client_never_comes_is_gone_after_its_deadline() -> None:
    async with house(ice_timeout_s=0.2) as home:
        handler = Handler()
        await home.transport.create(offers.read("S01"), handler)
        assert len(home.transport.mux.by_ufrag) == 1
        await eventually(lambda: handler.closed == ["ice_failed"], 5)
        home.assert_nothing_left()


def socket_that_checks(leg: WebRtcLeg, port: int) -> socket.socket:
    """A client that does ICE and nothing else."""
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.settimeout(5)
    client.sendto(bytes(request(leg.connection.agent, USE_CANDIDATE=None)), ("127.0.0.1", port))
    return client


async def test_client_without_dtls_is_gone_after_the_handshake_deadline() -> None:
    async with house(dtls_timeout_s=0.3) as home:
        handler = Handler()
        leg, _ = await home.transport.create(offers.read("S01"), handler)
        with socket_that_checks(leg, home.transport.mux.port) as client:
            data = await asyncio.to_thread(client.recv, 2048)
            assert stun.parse_message(data).message_class == stun.Class.RESPONSE
            await eventually(lambda: handler.closed == ["dtls_failed"], 5)
        home.assert_nothing_left()


async def test_client_that_speaks_garbage_instead_of_dtls_is_cut_off() -> None:
    async with house(dtls_timeout_s=0.5) as home:
        handler = Handler()
        leg, _ = await home.transport.create(offers.read("S01"), handler)
        with socket_that_checks(leg, home.transport.mux.port) as client:
            await asyncio.to_thread(client.recv, 2048)
            for first in range(256):
                client.sendto(bytes([first]) + bytes(60), ("127.0.0.1", home.transport.mux.port))
            await eventually(lambda: handler.closed == ["dtls_failed"], 5)
        home.assert_nothing_left()


async def test_peer_whose_certificate_is_not_the_offered_one_is_refused() -> None:
    async with house() as home:
        caller = Caller()
        handler = Handler()
        wrong = ":".join(["AB"] * 32)
        lines = [
            f"a=fingerprint:sha-256 {wrong}" if line.startswith("a=fingerprint:sha-256") else line
            for line in (await caller.offer()).split("\r\n")
            if not line.startswith(("a=fingerprint:sha-384", "a=fingerprint:sha-512"))
        ]
        _, answer = await home.transport.create("\r\n".join(lines), handler)
        await caller.answer(answer)
        await eventually(lambda: handler.closed == ["dtls_failed"], 10)
        home.assert_nothing_left()
        await caller.close()


async def test_refused_offer_leaves_nothing_behind() -> None:
    async with house() as home:
        for name in ("S04", "S29"):
            with pytest.raises(BadOffer):
                await home.transport.create(offers.read(name), Handler())
        home.assert_nothing_left()


async def test_answer_is_ready_within_milliseconds_even_with_names_that_do_not_resolve() -> None:
    async with house() as home:
        await home.transport.create(offers.read("S01"), Handler())
        began_s = time.perf_counter()
        await home.transport.create(offers.read("S05"), Handler())
        await home.transport.create(offers.read("S25"), Handler())
        assert time.perf_counter() - began_s < 0.5


async def test_second_offer_of_a_client_keeps_the_call_and_a_refused_one_leaves_it_alone() -> None:
    async with house() as home:
        caller = Caller()
        leg, handler = await home.connect(caller)
        async with echoing(leg):
            await eventually(lambda: sum(map(len, caller.heard)) > 48_000)
            again = await caller.offer()
            with pytest.raises(UnsupportedOffer, match="changes the DTLS role"):
                await leg.renegotiate(again.replace("a=setup:actpass", "a=setup:passive"))
            await caller.answer(await leg.renegotiate(again))
            heard = sum(map(len, caller.heard))
            await eventually(lambda: sum(map(len, caller.heard)) > heard + 48_000)
        assert caller.heard_hz() == pytest.approx(TONE_HZ, abs=5)
        assert not handler.closed
        await caller.close()
        await eventually(lambda: handler.closed == ["peer_closed"])
        with pytest.raises(BadOffer, match="has ended"):
            await leg.renegotiate(again)


async def test_listener_hears_us_and_is_not_expected_to_speak() -> None:
    async with house() as home:
        caller = Caller(sends=False)
        leg, _ = await home.connect(caller)
        assert not leg.expects_audio
        await eventually(lambda: sum(map(len, caller.heard)) > 24_000)
        await caller.close()


async def test_channel_with_another_label_is_not_used_and_does_no_harm() -> None:
    async with house() as home:
        caller = Caller(channel_label="chat")
        leg, handler = await home.connect(caller)
        await eventually(lambda: caller.channel.readyState == "open")
        caller.channel.send("hello")
        leg.send_event(Numbered(1, events.SessionReady()))
        await asyncio.sleep(0.2)
        assert not handler.messages and not caller.messages and not handler.closed
        await caller.close()


async def test_client_that_closes_only_its_channel_stays_in_the_call() -> None:
    async with house() as home:
        caller = Caller()
        leg, handler = await home.connect(caller)
        await eventually(lambda: caller.channel.readyState == "open")
        caller.channel.close()
        await asyncio.sleep(0.3)
        assert not handler.closed
        leg.send_event(Numbered(1, events.SessionReady()))
        await caller.close()
        await eventually(lambda: handler.closed == ["peer_closed"])


async def test_stranger_cannot_disturb_a_call() -> None:
    """One empty datagram from anywhere ended a call of stock aiortc."""
    async with house() as home:
        caller = Caller()
        leg, handler = await home.connect(caller)
        mux = home.transport.mux
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for data in [b"", b"\x15\xfe\xfd" + bytes(20), b"\x80" * 60, b"\x00" * 20, bytes(3000)] * 200:
                stranger.sendto(data, ("127.0.0.1", mux.port))
        await eventually(lambda: sum(mux.dropped.values()) > 100)
        async with echoing(leg):
            heard = sum(map(len, caller.heard))
            await eventually(lambda: sum(map(len, caller.heard)) > heard + 24_000)
        assert not handler.closed
        assert {"empty", "oversize", "stranger", "bad_stun"} <= set(mux.dropped)
        await caller.close()


async def test_many_calls_on_one_port_do_not_mix() -> None:
    async with house() as home:
        callers = [Caller() for _ in range(4)]
        legs = await asyncio.gather(*[home.connect(caller) for caller in callers])
        for index, (caller, (leg, _)) in enumerate(zip(callers, legs, strict=True)):
            await eventually(lambda caller=caller: caller.channel.readyState == "open")  # type: ignore[misc]
            leg.send_event(Numbered(1, events.Dtmf(digit=str(index))))
        await eventually(lambda: all(caller.messages for caller in callers))
        assert [json.loads(caller.messages[0])["digit"] for caller in callers] == ["0", "1", "2", "3"]
        await legs[0][0].close("done")
        await asyncio.sleep(0.1)
        assert len(home.transport.legs) == 3
        for caller in callers:
            await caller.close()
        await eventually(lambda: not home.transport.legs)
        home.assert_nothing_left()


async def test_closed_legs_are_forgotten() -> None:
    async with house() as home:
        legs: list[weakref.ref[WebRtcLeg]] = []
        for _ in range(10):
            caller = Caller()
            leg, _ = await home.connect(caller)
            legs.append(weakref.ref(leg))
            await leg.close("done")
            await caller.close()
        home.assert_nothing_left()
        del leg, caller, _

        def forgotten() -> bool:
            gc.collect()
            return not any(leg() for leg in legs)

        await eventually(forgotten)


async def test_defect_in_one_call_ends_that_call_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise ZeroDivisionError

    async with house() as home:
        callers = [Caller() for _ in range(3)]
        legs = [await home.connect(caller) for caller in callers]
        monkeypatch.setattr(legs[0][0].jitter_buffer, "put", broken)
        monkeypatch.setattr(legs[1][0].agent_audio, "next_packet", broken)
        await eventually(lambda: [leg[1].closed for leg in legs] == [["internal_error"], ["internal_error"], []])
        heard = sum(map(len, callers[2].heard))
        await eventually(lambda: sum(map(len, callers[2].heard)) > heard + 24_000)
        assert len(home.transport.legs) == 1
        for caller in callers:
            await caller.close()


async def test_later_offer_may_add_the_event_channel() -> None:
    async with house() as home:
        caller = Caller(channel_label="")
        leg, _ = await home.connect(caller)
        leg.send_event(Numbered(1, events.SessionReady()))
        caller.open_channel("events")
        await caller.answer(await leg.renegotiate(await caller.offer()))
        await eventually(lambda: caller.channel.readyState == "open")
        leg.send_event(Numbered(2, events.Dtmf(digit="5")))
        await eventually(lambda: caller.messages)
        assert json.loads(caller.messages[-1])["type"] == "dtmf"
        await caller.close()


async def test_call_over_ipv6_alone() -> None:
    ours = [address for address in default_route_addresses() if ":" in address]
    if not ours:
        pytest.skip("no IPv6 address here")
    async with house(advertise_ip=(ours[0],)) as home:
        caller = Caller()
        leg, _ = await home.connect(caller)
        await eventually(lambda: sum(map(len, caller.heard)) > 24_000)
        assert leg.connection.agent.selected is not None and ":" in leg.connection.agent.selected.address[0]
        await caller.close()
