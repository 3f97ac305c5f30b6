from __future__ import annotations

import pytest
from aioice import stun

from rtc_server.transports.webrtc import ice
from rtc_server.transports.webrtc.ice import Address, IceAgent, Path
from tests.transports.webrtc.checks import FakeSocket, agent, request

SOCKET = FakeSocket()


def path(address: Address) -> Path:
    return Path(address, address, SOCKET)


def check(to: IceAgent, address: Address, now: float = 0.0, nominate: bool = False) -> stun.Message:
    message = request(to, USE_CANDIDATE=None) if nominate else request(to)
    response, _ = to.answer(message, path(address), now)
    return response


def test_credentials_are_random_and_long_enough() -> None:
    agents = [agent() for _ in range(50)]
    assert len({item.ufrag for item in agents}) == len({item.pwd for item in agents}) == 50
    assert all(len(item.ufrag) >= 4 and len(item.pwd) >= 22 for item in agents)


def test_only_a_request_with_our_password_authenticates() -> None:
    ours = agent()
    assert ours.authenticates(request(ours))
    assert not ours.authenticates(request(ours, pwd="somebody else's password"))
    unsigned = stun.Message(stun.Method.BINDING, stun.Class.REQUEST, attributes={"USERNAME": f"{ours.ufrag}:x"})
    assert not ours.authenticates(unsigned)


@pytest.mark.parametrize("address", [("192.0.2.1", 5000), ("2001:db8::1", 5000)])
def test_response_tells_the_mapped_address_signed_and_with_fingerprint(address: Address) -> None:
    ours = agent()
    message = request(ours)
    response, _ = ours.answer(message, path(address), 0.0)
    parsed = stun.parse_message(bytes(response))
    assert parsed.message_class == stun.Class.RESPONSE
    assert parsed.transaction_id == message.transaction_id
    assert parsed.attributes["XOR-MAPPED-ADDRESS"] == address
    assert "FINGERPRINT" in parsed.attributes
    assert parsed.check_message_integrity(ours.pwd.encode())


def test_first_check_selects_its_path_and_is_told_once() -> None:
    told: list[str] = []
    ours = IceAgent(lambda data: None, lambda: told.append("checked"))
    check(ours, ("192.0.2.1", 1))
    check(ours, ("192.0.2.1", 2))
    assert told == ["checked"]
    assert ours.selected is not None and ours.selected.address == ("192.0.2.1", 1)


def test_newest_nomination_wins_and_a_check_without_it_changes_nothing() -> None:
    ours = agent()
    check(ours, ("192.0.2.1", 1), nominate=True)
    check(ours, ("192.0.2.1", 2))
    assert ours.selected is not None and ours.selected.address[1] == 1
    check(ours, ("192.0.2.1", 2), nominate=True)
    assert ours.selected.address[1] == 2
    assert ours.path_switches == 1
    check(ours, ("192.0.2.1", 2), nominate=True)
    assert ours.path_switches == 1


def test_check_of_a_peer_that_thinks_it_is_controlled_gets_487_and_selects_nothing() -> None:
    ours = agent()
    response, _ = ours.answer(request(ours, ICE_CONTROLLED=7), path(("192.0.2.1", 1)), 3.0)
    parsed = stun.parse_message(bytes(response))
    assert parsed.message_class == stun.Class.ERROR and parsed.error_code == 487
    assert parsed.check_message_integrity(ours.pwd.encode())
    assert ours.selected is None and not ours.paths
    assert ours.last_check_s == 3.0


def test_usual_check_of_a_controlling_peer_is_no_role_conflict() -> None:
    assert check(agent(), ("192.0.2.1", 1)).message_class == stun.Class.RESPONSE


def test_every_authenticated_check_is_a_sign_of_life() -> None:
    ours = agent()
    assert ours.last_check_s is None
    check(ours, ("192.0.2.1", 1), now=5.0)
    check(ours, ("192.0.2.1", 2), now=9.0)
    assert ours.last_check_s == 9.0


def test_addresses_are_bounded_and_the_selected_one_stays() -> None:
    ours = agent()
    check(ours, ("192.0.2.1", 1), now=0.0, nominate=True)
    released: list[Address] = []
    for port in range(2, 40):
        _, gone = ours.answer(request(ours), path(("192.0.2.1", port)), float(port))
        released += gone
    assert len(ours.paths) == ice.MAX_PATHS
    assert ("192.0.2.1", 1) in ours.paths
    assert len(released) == 39 - ice.MAX_PATHS
    assert released[0] == ("192.0.2.1", 2)


def test_nothing_is_sent_before_a_path_is_known() -> None:
    ours = agent()
    assert not ours.send(b"data")
    check(ours, ("192.0.2.1", 1))
    assert ours.send(b"data")
    assert SOCKET.sent[-1] == (b"data", ("192.0.2.1", 1))
