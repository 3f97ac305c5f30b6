from __future__ import annotations

import pytest

from rtc_server.transports.sip.network.listenon import ListenOn


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("udp:0.0.0.0:5060", ListenOn("udp", "0.0.0.0", 5060)),
        ("TCP:127.0.0.1:0", ListenOn("tcp", "127.0.0.1", 0)),
        ("tls:[::]:5061", ListenOn("tls", "::", 5061)),
        ("udp:[2001:db8::1]", ListenOn("udp", "2001:db8::1", 5060)),
        ("tls:192.0.2.1", ListenOn("tls", "192.0.2.1", 5061)),
    ],
)
def test_a_place_has_a_transport_an_address_and_a_port(text: str, place: ListenOn) -> None:
    assert ListenOn.parse(text) == place
    assert ListenOn.parse(str(place)) == place


@pytest.mark.parametrize(
    "text",
    [
        *("", "udp", "5060", "sctp:0.0.0.0:5060", "udp:", "udp:somewhere:5060", "udp:0.0.0.0:65536"),
        *("udp:0.0.0.0:", "udp:0.0.0.0:-1", "udp:::1:5060", "udp:[::1:5060", "udp:[::1]5060", "udp:0.0.0.0:\u0665"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        ListenOn.parse(text)
