"""RFC 3261 sections 17.1.3, 17.2.3, 8.2.2.2 and 18.2, and RFC 3581."""

from __future__ import annotations

import pytest

from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.message.headers import Via
from rtc_server.transports.sip.message.message import Request
from rtc_server.transports.sip.transaction.matching import Arrival, arrived, client_key, key_of_response
from tests.transports.sip.transaction.virtualtime import OURS, THEIRS, flow, request, response


def _arrived(message: Request, way: Flow | None = None) -> Arrival:
    return arrived(message, way or flow())


def _top_via(message: Request) -> Via:
    return Via.parse(message.headers.all("Via")[0])


def test_a_repetition_belongs_to_the_same_transaction() -> None:
    assert _arrived(request()).key == _arrived(request()).key


@pytest.mark.parametrize(
    "other",
    [
        request(branch="z9hG4bK-2"),
        request("OPTIONS"),
        request(via="SIP/2.0/UDP 198.51.100.7:5064;rport;branch=z9hG4bK-1"),
        request(via="SIP/2.0/UDP 198.51.100.8:5062;rport;branch=z9hG4bK-1"),
    ],
)
def test_another_branch_method_or_sender_is_another_transaction(other: Request) -> None:
    assert _arrived(other).key != _arrived(request()).key


def test_the_sender_is_compared_without_case() -> None:
    lower, upper = (request(via=f"SIP/2.0/UDP {host};branch=z9hG4bK-1") for host in ("pbx.example", "PBX.Example"))
    assert _arrived(lower).key == _arrived(upper).key


def test_the_ack_to_a_refusal_has_the_key_of_its_invite() -> None:
    assert _arrived(request("ACK", to_tag="callee")).key == _arrived(request()).key


def test_a_cancel_has_a_key_of_its_own_and_names_that_of_its_invite() -> None:
    invite, cancel = _arrived(request()), _arrived(request("CANCEL"))
    assert cancel.key != invite.key
    assert cancel.cancels == invite.key
    assert cancel.identity == invite.identity


@pytest.mark.parametrize("via", ["SIP/2.0/UDP 198.51.100.7;branch=1", "SIP/2.0/UDP 198.51.100.7"])
def test_what_has_no_branch_of_rfc_3261_is_matched_by_its_headers(via: str) -> None:
    invite = _arrived(request(via=via))
    assert _arrived(request(via=via)).key == invite.key
    assert _arrived(request("ACK", via=via, to_tag="callee")).key == invite.key
    assert _arrived(request("CANCEL", via=via)).cancels == invite.key
    assert _arrived(request(via=via, cseq=2)).key != invite.key
    assert _arrived(request(via=via, call_id="call-2")).key != invite.key
    assert _arrived(request(via=via, from_tag="other")).key != invite.key


def test_a_request_that_comes_on_two_ways_has_one_merge_key() -> None:
    one, other = _arrived(request()), _arrived(request(branch="z9hG4bK-2"))
    assert one.merge_key == other.merge_key is not None
    assert _arrived(request(cseq=2)).merge_key != one.merge_key


@pytest.mark.parametrize("message", [request(to_tag="callee"), request("ACK"), request("CANCEL")])
def test_what_is_in_a_dialog_or_follows_an_invite_cannot_be_merged(message: Request) -> None:
    assert _arrived(message).merge_key is None


def test_with_rport_responses_go_to_the_source_and_the_via_says_which_it_was() -> None:
    message = request(via="SIP/2.0/UDP 10.0.0.5:5070;rport;branch=z9hG4bK-1")
    arrival = _arrived(message)
    assert arrival.back == flow()
    assert _top_via(message).params == {"rport": "5062", "branch": "z9hG4bK-1", "received": "198.51.100.7"}


@pytest.mark.parametrize(("sent_by", "port"), [("10.0.0.5:5070", 5070), ("10.0.0.5", 5060)])
def test_without_rport_they_go_to_the_port_of_the_via_at_the_source_address(sent_by: str, port: int) -> None:
    message = request(via=f"SIP/2.0/UDP {sent_by};branch=z9hG4bK-1")
    arrival = _arrived(message)
    assert arrival.back == flow(remote=(THEIRS[0], port))
    assert _top_via(message).params["received"] == THEIRS[0]


def test_a_via_that_tells_the_truth_is_left_as_it_is() -> None:
    message = request(via="SIP/2.0/UDP 198.51.100.7:5062;branch=z9hG4bK-1")
    _arrived(message)
    assert message.headers.all("Via") == ["SIP/2.0/UDP 198.51.100.7:5062;branch=z9hG4bK-1"]


def test_over_a_connection_responses_go_back_on_it() -> None:
    way = flow("tcp", remote=(THEIRS[0], 40000))
    assert _arrived(request(via="SIP/2.0/TCP 10.0.0.5:5070;branch=z9hG4bK-1"), way).back == way


def test_an_ipv6_source_is_noted() -> None:
    message = request(via="SIP/2.0/UDP [2001:db8::9]:5070;rport;branch=z9hG4bK-1")
    way = Flow("udp", ("2001:db8::1", 5060), ("2001:db8::7", 5062))
    assert _arrived(message, way).back == way
    assert _top_via(message).params["received"] == "2001:db8::7"


def test_only_the_topmost_via_is_touched() -> None:
    message = request(via="SIP/2.0/UDP 10.0.0.1;rport;branch=z9hG4bK-1, SIP/2.0/TLS a.example;branch=z9hG4bK-0;rport")
    _arrived(message)
    vias = message.headers.all("Via")
    assert len(vias) == 2
    assert vias[1] == "SIP/2.0/TLS a.example;branch=z9hG4bK-0;rport"


@pytest.mark.parametrize("name", ["Via", "From", "To", "Call-ID", "CSeq"])
def test_a_request_without_what_every_request_has_is_malformed(name: str) -> None:
    message = request()
    message.headers.remove(name)
    with pytest.raises(ValueError, match=name):
        _arrived(message)


def test_a_cseq_of_another_method_is_malformed() -> None:
    with pytest.raises(ValueError, match="CSeq"):
        _arrived(request(cseq_method="BYE"))


def test_a_response_is_matched_by_the_branch_and_the_method_of_its_cseq() -> None:
    ours = request(branch="z9hG4bK-ours")
    assert key_of_response(response(ours, 180)) == client_key("z9hG4bK-ours", "INVITE")


@pytest.mark.parametrize("name", ["Via", "To", "CSeq"])
def test_a_response_without_what_it_is_matched_by_is_malformed(name: str) -> None:
    message = response(request(), 200)
    message.headers.remove(name)
    with pytest.raises(ValueError, match=name):
        key_of_response(message)


def test_a_response_with_another_via_under_ours_was_meant_for_someone_else() -> None:
    message = response(request(), 200)
    message.headers.add("Via", f"SIP/2.0/UDP {OURS[0]};branch=z9hG4bK-0")
    with pytest.raises(ValueError, match="Via"):
        key_of_response(message)
