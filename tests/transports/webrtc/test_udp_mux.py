from __future__ import annotations

import asyncio
import random
import socket
import struct
from typing import Any, cast

import pytest
from aioice import stun

from rtc_server.errors import ConfigError
from rtc_server.transports.webrtc.ice import (
    CHECKS_BURST,
    CHECKS_PER_S,
    OWNER_SILENT_S,
    PATH_SILENT_S,
    Credentials,
    IceAgent,
)
from rtc_server.transports.webrtc.udp_mux import BATCH_DATAGRAMS, MAX_DATAGRAM_BYTES, MuxSocket, UdpMux, open_mux
from tests.transports.webrtc.checks import FakeSocket, agent, request, with_wrong_password

CALLER = ("192.0.2.1", 5000)
STRANGER = ("203.0.113.9", 666)


class Rig:
    """A mux without sockets, one call in it, a clock to be set."""

    def __init__(self) -> None:
        self.now = 100.0
        self.mux = UdpMux(clock=lambda: self.now)
        self.socket = FakeSocket()
        self.got: list[bytes] = []
        self.agent = IceAgent(Credentials.random(), self.take, lambda: None)
        self.mux.add(self.agent)

    def take(self, data: bytes) -> bool:
        self.got.append(data)
        return data.startswith(b"\x80authentic")

    def receive(self, data: bytes, remote: tuple[Any, ...] = CALLER) -> None:
        self.mux.datagram_received(cast(MuxSocket, self.socket), data, remote)

    def check(self, remote: tuple[Any, ...] = CALLER, **attributes: Any) -> None:
        self.receive(bytes(request(self.agent, **attributes)), remote)


def test_check_is_answered_where_it_came_from() -> None:
    rig = Rig()
    rig.check()
    ((_, destination),) = rig.socket.sent
    assert destination == CALLER
    assert rig.socket.responses()[0].attributes["XOR-MAPPED-ADDRESS"] == CALLER


def test_ipv6_check_is_answered_to_the_full_address_and_keyed_by_host_and_port() -> None:
    rig = Rig()
    remote = ("fe80::1", 5000, 0, 4)
    rig.check(remote)
    assert rig.socket.sent[0][1] == remote
    assert set(rig.mux.by_address) == {("fe80::1", 5000)}
    rig.receive(b"\x80media", ("fe80::1", 5000, 0, 4))
    assert rig.got == [b"\x80media"]


def test_datagrams_reach_the_call_only_from_an_address_that_a_check_has_proved() -> None:
    rig = Rig()
    rig.receive(b"\x80early")
    rig.check()
    rig.receive(b"\x80media")
    rig.receive(b"\x80media", STRANGER)
    assert rig.got == [b"\x80media"]
    assert rig.mux.dropped["stranger"] == 2


TRANSACTION = bytes(range(12))
HOSTILE = {
    "empty": (b"", "empty"),
    "too long": (b"\x80" * (MAX_DATAGRAM_BYTES + 1), "oversize"),
    "media": (b"\x80", "stranger"),
    "one byte": (b"\x00", "bad_stun"),
    "no cookie": (b"\x00\x01\x00\x00" + b"\x00" * 16, "bad_stun"),
    "indication": (bytes(stun.Message(stun.Method.BINDING, stun.Class.INDICATION, TRANSACTION)), "bad_stun"),
    "allocation": (bytes(stun.Message(stun.Method.ALLOCATE, stun.Class.REQUEST, TRANSACTION)), "bad_stun"),
    "response": (bytes(stun.Message(stun.Method.BINDING, stun.Class.RESPONSE, TRANSACTION)), "unknown_transaction"),
    "error": (bytes(stun.Message(stun.Method.BINDING, stun.Class.ERROR, TRANSACTION)), "unknown_transaction"),
    "no name": (bytes(stun.Message(stun.Method.BINDING, stun.Class.REQUEST, TRANSACTION)), "bad_stun"),
    "somebody else's": (bytes(request(agent())), "unknown_ufrag"),
}


@pytest.mark.parametrize(("data", "reason"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_datagram_is_dropped_counted_and_never_answered(data: bytes, reason: str) -> None:
    rig = Rig()
    rig.receive(data, STRANGER)
    assert rig.mux.dropped == {reason: 1}
    assert not rig.socket.sent and not rig.got and not rig.mux.by_address


def test_wrong_password_is_counted_and_not_answered() -> None:
    rig = Rig()
    rig.receive(bytes(request(rig.agent, with_wrong_password(rig.agent))), STRANGER)
    assert rig.mux.dropped == {"bad_integrity": 1} and not rig.socket.sent


def test_wrong_fingerprint_is_bad_stun() -> None:
    rig = Rig()
    data = bytearray(bytes(request(rig.agent)))
    data[-1] ^= 1
    rig.receive(bytes(data))
    assert rig.mux.dropped == {"bad_stun": 1}


@pytest.mark.parametrize("attribute", [0x0006, 0x0020, 0x0024, 0x8029, 0x0009, 0x0008, 0x8028])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 5])
def test_stun_attributes_of_wrong_sizes_never_raise(attribute: int, size: int) -> None:
    rig = Rig()
    body = struct.pack("!HH", attribute, size) + b"\xff" * (size + -size % 4)
    rig.receive(struct.pack("!HHI12s", 1, len(body), stun.COOKIE, b"t" * 12) + body)
    assert sum(rig.mux.dropped.values()) == 1 and not rig.socket.sent


def test_20000_random_datagrams_leave_the_call_and_the_tables_alone() -> None:
    rig = Rig()
    rig.check()
    rig.got.clear()
    rng = random.Random(3)
    good = bytes(request(rig.agent))
    for _ in range(20_000):
        data = bytearray(good) if rng.random() < 0.3 else bytearray(rng.randbytes(rng.randrange(80)))
        for _ in range(rng.randrange(4)):
            if len(data) > 8:  # the last attribute, FINGERPRINT, covers everything but its own header
                data[rng.randrange(len(data) - 8)] = rng.randrange(256)
        if bytes(data) != good:
            rig.receive(bytes(data), STRANGER)
    assert not rig.got
    assert set(rig.mux.by_address) == {CALLER}
    assert rig.agent.selected is not None and rig.agent.selected.address == CALLER


def test_two_calls_behind_one_address_are_told_apart_by_port() -> None:
    rig = Rig()
    other = agent()
    rig.mux.add(other)
    rig.check()
    rig.receive(bytes(request(other)), (CALLER[0], CALLER[1] + 1))
    assert rig.mux.by_address == {CALLER: rig.agent, (CALLER[0], CALLER[1] + 1): other}


def test_address_of_a_live_call_cannot_be_taken_over_by_another_call() -> None:
    """A caller who forges a neighbour's source address must not draw the neighbour's media to itself."""
    rig = Rig()
    thief = agent()
    rig.mux.add(thief)
    rig.check()
    rig.receive(bytes(request(thief)))
    assert rig.mux.by_address[CALLER] is rig.agent
    assert rig.mux.dropped == {"address_taken": 1} and not thief.paths


def test_check_that_somebody_overheard_moves_nothing_when_it_comes_from_another_address() -> None:
    rig = Rig()
    overheard = bytes(request(rig.agent, USE_CANDIDATE=None))
    rig.receive(overheard)
    rig.now += 60.0
    rig.check(USE_CANDIDATE=None)
    last_check_s, answers = rig.agent.last_check_s, len(rig.socket.sent)
    rig.now += 1.0
    rig.receive(overheard, STRANGER)
    assert rig.agent.selected is not None and rig.agent.selected.address == CALLER
    assert rig.mux.dropped == {"replayed_check": 1}
    assert set(rig.mux.by_address) == set(rig.agent.paths) == {CALLER}
    assert rig.agent.last_check_s == last_check_s and len(rig.socket.sent) == answers


def test_same_check_from_the_same_address_is_answered_and_a_sign_of_life_every_time() -> None:
    """A retransmission, or a small client that has one transaction id for all its checks."""
    rig = Rig()
    check = bytes(request(rig.agent, USE_CANDIDATE=None))
    for _ in range(3):
        rig.now += 5.0
        rig.receive(check)
        rig.receive(check, STRANGER)
        assert rig.agent.last_check_s == rig.now
    first, *others = rig.socket.sent
    assert others == [first, first]
    assert rig.mux.dropped == {"replayed_check": 3}


def test_caller_who_moves_is_followed_by_a_check_of_its_own_after_any_copy_of_an_old_one() -> None:
    rig = Rig()
    old, new = bytes(request(rig.agent, USE_CANDIDATE=None)), (CALLER[0], CALLER[1] + 1)
    rig.receive(old)
    rig.receive(old, new)
    rig.check(new, USE_CANDIDATE=None)
    assert rig.agent.selected is not None and rig.agent.selected.address == new


def test_copies_cost_the_caller_none_of_its_checks() -> None:
    rig = Rig()
    overheard = bytes(request(rig.agent))
    rig.receive(overheard)
    for _ in range(5000):
        rig.receive(overheard, STRANGER)
    rig.check()
    assert len(rig.socket.sent) == 2


def test_address_changes_hands_once_its_call_is_silent_or_gone() -> None:
    rig = Rig()
    rig.check()
    heir = agent()
    rig.mux.add(heir)
    rig.now += OWNER_SILENT_S + 1
    rig.receive(bytes(request(heir)))
    assert rig.mux.by_address[CALLER] is heir
    rig.mux.remove(rig.agent)
    assert rig.mux.by_address[CALLER] is heir


def test_tables_hold_a_bounded_number_of_addresses_per_call_and_none_after_it() -> None:
    rig = Rig()
    for port in range(1000, 1100):
        rig.now += 1
        rig.check((CALLER[0], port), USE_CANDIDATE=None)
    assert set(rig.mux.by_address) == set(rig.agent.paths)
    assert len(rig.agent.paths) <= 8
    rig.mux.remove(rig.agent)
    rig.mux.remove(rig.agent)
    assert not rig.mux.by_address and not rig.mux.by_ufrag


def test_restart_is_answered_under_both_ufrags_until_the_new_one_is_nominated() -> None:
    rig = Rig()
    old, new = rig.agent.credentials, Credentials.random()
    rig.check(USE_CANDIDATE=None)
    rig.mux.release(rig.agent, rig.agent.restart(new))
    rig.mux.add(rig.agent)
    assert set(rig.mux.by_ufrag) == {old.ufrag, new.ufrag}
    for credentials in (old, new):
        rig.receive(bytes(request(rig.agent, credentials)))
        assert rig.socket.responses()[-1].check_message_integrity(credentials.key)
    rig.receive(bytes(request(rig.agent, new, USE_CANDIDATE=None)), (CALLER[0], CALLER[1] + 1))
    assert set(rig.mux.by_ufrag) == {new.ufrag}
    rig.receive(bytes(request(rig.agent, old)))
    assert rig.mux.dropped == {"unknown_ufrag": 1}
    rig.mux.remove(rig.agent)
    assert not rig.mux.by_ufrag and not rig.mux.by_address


def test_restart_that_is_replaced_leaves_the_table() -> None:
    rig = Rig()
    old, third = rig.agent.credentials, Credentials.random()
    for credentials in (Credentials.random(), third):
        rig.mux.release(rig.agent, rig.agent.restart(credentials))
        rig.mux.add(rig.agent)
    assert set(rig.mux.by_ufrag) == {old.ufrag, third.ufrag}


def test_media_that_authenticates_moves_a_call_whose_path_has_gone_silent() -> None:
    rig = Rig()
    new = (CALLER[0], CALLER[1] + 1)
    rig.check(USE_CANDIDATE=None)
    rig.check(new)
    rig.now += PATH_SILENT_S
    rig.receive(b"\x80forged", new)
    assert rig.agent.selected is not None and rig.agent.selected.address == CALLER
    rig.receive(b"\x80authentic", new)
    assert rig.agent.selected.address == new


def test_flood_of_authenticated_checks_is_cut_to_its_limit() -> None:
    rig = Rig()
    for _ in range(5000):
        rig.now += 0.0001
        rig.check()
    assert len(rig.socket.sent) <= CHECKS_BURST + 0.5 * CHECKS_PER_S + 1
    assert rig.mux.dropped["check_flood"] == 5000 - len(rig.socket.sent)


async def test_open_mux_binds_any_free_port_for_both_families_and_answers_there() -> None:
    mux = await open_mux(0)
    ours = agent()
    mux.add(ours)
    try:
        assert mux.port > 0
        loop = asyncio.get_running_loop()
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            if ("IPv6" if family == socket.AF_INET6 else "IPv4") not in mux.families:
                continue
            with socket.socket(family, socket.SOCK_DGRAM) as client:
                client.setblocking(False)
                client.sendto(bytes(request(ours)), (host, mux.port))
                data = await asyncio.wait_for(loop.sock_recv(client, 2048), 5)
                assert stun.parse_message(data).message_class == stun.Class.RESPONSE
    finally:
        mux.close()


async def test_port_in_use_is_a_clear_error() -> None:
    mux = await open_mux(0)
    try:
        with pytest.raises(ConfigError, match="cannot bind UDP port"):
            await open_mux(mux.port)
    finally:
        mux.close()


class ScriptedSocket:
    """A bound socket, as far as `MuxSocket` uses it: reads and sends what it is told to."""

    def __init__(self, bound: socket.socket, script: list[bytes | Exception]) -> None:
        self._bound = bound
        self.family = bound.family
        self.script = script
        self.send_error: Exception | None = None

    def fileno(self) -> int:
        return self._bound.fileno()

    def recvfrom(self, size: int) -> tuple[bytes, tuple[str, int]]:
        item = self.script.pop(0) if self.script else BlockingIOError()
        if isinstance(item, Exception):
            raise item
        return item[:size], STRANGER

    def sendto(self, data: bytes, destination: tuple[Any, ...]) -> None:
        if self.send_error is not None:
            raise self.send_error

    def close(self) -> None:
        pass


async def test_socket_is_read_in_batches_so_that_a_flood_lets_timers_run() -> None:
    mux = UdpMux()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        scripted = ScriptedSocket(bound, [b"\x80x"] * (3 * BATCH_DATAGRAMS))
        item = MuxSocket(mux, cast(socket.socket, scripted))
        item._on_readable()
        assert mux.dropped["stranger"] == BATCH_DATAGRAMS
        item.close()


async def test_error_of_an_earlier_datagram_costs_none_of_the_next() -> None:
    mux = UdpMux()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        scripted = ScriptedSocket(bound, [b"\x80x", ConnectionRefusedError(), b"", b"\x80y"])
        item = MuxSocket(mux, cast(socket.socket, scripted))
        item._on_readable()
        assert mux.dropped == {"stranger": 2, "socket_error": 1, "empty": 1}
        item.close()


@pytest.mark.parametrize(
    ("error", "reason"), [(BlockingIOError(), "send_buffer_full"), (OSError("no route"), "socket_error")]
)
async def test_what_cannot_be_sent_is_lost_and_counted(error: Exception, reason: str) -> None:
    mux = UdpMux()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        scripted = ScriptedSocket(bound, [])
        scripted.send_error = error
        item = MuxSocket(mux, cast(socket.socket, scripted))
        item.send(b"x", STRANGER)
        assert mux.dropped == {reason: 1}
        item.close()


async def test_closed_socket_sends_nothing_and_raises_nothing() -> None:
    mux = await open_mux(0)
    (item, *_) = mux._sockets
    item.send(b"x", ("192.0.2.200", 0))
    mux.close()
    mux.close()
    item.send(b"x", ("127.0.0.1", mux.port))
