"""SIP's share of the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial

import pytest

from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.network.turns import TURN_S, Turns
from tests.logs import captured_logs, entry_of
from tests.transports.sip.network.listeners import Heard, Stranger, network, options_request, place_of, until


class Workshop:
    """Each work takes so long; notes in which turn of the loop it was done."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.turn = 0
        self.done: list[tuple[str, int]] = []
        self.failed: list[str] = []
        self.turns = Turns(lambda: self.now_s)

    def take(self, name: str, takes_s: float) -> bool:
        return self.turns.take(partial(self._work, name, takes_s), partial(self.failed.append, name))

    def take_defect(self, name: str) -> bool:
        """Its step raises, each time."""
        return self.turns.take(partial(self._fail, name), partial(self.failed.append, name))

    async def next_turns(self, count: int) -> None:
        for _ in range(count):
            self.turn += 1
            await asyncio.sleep(0)

    def take_steps(self, name: str, takes_s: float, steps: int) -> bool:
        left = iter(range(steps - 1, -1, -1))
        return self.turns.take(lambda: not self._work(name, takes_s) and next(left) > 0, lambda: None)

    def _fail(self, name: str) -> bool:
        self._work(name, TURN_S / 2)
        raise RuntimeError("a defect of ours")

    def _work(self, name: str, takes_s: float) -> bool:
        self.now_s += takes_s
        self.done.append((name, self.turn))
        return False


async def test_little_work_is_done_at_once() -> None:
    shop = Workshop()
    assert shop.take("a", TURN_S / 4) and shop.take("b", TURN_S / 4)
    assert shop.done == [("a", 0), ("b", 0)]


async def test_work_beyond_a_turn_waits_in_its_order() -> None:
    shop = Workshop()
    taken = [shop.take(name, TURN_S * 0.6) for name in "abcdef"]
    assert taken == [True, True, False, False, False, False]
    await shop.next_turns(4)
    assert [name for name, _ in shop.done] == list("abcdef")
    turns = [turn for _, turn in shop.done]
    assert max(turns.count(turn) for turn in turns) == 2


async def test_new_work_does_not_overtake_what_waits() -> None:
    shop = Workshop()
    for name in "abcde":
        shop.take(name, 2 * TURN_S)
    await shop.next_turns(2)
    assert not shop.take("late", 0.0)
    await shop.next_turns(6)
    assert [name for name, _ in shop.done] == ["a", "b", "c", "d", "e", "late"]


async def test_each_turn_begins_anew() -> None:
    shop = Workshop()
    for _ in range(5):
        assert shop.take("a", 2 * TURN_S)
        await shop.next_turns(2)


async def test_those_who_wait_take_a_step_each() -> None:
    shop = Workshop()
    shop.take("first", TURN_S)
    for name in "ab":
        assert not shop.take_steps(name, TURN_S / 2, 3)
    await shop.next_turns(5)
    assert "".join(name for name, _ in shop.done[1:]) == "ababab"


async def test_one_with_much_to_do_stops_at_the_end_of_its_turn() -> None:
    shop = Workshop()
    assert not shop.take_steps("a", TURN_S / 2, 5)
    assert len(shop.done) == 2
    await shop.next_turns(4)
    assert [turn for _, turn in shop.done] == [0, 0, 1, 1, 2]


async def test_work_that_brings_work_does_not_get_a_second_turn_in_one() -> None:
    shop = Workshop()

    def more() -> bool:
        shop.take("brought", TURN_S)
        return False

    shop.take("first", TURN_S)
    shop.turns.take(more, lambda: None)
    for name in "abcd":
        shop.take(name, TURN_S)
    await shop.next_turns(8)
    turns = [turn for _, turn in shop.done]
    assert len(turns) == 6
    assert len(set(turns)) == 6


async def test_what_waits_at_the_end_is_left() -> None:
    shop = Workshop()
    for name in "abc":
        shop.take(name, TURN_S)
    shop.turns.close()
    shop.turns.close()
    await shop.next_turns(3)
    assert shop.done == [("a", 0)]


async def test_step_that_raises_at_once_is_the_last_one_of_its_kind_and_logged() -> None:
    shop = Workshop()
    with captured_logs() as logs:
        assert shop.take_defect("a")
        await shop.next_turns(3)
    assert (shop.done, shop.failed) == ([("a", 0)], ["a"])
    assert entry_of(logs, "SIP socket failed")["exc_info"]


async def test_step_that_raises_later_keeps_nobody_from_their_turn() -> None:
    shop = Workshop()
    shop.take("first", TURN_S)
    for name in "abc":
        shop.take_defect(name)
        shop.take(name.upper(), TURN_S / 2)
    with captured_logs() as logs:
        await shop.next_turns(6)
    assert [name for name, _ in shop.done] == ["first", *"aAbBcC"]
    assert shop.failed == ["a", "b", "c"]
    assert len(logs) == 3


# ---- sockets ---------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def counting(heard: Heard) -> AsyncIterator[Counter[int]]:
    """How many messages come in each turn of the loop, where one is as much as there should be."""
    turn, per_turn = 0, Counter[int]()

    def hear(data: bytes, flow: Flow) -> None:
        per_turn[turn] += 1
        time.sleep(TURN_S)

    async def spin() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    heard.on_message = hear
    spinning = asyncio.create_task(spin())
    yield per_turn
    spinning.cancel()


async def test_datagrams_that_cost_much_let_other_work_in_between() -> None:
    async with network("udp:127.0.0.1:0") as (ours, heard):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
            for number in range(10):
                peer.sendto(options_request(number), place_of(ours, "udp"))
        async with counting(heard) as per_turn:
            await heard.flow(10)
    assert max(per_turn.values()) <= 2


async def test_connections_that_all_speak_at_once_let_other_work_in_between() -> None:
    async with network("tcp:127.0.0.1:0") as (ours, heard):
        with contextlib.ExitStack() as stack:
            peers = [stack.enter_context(socket.create_connection(place_of(ours, "tcp"))) for _ in range(10)]
            await until(lambda: len(ours.streams) == 10)
            await asyncio.sleep(0.05)
            async with counting(heard) as per_turn:
                for number, peer in enumerate(peers):
                    peer.sendall(options_request(number))
                    peer.shutdown(socket.SHUT_WR)
                await heard.flow(10)
    assert max(per_turn.values()) <= 2
    assert sorted(data for data, _ in heard.messages) == sorted(map(options_request, range(10)))


async def test_many_small_messages_of_one_connection_let_other_work_in_between() -> None:
    async with network("tcp:127.0.0.1:0") as (ours, heard):
        with socket.create_connection(place_of(ours, "tcp")) as peer:
            await until(lambda: len(ours.streams) == 1)
            async with counting(heard) as per_turn:
                peer.sendall(b"OPTIONS sip:a SIP/2.0\r\n\r\n" * 20)
                await heard.flow(20)
    assert max(per_turn.values()) <= 2


async def test_datagrams_and_connections_share_a_turn_and_neither_waits_for_the_last_of_the_other() -> None:
    async with network() as (ours, heard):
        with contextlib.ExitStack() as stack:
            peers = [stack.enter_context(socket.create_connection(place_of(ours, "tcp"))) for _ in range(3)]
            sender = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            await until(lambda: len(ours.streams) == 3)
            await asyncio.sleep(0.05)
            async with counting(heard) as per_turn:
                for number in range(8):
                    sender.sendto(options_request(number), place_of(ours, "udp"))
                for peer in peers:
                    peer.sendall(b"".join(options_request(number) for number in range(8)))
                await heard.flow(32)
    assert max(per_turn.values()) <= 2
    first_half = Counter(flow.transport for _, flow in heard.messages[:16])
    assert first_half["udp"] >= 2
    assert first_half["tcp"] >= 8


class FaultyGate:
    """Has a defect that some questions show."""

    def __init__(self) -> None:
        self.asked = 0
        self.fails = False

    def is_trunk(self, host: str) -> bool:
        return False

    def allow(self, host: str, transport: str) -> bool:
        self.asked += 1
        if self.fails and self.asked % 3:
            raise RuntimeError("a defect of ours")
        return True


@pytest.mark.parametrize("busy", [False, True])
async def test_udp_socket_hears_on_behind_a_defect(busy: bool) -> None:
    gate = FaultyGate()
    gate.fails = True
    async with network("udp:127.0.0.1:0", gate=gate) as (ours, heard):
        heard.on_message = lambda data, flow: time.sleep(TURN_S if busy else 0)
        with captured_logs() as logs, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
            for number in range(12):
                peer.sendto(options_request(number), place_of(ours, "udp"))
            await heard.flow(4)
            await until(lambda: gate.asked == 12)
    assert len(heard.messages) == 4
    assert [entry["event"] for entry in logs].count("SIP socket failed") == 8


async def test_listener_takes_connections_behind_a_defect() -> None:
    gate = FaultyGate()
    gate.fails = True
    async with network("tcp:127.0.0.1:0", gate=gate) as (ours, _):
        with captured_logs() as logs:
            turned_away = [await Stranger.connect(place_of(ours, "tcp")) for _ in range(2)]
            assert all([await each.is_hung_up_on() for each in turned_away])
            await Stranger.connect(place_of(ours, "tcp"))
            await until(lambda: len(ours.streams) == 1)
    assert [entry["event"] for entry in logs].count("SIP connection not taken") == 2


async def test_connection_with_a_defect_is_closed_and_others_are_heard() -> None:
    gate = FaultyGate()
    async with network("tcp:127.0.0.1:0", gate=gate) as (ours, heard):
        first, second = [await Stranger.connect(place_of(ours, "tcp")) for _ in range(2)]
        await until(lambda: gate.asked == 2)
        gate.asked, gate.fails = 0, True
        with captured_logs() as logs:
            first.say(options_request(1))
            assert await first.is_hung_up_on()
            gate.fails = False
            second.say(options_request(2))
            await heard.flow(1)
    assert entry_of(logs, "SIP socket failed")["log_level"] == "error"
    assert heard.ended["internal_error"] == 1
