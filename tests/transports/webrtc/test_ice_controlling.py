"""Our agent for peers that are ICE-lite, in virtual time; the far end is `ice.IceAgent`, which is lite itself."""

from __future__ import annotations

from typing import Any, cast

import pytest
from aioice import stun

from rtc_server.transports.webrtc.ice import Address, Credentials, IceAgent, Path
from rtc_server.transports.webrtc.ice_controlling import (
    ALL_UNPROVEN_CHECKS_BURST,
    ALL_UNPROVEN_CHECKS_PER_S,
    CONSENT_EVERY_S,
    CONSENT_EXPIRES_S,
    MAX_CANDIDATES,
    MAX_TRANSACTIONS,
    UNPROVEN_CHECKS_BURST,
    UNPROVEN_CHECKS_PER_S,
    ControllingAgent,
    RemoteAgent,
)
from rtc_server.transports.webrtc.udp_mux import MuxSocket, UdpMux
from tests.transports.webrtc.checks import FakeSocket, request
from tests.transports.webrtc.virtualtime import VirtualTime

NEAR, FAR, ELSEWHERE = ("192.0.2.1", 8125), ("198.51.100.7", 3478), ("203.0.113.9", 666)
ICE_TIMEOUT_S = 10.0


class Rig:
    """A controlling agent in a mux of its own, and what it does at `peer`, which answers at the addresses in `up`."""

    def __init__(self, candidates: tuple[Address, ...] = (FAR,), beside: Rig | None = None) -> None:
        self.time = VirtualTime() if beside is None else beside.time
        self.mux = UdpMux(clock=self.time.clock) if beside is None else beside.mux
        self.sent: list[tuple[float, Address, stun.Message]] = []
        self.events: list[str] = []
        self.media: list[bytes] = []
        self.peer = IceAgent(Credentials.random(), lambda data: False, lambda: None)
        self.up: set[Address] = set()
        self.candidates = candidates
        self.agent = ControllingAgent(
            Credentials.random(),
            self.take,
            lambda: self.events.append("checked"),
            on_expired=lambda: self.events.append("expired"),
            transactions=self.mux.by_transaction,
            all_unproven_checks=self.mux.unproven_checks,
            clock=self.time.clock,
            call_later=self.time.call_later,
        )
        self.mux.add(self.agent)

    def take(self, data: bytes) -> bool:
        self.media.append(data)
        return True

    def start(self) -> None:
        paths = [Path(address, address, self) for address in self.candidates]
        self.agent.check(RemoteAgent(self.peer.credentials, paths))

    def restart(self, theirs: Credentials, candidates: tuple[Address, ...]) -> None:
        """The caller has new credentials, and so have we."""
        self.mux.release(self.agent, self.agent.restart(Credentials.random()))
        self.mux.add(self.agent)
        self.agent.check(RemoteAgent(theirs, [Path(address, address, self) for address in candidates]))

    def send(self, data: bytes, destination: tuple[Any, ...]) -> None:
        """As of a socket: the peer's answer is there at once."""
        if data[0] > 3:
            return
        message = stun.parse_message(data)
        self.sent.append((self.time.now, destination, message))
        if destination in self.up and self.peer.authenticates(message):
            response, _ = self.peer.answer(message, Path(NEAR, NEAR, FakeSocket()), self.time.now)
            self.receive(response, destination)

    def receive(self, message: stun.Message, remote: Address = FAR) -> None:
        self.mux.datagram_received(cast(MuxSocket, self), bytes(message), remote)

    def last(self) -> stun.Message:
        return self.sent[-1][2]

    def times(self) -> list[float]:
        return [round(at_s, 3) for at_s, _, _ in self.sent]

    @property
    def selected(self) -> Address | None:
        return None if self.agent.selected is None else self.agent.selected.address


def response_to(check: stun.Message, key: bytes, kind: stun.Class = stun.Class.RESPONSE) -> stun.Message:
    message = stun.Message(stun.Method.BINDING, kind, check.transaction_id, {"XOR-MAPPED-ADDRESS": NEAR})
    if kind is stun.Class.ERROR:
        message.attributes["ERROR-CODE"] = (487, "Role Conflict")
    message.add_message_integrity(key)
    return message


def test_check_says_everything_that_a_controlling_agent_has_to_say() -> None:
    rig = Rig()
    rig.start()
    check = rig.last()
    assert check.attributes["USERNAME"] == f"{rig.peer.credentials.ufrag}:{rig.agent.credentials.ufrag}"
    assert {"PRIORITY", "ICE-CONTROLLING", "USE-CANDIDATE", "MESSAGE-INTEGRITY", "FINGERPRINT"} <= set(check.attributes)
    assert check.check_message_integrity(rig.peer.credentials.key)


def test_checks_begin_at_50_ms_and_slow_down_to_one_a_second_until_one_is_answered() -> None:
    rig = Rig()
    rig.start()
    rig.time.advance(3.0)
    assert rig.times() == [0.0, 0.05, 0.15, 0.35, 0.75, 1.55, 2.55]
    rig.up.add(FAR)
    rig.time.advance(1.0)
    assert rig.selected == FAR and rig.events == ["checked"]
    assert rig.mux.by_address == {FAR: rig.agent}


def test_first_candidate_that_answers_is_selected_and_the_rest_are_left_alone() -> None:
    others = tuple(("198.51.100.7", port) for port in (1, 2, 3))
    rig = Rig((*others, FAR))
    rig.up.add(FAR)
    rig.start()
    rig.sent.clear()
    rig.time.advance(20.0)
    assert {address for _, address, _ in rig.sent} == {FAR}
    assert rig.agent.path_switches == 0


def test_selected_path_is_asked_for_consent_every_2500_ms() -> None:
    rig = Rig()
    rig.up.add(FAR)
    rig.start()
    rig.time.advance(10.0)
    assert rig.times() == [0.0, 2.5, 5.0, 7.5, 10.0]
    assert rig.agent.last_check_s == 10.0
    assert rig.agent.send(b"\x80media")


def test_silent_path_is_given_up_for_another_candidate() -> None:
    rig = Rig((FAR, ELSEWHERE))
    rig.up.add(FAR)
    rig.start()
    rig.up = {ELSEWHERE}
    rig.time.advance(4 * CONSENT_EVERY_S)
    assert rig.selected == ELSEWHERE and rig.agent.path_switches == 1
    assert rig.events == ["checked"]


def test_consent_expires_and_then_nothing_is_sent_and_no_timer_is_left() -> None:
    rig = Rig()
    rig.up.add(FAR)
    rig.start()
    rig.up.clear()
    rig.time.advance(CONSENT_EXPIRES_S - 0.1)
    assert rig.events == ["checked"] and rig.agent.send(b"\x80media")
    rig.time.advance(1.1)
    assert rig.events == ["checked", "expired"]
    rig.sent.clear()
    rig.time.advance(100.0)
    assert not rig.sent and not rig.agent.send(b"\x80media")
    assert not rig.mux.by_transaction


def test_address_that_never_answers_gets_few_checks() -> None:
    """An offer may name anybody's address."""
    for count in (1, 3, 16):
        rig = Rig(tuple(("198.51.100.7", 1000 + port) for port in range(count)))
        rig.start()
        rig.time.advance(ICE_TIMEOUT_S)
        assert len(rig.sent) <= UNPROVEN_CHECKS_BURST + UNPROVEN_CHECKS_PER_S * ICE_TIMEOUT_S
        assert len({address for _, address, _ in rig.sent}) <= MAX_CANDIDATES
        assert sum(len(bytes(message)) for _, _, message in rig.sent) < 8_000
        if count == 3:
            last = {address for at_s, address, _ in rig.sent if at_s > ICE_TIMEOUT_S - 1.0}
            assert last == set(rig.candidates), "enough for as long as a peer has"


@pytest.mark.parametrize("up", [set(), {FAR}], ids=["nobody answers", "the caller itself answers"])
def test_restarts_do_not_multiply_the_checks_to_addresses_that_never_answer(up: set[Address]) -> None:
    victims = tuple(("203.0.113.9", port) for port in range(7))
    rig = Rig((FAR, *victims))
    rig.up = up
    rig.start()
    for _ in range(200):
        theirs = Credentials.random()
        rig.peer.restart(theirs)
        rig.restart(theirs, rig.candidates)
        rig.time.advance(0.01)
    sent = [address for _, address, _ in rig.sent if address in victims]
    assert len(sent) <= UNPROVEN_CHECKS_BURST + 2 * UNPROVEN_CHECKS_PER_S


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (lambda rig: response_to(rig.last(), b"guess"), "bad_integrity"),
        (lambda rig: response_to(rig.last(), rig.agent.credentials.key), "bad_integrity"),
        (
            lambda rig: stun.Message(stun.Method.BINDING, stun.Class.RESPONSE, rig.last().transaction_id),
            "bad_integrity",
        ),
        (lambda rig: response_to(stun.Message(stun.Method.BINDING, stun.Class.REQUEST), b"x"), "unknown_transaction"),
    ],
)
def test_forged_response_selects_nothing_and_proves_nothing(forge: Any, reason: str) -> None:
    rig = Rig()
    rig.start()
    rig.receive(forge(rig))
    assert rig.mux.dropped == {reason: 1}
    assert rig.selected is None and not rig.mux.by_address and not rig.events


def test_right_response_from_another_address_counts_for_nothing() -> None:
    rig = Rig()
    rig.start()
    rig.receive(response_to(rig.last(), rig.peer.credentials.key), ELSEWHERE)
    assert rig.mux.dropped == {"bad_integrity": 1} and rig.selected is None
    rig.receive(response_to(rig.last(), rig.peer.credentials.key))
    assert rig.selected == FAR


def test_response_counts_once() -> None:
    rig = Rig()
    rig.start()
    response = response_to(rig.last(), rig.peer.credentials.key)
    rig.receive(response)
    rig.receive(response)
    assert rig.mux.dropped == {"unknown_transaction": 1}


def test_malformed_response_is_dropped() -> None:
    rig = Rig()
    rig.start()
    data = bytearray(bytes(response_to(rig.last(), rig.peer.credentials.key)))
    data[-1] ^= 1
    rig.mux.datagram_received(cast(MuxSocket, rig), bytes(data), FAR)
    assert rig.mux.dropped == {"bad_stun": 1} and rig.selected is None


def test_error_of_the_peer_selects_nothing_and_the_checks_go_on() -> None:
    rig = Rig()
    rig.start()
    rig.receive(response_to(rig.last(), rig.peer.credentials.key, stun.Class.ERROR))
    assert rig.selected is None and rig.agent.last_check_s is None
    rig.up.add(FAR)
    rig.time.advance(0.1)
    assert rig.selected == FAR


def test_address_of_another_live_call_is_not_taken_over_by_its_answers() -> None:
    rig = Rig()
    other = IceAgent(Credentials.random(), lambda data: False, lambda: None)
    rig.mux.add(other)
    rig.receive(request(other))
    rig.up.add(FAR)
    rig.start()
    assert rig.mux.by_address == {FAR: other}
    assert rig.mux.dropped["address_taken"] == 1 and rig.selected is None


def test_own_address_as_the_peers_leads_nowhere() -> None:
    """Two offers that give each other's credentials and this server's address would make it call itself."""
    rig = Rig((NEAR,))
    other = IceAgent(rig.peer.credentials, lambda data: False, lambda: None)
    rig.mux.add(other)
    rig.start()
    rig.receive(rig.last(), NEAR)
    assert rig.mux.dropped == {"own_check": 1}
    assert other.last_check_s is None and rig.selected is None and not rig.mux.by_address


def test_peer_that_claims_to_control_gets_a_signed_487_and_moves_nothing() -> None:
    rig = Rig()
    rig.start()
    answers = FakeSocket()
    rig.mux.datagram_received(cast(MuxSocket, answers), bytes(request(rig.agent, USE_CANDIDATE=None)), ELSEWHERE)
    (response,) = answers.responses()
    assert response.error_code == 487 and response.check_message_integrity(rig.agent.credentials.key)
    assert rig.selected is None and not rig.mux.by_address


def test_check_of_a_controlled_peer_is_answered_and_the_path_stays_ours_to_choose() -> None:
    rig = Rig()
    rig.up.add(FAR)
    rig.start()
    answers = FakeSocket()
    check = request(rig.agent, ICE_CONTROLLED=7, USE_CANDIDATE=None)
    rig.mux.datagram_received(cast(MuxSocket, answers), bytes(check), ELSEWHERE)
    (response,) = answers.responses()
    assert response.message_class == stun.Class.RESPONSE
    assert rig.selected == FAR


def test_open_checks_are_bounded_and_close_leaves_none() -> None:
    rig = Rig(tuple(("198.51.100.7", 1000 + port) for port in range(7)))
    rig.up.add(rig.candidates[0])
    rig.start()
    rig.up.clear()
    rig.time.advance(CONSENT_EXPIRES_S - 1)
    assert len(rig.sent) > MAX_TRANSACTIONS
    assert len(rig.mux.by_transaction) == MAX_TRANSACTIONS
    rig.mux.remove(rig.agent)
    rig.mux.remove(rig.agent)
    assert not rig.mux.by_transaction and not rig.mux.by_ufrag and not rig.mux.by_address
    rig.sent.clear()
    rig.time.advance(100.0)
    assert not rig.sent and rig.events == ["checked"]


def test_restart_checks_the_new_generation_and_media_stays_until_it_answers() -> None:
    rig = Rig()
    rig.up.add(FAR)
    rig.start()
    old, theirs = rig.agent.credentials, Credentials.random()
    rig.peer.restart(theirs)
    rig.restart(theirs, (ELSEWHERE,))
    ours = rig.agent.credentials
    rig.time.advance(1.0)
    assert rig.selected == FAR and set(rig.mux.by_ufrag) == {old.ufrag, ours.ufrag}
    assert rig.last().attributes["USERNAME"] == f"{theirs.ufrag}:{ours.ufrag}"
    rig.up = {ELSEWHERE}
    rig.time.advance(1.0)
    assert rig.selected == ELSEWHERE and set(rig.mux.by_ufrag) == {ours.ufrag}
    assert rig.peer.ufrags == (theirs.ufrag,)
    assert rig.events == ["checked"]


def test_1000_restarts_leave_nothing_behind() -> None:
    rig = Rig()
    rig.up.add(FAR)
    rig.start()
    for _ in range(1000):
        theirs = Credentials.random()
        rig.peer.restart(theirs)
        rig.restart(theirs, (FAR,))
    assert len(rig.mux.by_ufrag) == len(rig.mux.by_address) == 1
    assert not rig.mux.by_transaction
    rig.sent.clear()
    rig.time.advance(CONSENT_EVERY_S)
    assert len(rig.sent) == 1, "one timer"


# ---- many offers -----------------------------------------------------------------------------------------------------


class Flood:
    """Strangers whose offers name eight addresses that never answer. Their calls end after `ICE_TIMEOUT_S`."""

    def __init__(self, beside: Rig, calls_per_s: int) -> None:
        self.checks = 0
        self._beside = beside
        self._every_s = 1 / calls_per_s
        self._calls: list[tuple[float, Rig]] = []

    def run(self, seconds: float) -> None:
        time = self._beside.time
        until_s = time.now + seconds
        while time.now < until_s:
            call = Rig(tuple(("203.0.113.9", 1000 + port) for port in range(16)), self._beside)
            self._calls.append((time.now + ICE_TIMEOUT_S, call))
            call.start()
            time.advance(self._every_s)
            while self._calls[0][0] <= time.now:
                self._end(self._calls.pop(0)[1])

    def end(self) -> None:
        while self._calls:
            self._end(self._calls.pop()[1])

    def _end(self, call: Rig) -> None:
        self.checks += len(call.sent)
        call.mux.remove(call.agent)


def test_many_offers_together_make_no_more_checks_than_the_limit_of_all_calls() -> None:
    flood = Flood(Rig(), calls_per_s=100)
    flood.run(15.0)
    flood.end()
    limit = ALL_UNPROVEN_CHECKS_BURST + 15.0 * ALL_UNPROVEN_CHECKS_PER_S
    assert 0.95 * limit < flood.checks <= limit + 1


def test_call_that_is_connected_keeps_its_checks_in_a_flood_of_offers() -> None:
    rig = Rig()
    rig.up.add(FAR)
    rig.start()
    Flood(rig, calls_per_s=100).run(10.0)
    assert rig.times()[:5] == [0.0, 2.5, 5.0, 7.5, 10.0]
    assert rig.events == ["checked"]


def test_call_that_is_connected_finds_its_peer_again_in_a_flood_of_offers() -> None:
    """Its address has answered once, so the limits are not about it."""
    rig = Rig((ELSEWHERE, FAR))
    rig.up.add(FAR)
    rig.start()
    rig.up.clear()
    flood = Flood(rig, calls_per_s=100)
    flood.run(4 * CONSENT_EVERY_S)
    back_s = rig.time.now
    rig.up.add(FAR)
    flood.run(1.1)
    assert rig.agent.last_check_s is not None and rig.agent.last_check_s >= back_s


def test_call_connects_among_as_many_strangers_as_may_be_half_open() -> None:
    rig = Rig(tuple(("198.51.100.7", 1000 + port) for port in range(3)))
    flood = Flood(rig, calls_per_s=7)
    flood.run(ICE_TIMEOUT_S)
    rig.up.add(rig.candidates[-1])
    rig.start()
    flood.run(1.0)
    assert rig.selected == rig.candidates[-1]


def test_calls_whose_checks_are_held_back_check_later_each_of_their_candidates() -> None:
    first = Rig(tuple(("198.51.100.7", 1000 + port) for port in range(7)))
    calls = [first, *[Rig(first.candidates, first) for _ in range(99)]]
    for rig in calls:
        rig.start()
    assert all(rig.sent for rig in calls)
    assert sum(len(rig.sent) for rig in calls) <= ALL_UNPROVEN_CHECKS_BURST
    first.time.advance(ICE_TIMEOUT_S)
    for rig in calls:
        assert {address for _, address, _ in rig.sent} == set(rig.candidates)


def test_check_that_is_held_back_for_others_costs_its_own_call_nothing() -> None:
    rig = Rig()
    while rig.mux.unproven_checks.allow(rig.time.now):
        pass
    rig.start()
    assert not rig.sent
    rig.up.add(FAR)
    rig.time.advance(0.05)
    assert rig.selected == FAR
    own = rig.agent._unproven_checks
    assert sum(own.allow(rig.time.now) for _ in range(2 * UNPROVEN_CHECKS_BURST)) == UNPROVEN_CHECKS_BURST - 1
