from __future__ import annotations

import pytest
from aioice import stun

from rtc_server.transports.webrtc import ice
from rtc_server.transports.webrtc.ice import Address, Credentials, IceAgent, Path
from tests.transports.webrtc.checks import FakeSocket, agent, request, with_wrong_password

SOCKET = FakeSocket()


def path(address: Address) -> Path:
    return Path(address, address, SOCKET)


WIFI, CELLULAR = ("192.0.2.1", 1), ("198.51.100.9", 9)


def check(
    to: IceAgent, address: Address, now: float = 0.0, nominate: bool = False, credentials: Credentials | None = None
) -> stun.Message:
    message = request(to, credentials, USE_CANDIDATE=None) if nominate else request(to, credentials)
    response, _ = to.answer(message, path(address), now)
    return response


def selected(of: IceAgent) -> Address | None:
    return None if of.selected is None else of.selected.address


def hearing(authentic: bool = True) -> IceAgent:
    """An agent on whose datagrams SRTP's verdict is always the same."""
    return IceAgent(Credentials.random(), lambda data: authentic, lambda: None)


def test_credentials_are_random_and_long_enough() -> None:
    made = [Credentials.random() for _ in range(50)]
    assert len({item.ufrag for item in made}) == len({item.pwd for item in made}) == 50
    assert all(len(item.ufrag) >= 4 and len(item.pwd) >= 22 for item in made)


def test_password_is_in_no_repr() -> None:
    credentials = Credentials("ufrag", "very secret")
    assert "secret" not in repr(credentials)


def test_only_a_request_with_our_password_authenticates() -> None:
    ours = agent()
    assert ours.authenticates(request(ours))
    assert not ours.authenticates(request(ours, with_wrong_password(ours)))
    unsigned = stun.Message(
        stun.Method.BINDING, stun.Class.REQUEST, attributes={"USERNAME": f"{ours.credentials.ufrag}:x"}
    )
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
    assert parsed.check_message_integrity(ours.credentials.key)


def test_first_check_selects_its_path_and_is_told_once() -> None:
    told: list[str] = []
    ours = IceAgent(Credentials.random(), lambda data: False, lambda: told.append("checked"))
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
    assert parsed.check_message_integrity(ours.credentials.key)
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


def test_no_more_checks_are_remembered_than_the_limit_and_copies_are_no_new_ones() -> None:
    ours = agent()
    checks = [request(ours) for _ in range(ice.REMEMBERED_CHECKS)]
    assert not any(ours.is_replayed(item, WIFI) for item in checks)
    for _ in range(3):
        assert all(ours.is_replayed(item, CELLULAR) for item in checks)
        assert not any(ours.is_replayed(item, WIFI) for item in checks)
    for _ in range(3 * ice.REMEMBERED_CHECKS):
        ours.is_replayed(request(ours), WIFI)
    assert len(ours._first_came_from) == ice.REMEMBERED_CHECKS


def test_a_copy_that_comes_before_its_original_owns_that_one_check() -> None:
    ours = agent()
    overheard, following = request(ours), request(ours)
    assert not ours.is_replayed(overheard, CELLULAR)
    assert ours.is_replayed(overheard, WIFI)
    assert not ours.is_replayed(following, WIFI)


def test_addresses_are_bounded_and_the_selected_one_stays() -> None:
    ours = agent()
    check(ours, ("192.0.2.1", 1), now=0.0, nominate=True)
    released: list[Address] = []
    for port in range(2, 40):
        _, gone = ours.answer(request(ours), path(("192.0.2.1", port)), port / 10)
        released += gone.addresses
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


# ---- moving ----------------------------------------------------------------------------------------------------------


def test_nomination_from_a_new_address_is_followed_at_once() -> None:
    ours = agent()
    check(ours, WIFI, nominate=True)
    check(ours, CELLULAR, now=0.001, nominate=True)
    assert selected(ours) == CELLULAR and ours.path_switches == 1


def test_media_from_a_proven_address_is_followed_when_the_selected_path_is_silent() -> None:
    """A client that nominates once only, and has a new address."""
    ours = hearing()
    check(ours, WIFI, now=0.0, nominate=True)
    check(ours, CELLULAR, now=1.0)
    ours.receive(b"media", WIFI, 1.1)
    ours.receive(b"media", CELLULAR, 1.1 + ice.PATH_SILENT_S - 0.1)
    assert selected(ours) == WIFI
    ours.receive(b"media", CELLULAR, 1.1 + ice.PATH_SILENT_S)
    assert selected(ours) == CELLULAR and ours.path_switches == 1


def test_checks_keep_the_selected_path_though_media_comes_from_elsewhere() -> None:
    ours = hearing()
    check(ours, WIFI, nominate=True)
    check(ours, CELLULAR)
    for tick in range(100):
        check(ours, WIFI, now=tick * 0.1)
        ours.receive(b"media", CELLULAR, tick * 0.1)
    assert selected(ours) == WIFI


@pytest.mark.parametrize(("authentic", "address"), [(False, CELLULAR), (True, ("203.0.113.9", 666))])
def test_neither_forged_media_nor_an_unproven_address_moves_the_path(authentic: bool, address: Address) -> None:
    ours = hearing(authentic)
    check(ours, WIFI, nominate=True)
    check(ours, CELLULAR)
    ours.receive(b"media", address, 100.0)
    assert selected(ours) == WIFI


def test_addresses_that_are_not_used_any_more_are_given_up_with_time() -> None:
    ours = hearing()
    check(ours, WIFI, now=0.0, nominate=True)
    check(ours, CELLULAR, now=0.0)
    check(ours, ("192.0.2.1", 3), now=0.0)
    ours.receive(b"media", WIFI, 19.0)
    ours.receive(b"media", CELLULAR, 20.0)
    _, released = ours.answer(request(ours), path(("192.0.2.1", 4)), ice.PATH_UNUSED_S + 1)
    assert released.addresses == [("192.0.2.1", 3)]
    assert set(ours.paths) == {WIFI, CELLULAR, ("192.0.2.1", 4)}


# ---- restart ---------------------------------------------------------------------------------------------------------


def test_both_generations_are_answered_each_with_its_own_key() -> None:
    ours = agent()
    old, new = ours.credentials, Credentials.random()
    ours.restart(new)
    assert ours.credentials == new and ours.ufrags == (old.ufrag, new.ufrag)
    for credentials in (old, new):
        assert ours.authenticates(request(ours, credentials))
        response = stun.parse_message(bytes(check(ours, WIFI, credentials=credentials)))
        assert response.check_message_integrity(credentials.key)
    assert not ours.authenticates(request(ours, Credentials(new.ufrag, old.pwd)))
    assert not ours.authenticates(request(ours, Credentials(old.ufrag, new.pwd)))


def test_media_stays_on_the_old_path_until_the_new_generation_nominates() -> None:
    ours = agent()
    old, new = ours.credentials, Credentials.random()
    check(ours, WIFI, nominate=True)
    ours.restart(new)
    check(ours, CELLULAR, credentials=new)
    assert selected(ours) == WIFI
    _, released = ours.answer(request(ours, new, USE_CANDIDATE=None), path(CELLULAR), 0.0)
    assert selected(ours) == CELLULAR
    assert released.ufrags == [old.ufrag] and ours.ufrags == (new.ufrag,)
    assert not ours.authenticates(request(ours, old))
    assert WIFI in ours.paths, "what is still under way comes from there"


def test_old_generation_may_move_too_while_a_restart_is_pending_and_ends_nothing() -> None:
    ours = agent()
    old = ours.credentials
    check(ours, WIFI, nominate=True)
    ours.restart(Credentials.random())
    check(ours, CELLULAR, nominate=True, credentials=old)
    assert selected(ours) == CELLULAR and len(ours.ufrags) == 2


def test_second_restart_takes_the_place_of_the_pending_one() -> None:
    ours = agent()
    old, second, third = ours.credentials, Credentials.random(), Credentials.random()
    check(ours, WIFI, nominate=True)
    assert ours.restart(second).ufrags == []
    assert ours.restart(third).ufrags == [second.ufrag]
    assert ours.ufrags == (old.ufrag, third.ufrag)
    assert not ours.authenticates(request(ours, second))
    check(ours, CELLULAR, nominate=True, credentials=third)
    assert ours.ufrags == (third.ufrag,)


def test_restart_before_any_check_takes_the_first_check_of_either_generation() -> None:
    told: list[str] = []
    for generation in (0, 1):
        ours = IceAgent(Credentials.random(), lambda data: False, lambda: told.append("checked"))
        both = [ours.credentials, Credentials.random()]
        ours.restart(both[1])
        check(ours, WIFI, credentials=both[generation])
        assert selected(ours) == WIFI and len(ours.ufrags) == 2
    assert told == ["checked", "checked"]


def test_1000_restarts_leave_one_generation_and_a_bounded_number_of_addresses() -> None:
    ours = agent()
    for count in range(1000):
        ours.restart(Credentials.random())
        check(ours, ("192.0.2.1", 1000 + count), now=count * 0.1, nominate=True)
    assert len(ours.ufrags) == 1 and len(ours.paths) <= ice.MAX_PATHS
    assert ours.path_switches == 999
