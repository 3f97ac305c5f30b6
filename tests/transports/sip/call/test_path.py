"""Flows that a dialog connects to: each is held once, and let go once."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from rtc_server.transports.sip.call.path import MAX_WAITING, Path
from rtc_server.transports.sip.call.surroundings import Tasks
from rtc_server.transports.sip.dialog.dialog import Dialog
from rtc_server.transports.sip.flow import Address, Flow
from rtc_server.transports.sip.network.target import Target
from tests.transports.sip.call.phone import FLOW, US


class CountingNetwork:
    """Connects when it is told to."""

    def __init__(self) -> None:
        self.holds = Counter[Flow]()
        self.releases = Counter[Flow]()
        self.asked: list[Target] = []
        self.error: Exception | None = None
        self.open = asyncio.Event()
        self.open.set()

    async def connect(self, target: Target) -> Flow:
        self.asked.append(target)
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return flow_to(target.host)

    def hold(self, flow: Flow) -> None:
        self.holds[flow] += 1

    def release(self, flow: Flow) -> None:
        self.releases[flow] += 1
        assert self.releases[flow] <= self.holds[flow]

    def contact(self, flow: Flow) -> Address:
        return US

    @property
    def held(self) -> list[Flow]:
        return list((self.holds - self.releases).elements())


def flow_to(host: str) -> Flow:
    return Flow("udp", US, (host, 5060))


class Rig:
    def __init__(self) -> None:
        self.network = CountingNetwork()
        self.dialog = Dialog("c", "<sip:a@b>;tag=1", "<sip:c@d>;tag=2", "sip:c@d", [], FLOW, "<sip:a@b>", local_cseq=1)
        self.path = Path(self.dialog, self.network, Tasks())
        self.used: list[Flow | None] = []

    async def use(self, host: str) -> None:
        self.dialog.target = f"sip:c@{host}"
        self.path.use(self.used.append)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
async def rig() -> Rig:
    return Rig()


async def test_where_the_peer_was_seen_nothing_is_connected_and_nothing_held(rig: Rig) -> None:
    await rig.use(FLOW.remote[0])
    assert rig.used == [FLOW]
    assert not rig.network.holds
    rig.path.close()
    assert not rig.network.releases


async def test_next_hop_is_held_once_however_often_it_is_used(rig: Rig) -> None:
    for _ in range(3):
        await rig.use("203.0.113.1")
    assert rig.used == [flow_to("203.0.113.1")] * 3
    assert rig.network.holds == {flow_to("203.0.113.1"): 1}
    assert not rig.network.releases


async def test_another_next_hop_is_held_in_place_of_the_last(rig: Rig) -> None:
    await rig.use("203.0.113.1")
    await rig.use("203.0.113.2")
    assert rig.network.held == [flow_to("203.0.113.2")]
    rig.path.close()
    rig.path.close()
    assert rig.network.held == []
    assert rig.network.releases == {flow_to("203.0.113.1"): 1, flow_to("203.0.113.2"): 1}


async def test_connection_that_is_gone_is_let_go_and_made_again(rig: Rig) -> None:
    await rig.use("203.0.113.1")
    flow = flow_to("203.0.113.1")
    assert rig.path.on_flow_closed(flow)
    assert not rig.path.on_flow_closed(flow)
    assert rig.network.held == []
    await rig.use("203.0.113.1")
    assert len(rig.network.asked) == 2
    assert rig.network.held == [flow]


async def test_connection_that_comes_when_all_is_over_is_used_and_not_held(rig: Rig) -> None:
    rig.network.open.clear()
    await rig.use("203.0.113.1")
    rig.path.close()
    rig.network.open.set()
    await rig.settle()
    assert rig.used == [flow_to("203.0.113.1")]
    assert not rig.network.holds


@pytest.mark.parametrize("error", [ConnectionRefusedError(), TimeoutError(), ValueError("no name for a certificate")])
async def test_next_hop_that_is_not_reached_is_not_held_and_the_last_one_let_go(rig: Rig, error: Exception) -> None:
    await rig.use("203.0.113.1")
    rig.network.error = error
    await rig.use("203.0.113.2")
    await rig.use("203.0.113.2")
    assert rig.used == [flow_to("203.0.113.1"), FLOW, FLOW]
    assert rig.network.held == []


async def test_requests_wait_for_one_connection_in_their_order_and_not_without_bound(rig: Rig) -> None:
    rig.network.open.clear()
    order: list[int] = []
    rig.dialog.target = "sip:c@203.0.113.1"
    for number in range(MAX_WAITING + 1):
        rig.path.use(lambda flow, number=number: order.append(number if flow else -1))  # type: ignore[misc]
    assert order == [-1]
    rig.network.open.set()
    await rig.settle()
    assert order == [-1, *range(MAX_WAITING)]
    assert rig.network.holds == {flow_to("203.0.113.1"): 1}


async def test_flow_leads_to_its_address_and_to_the_name_that_was_looked_up(rig: Rig) -> None:
    assert rig.path.hosts_of(FLOW) == ("198.51.100.7",)
    await rig.use("proxy.example")
    assert rig.path.hosts_of(flow_to("proxy.example")) == ("proxy.example", "proxy.example")
    assert rig.path.hosts_of(FLOW) == ("198.51.100.7",)
