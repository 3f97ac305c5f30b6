from __future__ import annotations

import pytest

from rtc_server.transports.sip.message.headers import SipUri
from rtc_server.transports.sip.network.target import Target


@pytest.mark.parametrize(
    ("uri", "target"),
    [
        ("sip:bob@sip.example.com", Target("udp", "sip.example.com", None)),
        ("sip:bob@192.0.2.1:5080;transport=TCP", Target("tcp", "192.0.2.1", 5080)),
        ("sip:192.0.2.1;transport=tls;lr", Target("tls", "192.0.2.1", None)),
        ("sips:bob@sip.example.com", Target("tls", "sip.example.com", None)),
        ("sips:bob@sip.example.com;transport=tcp", Target("tls", "sip.example.com", None)),
        ("sips:bob@sip.example.com.", Target("tls", "sip.example.com", None)),
        ("sip:bob@[2001:db8::1]:5062", Target("udp", "2001:db8::1", 5062)),
    ],
)
def test_a_uri_says_transport_host_and_port(uri: str, target: Target) -> None:
    assert Target.of_uri(SipUri.parse(uri)) == target


def test_a_transport_that_is_not_spoken_is_refused() -> None:
    with pytest.raises(ValueError, match="sctp"):
        Target.of_uri(SipUri.parse("sip:bob@192.0.2.1;transport=sctp"))
