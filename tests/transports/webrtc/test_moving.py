"""A call whose client gets another address: with an ICE restart, with a nomination alone, and with neither."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import aioice.ice
import pytest

from rtc_server.transports.webrtc.ice import MAX_PATHS, Credentials
from rtc_server.transports.webrtc.peer import WebRtcLeg
from tests.transports.webrtc.callers import TONE_HZ, Caller, Handler, House, echoing, house, let_aioice_use_loopback
from tests.transports.webrtc.checks import request
from tests.transports.webrtc.nat import Nat, is_handshake, nat, rtp_sequence_numbers
from tests.transports.webrtc.waiting import eventually

pytestmark = pytest.mark.e2e

RESTARTS = 1000 if os.environ.get("RTC_SOAK") else 100


@pytest.fixture(autouse=True)
def loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    let_aioice_use_loopback(monkeypatch)
    yield


class Line:
    """A stock client behind a router, in a call."""

    def __init__(self, caller: Caller, offer: str, leg: WebRtcLeg, handler: Handler, router: Nat) -> None:
        self.caller = caller
        self.offer = offer
        self.leg = leg
        self.handler = handler
        self.router = router

    @property
    def selected_port(self) -> int:
        selected = self.leg.connection.agent.selected
        assert selected is not None
        return selected.address[1]

    async def hears_us(self, seconds: float = 0.5) -> None:
        heard = sum(map(len, self.caller.heard))
        await eventually(lambda: sum(map(len, self.caller.heard)) > heard + seconds * 48_000)
        assert self.caller.heard_hz() == pytest.approx(TONE_HZ, abs=5)

    async def restart(self, count: int) -> Credentials:
        """An offer as of a browser's `restartIce()`. Returns what the answer gives for it."""
        lines = [
            f"a=ice-ufrag:re{count:04d}" if line.startswith("a=ice-ufrag:") else line
            for line in self.offer.split("\r\n")
        ]
        answer = await self.leg.renegotiate("\r\n".join(lines))
        return credentials_in(answer)

    async def nominate(self) -> None:
        """Checks from the newest address, repeated as a client does: too many are not answered."""
        async with asyncio.timeout(10):
            while self.selected_port != self.router.outer_address[1]:
                self.router.check(request(self.leg.connection.agent, USE_CANDIDATE=None))
                await asyncio.sleep(0.01)

    async def lost_packets(self) -> int:
        """Of the server's audio, as the client counts them."""
        report = await self.caller.connection.getStats()
        return sum(item.packetsLost for item in report.values() if item.type == "inbound-rtp")


def credentials_in(answer: str) -> Credentials:
    ufrag, pwd = (
        next(line for line in answer.split("\r\n") if line.startswith(name)) for name in ("a=ice-u", "a=ice-p")
    )
    return Credentials(ufrag.partition(":")[2], pwd.partition(":")[2])


async def call(home: House, router: Nat) -> Line:
    caller, handler = Caller(), Handler()
    offer = await caller.offer()
    leg, answer = await home.transport.create(offer, handler)
    await caller.answer(router.answer(answer))
    await eventually(lambda: caller.channel.readyState == "open")
    return Line(caller, offer, leg, handler, router)


async def test_restart_moves_the_call_without_a_lost_packet_and_leaves_dtls_alone() -> None:
    async with house() as home, nat(home.transport.mux.port) as router:
        line = await call(home, router)
        agent = line.leg.connection.agent
        async with echoing(line.leg):
            await line.hears_us()
            first = line.selected_port
            router.to_client.clear()
            router.to_server.clear()
            old = agent.credentials
            new = await line.restart(1)
            assert new == agent.credentials and new != old
            router.rebind(keep_old=True)
            router.check(request(agent))
            await eventually(lambda: router.responses)
            await line.hears_us()
            router.check(request(agent, old))  # still honoured
            await eventually(lambda: len(router.responses) == 2)
            router.check(request(agent, USE_CANDIDATE=None))
            await eventually(lambda: line.selected_port == router.outer_address[1] != first)
            assert set(home.transport.mux.by_ufrag) == {new.ufrag}
            await line.hears_us()
        for datagrams in (router.to_client, router.to_server):
            numbers = rtp_sequence_numbers(datagrams)
            assert len(numbers) > 50
            assert numbers == [(numbers[0] + place) & 0xFFFF for place in range(len(numbers))]
            assert not any(is_handshake(data) for data in datagrams)
        assert await line.lost_packets() == 0
        assert line.leg.stats().loss == 0.0
        line.caller.channel.send("after")
        await eventually(lambda: line.handler.messages == ["after"])
        await line.caller.close()
        await eventually(lambda: line.handler.closed == ["peer_closed"])
        home.assert_nothing_left()


async def test_restart_gives_fresh_credentials_each_time_and_an_offer_without_one_keeps_them() -> None:
    async with house() as home, nat(home.transport.mux.port) as router:
        line = await call(home, router)
        seen = [line.leg.connection.agent.credentials]
        for count in (1, 2, 3):
            seen.append(await line.restart(count))
            assert await line.restart(count) == seen[-1]
            assert set(home.transport.mux.by_ufrag) == {seen[0].ufrag, seen[-1].ufrag}
        assert len({item.ufrag for item in seen}) == len({item.pwd for item in seen}) == 4
        await line.caller.close()
        await eventually(lambda: line.handler.closed == ["peer_closed"])
        home.assert_nothing_left()


async def test_nomination_from_a_new_address_is_followed_at_once_without_a_restart() -> None:
    async with house() as home, nat(home.transport.mux.port) as router:
        line = await call(home, router)
        async with echoing(line.leg):
            await line.hears_us()
            router.rebind()
            router.check(request(line.leg.connection.agent, USE_CANDIDATE=None))
            await eventually(lambda: router.responses)
            assert line.selected_port == router.outer_address[1]
            await line.hears_us()
        assert line.leg.connection.agent.path_switches == 1
        assert not line.handler.closed
        await line.caller.close()
        await eventually(lambda: line.handler.closed == ["peer_closed"])


async def test_client_that_never_nominates_again_is_followed_by_its_media(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stock aiortc and Firefox: checks on, but no USE-CANDIDATE in them."""
    monkeypatch.setattr(aioice.ice, "CONSENT_INTERVAL", 0.5)
    async with house() as home, nat(home.transport.mux.port) as router:
        line = await call(home, router)
        async with echoing(line.leg):
            await line.hears_us()
            router.rebind()
            await eventually(lambda: line.selected_port == router.outer_address[1])
            await line.hears_us()
        assert line.leg.connection.agent.path_switches == 1
        assert not line.handler.closed
        await line.caller.close()
        await eventually(lambda: line.handler.closed == ["peer_closed"])
        home.assert_nothing_left()


async def test_client_that_vanishes_gives_no_sign_of_life_and_its_leg_can_be_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aioice.ice, "CONSENT_INTERVAL", 0.2)
    async with house() as home, nat(home.transport.mux.port) as router:
        line = await call(home, router)
        first_s = line.leg.last_sign_of_life_s
        await eventually(lambda: line.leg.last_sign_of_life_s > first_s)
        router.close()
        await asyncio.sleep(0.2)  # what was under way has come
        last = line.leg.last_sign_of_life_s, line.leg.last_audio_s
        await asyncio.sleep(1.0)
        assert (line.leg.last_sign_of_life_s, line.leg.last_audio_s) == last
        assert not line.handler.closed, "when it is enough is for the session to say"
        await line.leg.close("silent")
        home.assert_nothing_left()
        await line.caller.close()


@pytest.mark.soak
async def test_restarts_without_end_leave_nothing_behind() -> None:
    async with house() as home, nat(home.transport.mux.port) as router:
        line = await call(home, router)
        mux, agent = home.transport.mux, line.leg.connection.agent
        for count in range(RESTARTS):
            await line.restart(count)
            router.rebind()
            await line.nominate()
            assert len(mux.by_ufrag) == 1
            assert set(mux.by_address) == set(agent.paths) and len(agent.paths) <= MAX_PATHS
        assert agent.path_switches >= RESTARTS
        async with echoing(line.leg):
            await line.hears_us()
        await line.caller.close()
        await eventually(lambda: line.handler.closed == ["peer_closed"])
        home.assert_nothing_left()
