from __future__ import annotations

import pytest

from rtc_server.transports.sip.flow import Address, Flow, Transport
from rtc_server.transports.sip.negotiation.agreedmedia import LocalMedia, MediaPolicy
from rtc_server.transports.sip.negotiation.offeranswer import MediaNegotiation
from rtc_server.transports.sip.network import addresses
from rtc_server.transports.sip.network.addresses import OwnAddress, SourceAddresses, place_towards
from rtc_server.transports.sip.network.listenon import ListenOn
from tests.transports.sip.call.phone import sdp
from tests.transports.sip.network.listeners import Clock

OUTSIDE, INSIDE = ("8.8.8.8", 5060), ("10.0.0.9", 5060)
OUTSIDE_6, LOCAL_6 = ("2600::1", 5060), ("2600::10", 5060)


def _flow(remote: Address, transport: Transport = "udp", local: Address = ("10.0.0.5", 5060)) -> Flow:
    return Flow(transport, local, remote)


def test_without_an_advertised_address_we_are_where_the_flow_ends() -> None:
    own = OwnAddress()
    assert own.contact(_flow(OUTSIDE)) == ("10.0.0.5", 5060)
    assert own.sent_by(_flow(OUTSIDE)) == "10.0.0.5:5060"
    assert own.sent_by(_flow(("::1", 5060), local=("::1", 5070))) == "[::1]:5070"


def test_a_public_address_is_for_peers_outside() -> None:
    own = OwnAddress("9.9.9.9")
    assert own.contact(_flow(OUTSIDE)) == ("9.9.9.9", 5060)
    assert own.sent_by(_flow(OUTSIDE)) == "9.9.9.9:5060"
    assert own.contact(_flow(INSIDE)) == ("10.0.0.5", 5060)
    assert own.contact(_flow(("127.0.0.1", 5060), local=("127.0.0.1", 5060))) == ("127.0.0.1", 5060)
    assert own.contact(_flow(("fe80::1%eth0", 5060), local=("fe80::2%eth0", 5060))) == ("fe80::2%eth0", 5060)


def test_a_private_address_is_for_peers_around_a_container_too() -> None:
    own = OwnAddress("192.168.1.10")
    assert own.contact(_flow(INSIDE))[0] == "192.168.1.10"
    assert own.contact(_flow(("127.0.0.1", 5060)))[0] == "10.0.0.5"


def test_a_name_may_be_advertised() -> None:
    assert OwnAddress("sip.example.com").sent_by(_flow(OUTSIDE)) == "sip.example.com:5060"


def test_an_address_of_one_family_is_not_told_to_peers_of_the_other() -> None:
    old, new = OwnAddress("9.9.9.9"), OwnAddress("2620:fe::9")
    over_6 = _flow(OUTSIDE_6, local=LOCAL_6)
    assert old.contact(over_6) == LOCAL_6 and old.sent_by(over_6) == "[2600::10]:5060"
    assert new.contact(over_6) == ("2620:fe::9", 5060)
    assert new.contact(_flow(OUTSIDE)) == ("10.0.0.5", 5060)
    assert OwnAddress("sip.example.com").contact(over_6) == ("sip.example.com", 5060)


@pytest.mark.parametrize("advertise", ["9.9.9.9", "2620:fe::9"])
@pytest.mark.parametrize(("remote", "local"), [(OUTSIDE, ("10.0.0.5", 5060)), (OUTSIDE_6, LOCAL_6)])
def test_media_of_the_callers_own_family_are_taken_whatever_is_advertised(
    advertise: str, remote: Address, local: Address
) -> None:
    told, _ = OwnAddress(advertise).contact(_flow(remote, local=local))
    negotiation = MediaNegotiation(LocalMedia(told, 20_000, 20_001), MediaPolicy())
    answer = negotiation.answer_offer(sdp(address=remote[0]).encode()).decode()
    family = "IP6" if ":" in remote[0] else "IP4"
    assert f"c=IN {family} {told}" in answer
    assert negotiation.agreed is not None and negotiation.agreed.remote_rtp == (remote[0], 16384)


def test_a_connection_of_our_own_names_the_port_where_we_listen() -> None:
    own = OwnAddress()
    ours = _flow(OUTSIDE, "tls", ("10.0.0.5", 40123))
    assert own.contact(ours) == ("10.0.0.5", 40123)
    own.listening = [ListenOn("tcp", "0.0.0.0", 5060), ListenOn("tls", "::", 5071), ListenOn("tls", "0.0.0.0", 5061)]
    assert own.contact(ours) == ("10.0.0.5", 5061)
    own.listening = [*own.listening, ListenOn("tls", "10.0.0.5", 5081)]
    assert own.contact(ours) == ("10.0.0.5", 5081)


def test_the_source_is_what_the_kernel_would_take() -> None:
    assert SourceAddresses(Clock()).towards("127.0.0.9") == "127.0.0.1"


def test_a_source_is_asked_for_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Route:
        def __init__(self, *_: object) -> None:
            asked.append(self)

        def __enter__(self) -> Route:
            return self

        def __exit__(self, *_: object) -> None: ...

        def connect(self, _: Address) -> None: ...

        def getsockname(self) -> Address:
            return f"10.0.0.{len(asked)}", 1

    monkeypatch.setattr(addresses.socket, "socket", Route)
    clock = Clock()
    sources = SourceAddresses(clock)
    assert [sources.towards("8.8.8.8") for _ in range(3)] == ["10.0.0.1"] * 3
    clock.now_s += 61
    assert sources.towards("8.8.8.8") == "10.0.0.2"
    for number in range(2000):
        sources.towards(f"8.8.{number // 256}.{number % 256}")
    assert len(sources._known) == addresses.CACHE_ENTRIES


def test_we_speak_from_the_place_that_leads_there() -> None:
    sources = SourceAddresses(Clock())
    loopback, everywhere = ListenOn("udp", "127.0.0.1", 1), ListenOn("udp", "0.0.0.0", 2)
    other, newer = ListenOn("udp", "10.9.9.9", 3), ListenOn("udp", "::1", 4)
    assert place_towards("127.0.0.1", [newer, other, everywhere, loopback], sources) == loopback
    assert place_towards("127.0.0.1", [newer, other, everywhere], sources) == everywhere
    assert place_towards("127.0.0.1", [newer, other], sources) == other
    assert place_towards("127.0.0.1", [newer], sources) is None
