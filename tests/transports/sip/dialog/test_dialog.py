from __future__ import annotations

import pytest

from rtc_server.transports.sip.dialog.dialog import Dialog, DialogId, id_of_request, tag_of
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.message.message import Request, Response, parse

US, THEM = ("192.0.2.10", 5060), ("198.51.100.7", 5060)
FLOW = Flow("udp", US, THEM)
OURS = "<sip:192.0.2.10:5060>"
CONTACT = "Contact: <sip:bob@198.51.100.7>"


def request(method: str = "INVITE", cseq: int = 1, headers: str = CONTACT, via: str = "") -> Request:
    text = (
        f"{method} sip:agent@192.0.2.10 SIP/2.0\r\n"
        f"Via: SIP/2.0/UDP {via or '198.51.100.7:5060'};branch=z9hG4bK-1\r\n"
        'From: "Bob" <sip:bob@example.com>;tag=theirs\r\n'
        "To: <sip:agent@192.0.2.10>\r\n"
        f"Call-ID: c\r\nCSeq: {cseq} {method}\r\n" + "".join(f"{line}\r\n" for line in headers.splitlines()) + "\r\n"
    )
    message = parse(text.encode())
    assert isinstance(message, Request)
    return message


def answered(headers: str = CONTACT, status: int = 200) -> Dialog:
    return Dialog.of_our_invite(invite(), response(headers, status), FLOW)


def invite() -> Request:
    message = request(headers=f"Contact: {OURS}")
    message.uri = "sip:bob@example.com"
    message.headers.set("From", "<sip:agent@192.0.2.10>;tag=ours")
    message.headers.set("To", "<sip:bob@example.com>")
    return message


def response(headers: str, status: int = 200) -> Response:
    text = (
        f"SIP/2.0 {status} OK\r\nVia: SIP/2.0/UDP 192.0.2.10;branch=z9hG4bK-1\r\n"
        "From: <sip:agent@192.0.2.10>;tag=ours\r\nTo: <sip:bob@example.com>;tag=theirs\r\n"
        "Call-ID: c\r\nCSeq: 1 INVITE\r\n" + "".join(f"{line}\r\n" for line in headers.splitlines()) + "\r\n"
    )
    message = parse(text.encode())
    assert isinstance(message, Response)
    return message


def theirs(headers: str = CONTACT, via: str = "", flow: Flow = FLOW) -> Dialog:
    return Dialog.of_their_invite(request(headers=headers, via=via), "ours", flow, OURS)


def test_requests_of_a_callee_turn_from_and_to_round() -> None:
    bye = theirs().request("BYE")
    assert bye.uri == "sip:bob@198.51.100.7"
    assert bye.headers.get("From") == "<sip:agent@192.0.2.10>;tag=ours"
    assert bye.headers.get("To") == '"Bob" <sip:bob@example.com>;tag=theirs'
    assert bye.headers.get("CSeq") == "1 BYE"
    assert theirs().id == DialogId("c", "ours", "theirs")


def test_requests_of_a_caller_count_on_from_the_invite() -> None:
    dialog = answered()
    assert dialog.request("UPDATE").headers.get("CSeq") == "2 UPDATE"
    assert dialog.request("BYE").headers.get("CSeq") == "3 BYE"
    assert dialog.ack(1).headers.get("CSeq") == "1 ACK"
    assert dialog.id == DialogId("c", "ours", "theirs")


def test_routes_are_taken_as_they_come_by_a_callee_and_reversed_by_a_caller() -> None:
    recorded = "Record-Route: <sip:198.51.100.7;lr>\r\nRecord-Route: <sip:p2;lr>\r\nContact: <sip:bob@198.51.100.7>"
    assert theirs(recorded).request("BYE").headers.all("Route") == ["<sip:198.51.100.7;lr>", "<sip:p2;lr>"]
    assert answered(recorded).request("BYE").headers.all("Route") == ["<sip:p2;lr>", "<sip:198.51.100.7;lr>"]


def test_strict_router_is_the_request_uri_and_the_target_comes_last() -> None:
    dialog = theirs("Record-Route: <sip:198.51.100.7>, <sip:p2;lr>\r\nContact: <sip:bob@198.51.100.7>")
    bye = dialog.request("BYE")
    assert bye.uri == "sip:198.51.100.7"
    assert bye.headers.all("Route") == ["<sip:p2;lr>", "<sip:bob@198.51.100.7>"]


def test_early_dialog_is_confirmed_by_what_the_2xx_says() -> None:
    dialog = answered("", status=180)
    assert dialog.target == "sip:bob@example.com"
    dialog.confirm(response("Contact: <sip:bob@198.51.100.99>\r\nRecord-Route: <sip:p1;lr>"))
    assert dialog.target == "sip:bob@198.51.100.99"
    assert dialog.route_set == ["<sip:p1;lr>"]


def test_requests_out_of_order_are_known() -> None:
    dialog = theirs()
    assert not dialog.receive(request("INFO", 1), FLOW)
    assert dialog.receive(request("INFO", 5), FLOW)
    assert not dialog.receive(request("INFO", 4), FLOW)
    assert not dialog.receive(request("INFO", 5), FLOW)
    assert dialog.receive(request("ACK", 1), FLOW)
    assert dialog.receive(request("BYE", 6), FLOW)


def test_first_request_of_a_callee_sets_the_count() -> None:
    dialog = answered()
    assert dialog.receive(request("BYE", 77), FLOW)
    assert not dialog.receive(request("BYE", 76), FLOW)


def test_target_is_refreshed_where_a_contact_is_named() -> None:
    dialog = theirs()
    dialog.refresh_target(request("UPDATE", 2, headers="Contact: <sip:new@198.51.100.7>"))
    dialog.refresh_target(request("UPDATE", 3, headers=""))
    assert dialog.target == "sip:new@198.51.100.7"


@pytest.mark.parametrize(
    ("contact", "via", "goes_to"),
    [
        ("<sip:bob@198.51.100.7:5060>", "", None),
        ("<sip:bob@198.51.100.7:62000>", "", None),
        ("<sip:bob@198.51.100.80:5070>", "", "198.51.100.80"),
        ("<sip:bob@pbx.example.com>", "", "pbx.example.com"),
        ("<sip:bob@10.0.0.3>", "", None),
        ("<sip:bob@192.168.1.3>", "", None),
        ("<sip:bob@127.0.0.1>", "", None),
        ("<sip:bob@0.0.0.0>", "", None),
        ("<sip:bob@[2001:db8::1]>", "", None),
        ("<sip:x@11g5nllcpe3g.invalid;transport=ws>", "", None),
        ("<sip:bob@198.51.100.80>", "10.0.0.3:5060", None),
    ],
)
def test_contact_that_is_no_good_is_passed_over_for_where_the_peer_was_seen(
    contact: str, via: str, goes_to: str | None
) -> None:
    hop = theirs(f"Contact: {contact}", via).next_hop()
    assert (None if hop is None else hop.host) == goes_to


@pytest.mark.parametrize(
    ("headers", "goes_to"),
    [
        ("Contact: <sip:bob@198.51.100.7:5060>", None),
        ("Contact: <sip:bob@198.51.100.7>", None),
        ("Contact: <sip:bob@198.51.100.7:5080>", 5080),
        ("Contact: <sip:bob@198.51.100.80:5080>\r\nRecord-Route: <sip:198.51.100.7:5090;lr>", 5090),
        ("Contact: <sip:bob@198.51.100.80:5080>\r\nRecord-Route: <sip:198.51.100.7;lr>", None),
        ("Contact: <sip:bob@198.51.100.7:5060;transport=UDP>", None),
        ("Contact: <sip:bob@198.51.100.7:5060;transport=tcp>", 5060),
        ("Contact: <sips:bob@198.51.100.7:5060>", 5060),
        ("Contact: <sip:bob@10.0.0.3:5080>", None),
    ],
)
def test_whom_we_called_is_gone_to_where_its_answer_says(headers: str, goes_to: int | None) -> None:
    hop = answered(headers).next_hop()
    assert (None if hop is None else hop.port) == goes_to


def test_port_that_is_not_named_is_the_default_one() -> None:
    called = Flow("udp", US, ("198.51.100.7", 5070))
    hop = Dialog.of_our_invite(invite(), response(CONTACT), called).next_hop()
    assert hop is not None and (hop.host, hop.port) == ("198.51.100.7", None)


def test_whom_we_called_is_gone_to_where_it_was_seen_once_it_has_asked_for_something() -> None:
    dialog = answered("Contact: <sip:bob@198.51.100.7:5080>")
    seen_at = Flow("udp", US, ("198.51.100.7", 61000))
    assert dialog.receive(request("INFO", 7), seen_at)
    assert dialog.next_hop() is None
    assert dialog.flow == seen_at


def test_peer_in_the_same_private_network_is_gone_to_directly() -> None:
    near = Flow("udp", ("10.0.0.1", 5060), ("10.0.0.2", 5060))
    hop = theirs("Contact: <sip:bob@10.0.0.9>", "10.0.0.2:5060", near).next_hop()
    assert hop is not None and hop.host == "10.0.0.9"


def test_first_route_is_the_next_hop() -> None:
    hop = theirs("Record-Route: <sip:198.51.100.30;lr>\r\nContact: <sip:bob@10.0.0.3>").next_hop()
    assert hop is not None and hop.host == "198.51.100.30"


def test_connection_is_used_while_it_lasts() -> None:
    flow = Flow("tls", US, THEM, 7)
    dialog = theirs("Contact: <sip:bob@198.51.100.80>", flow=flow)
    assert dialog.next_hop() is None
    dialog.flow = None
    hop = dialog.next_hop()
    assert hop is not None and hop.host == "198.51.100.80"


def test_peer_is_followed_to_the_flow_it_was_last_seen_on() -> None:
    dialog = theirs()
    moved = Flow("udp", US, ("198.51.100.7", 61000))
    dialog.receive(request("INFO", 2), moved)
    assert dialog.flow == moved


@pytest.mark.parametrize(
    "headers",
    [
        "",
        "Contact: *",
        "Contact: <sip:a@b>, <sip:c@d>",
        "Contact: <mailto:a@b>",
        "Contact: <sip:a@b>\r\nRecord-Route: <nonsense>",
        "Contact: <sip:a@b>\r\n" + "\r\n".join(["Record-Route: <sip:p;lr>"] * 33),
    ],
)
def test_invite_that_no_dialog_can_be_made_of(headers: str) -> None:
    with pytest.raises(ValueError):
        theirs(headers)


@pytest.mark.parametrize("headers", ["", "Contact: *", "Contact: <mailto:a@b>"])
def test_answer_without_a_good_contact_has_the_target_of_the_invite(headers: str) -> None:
    assert answered(headers).ack(1).uri == "sip:bob@example.com"


def test_request_that_names_a_bad_target_is_malformed() -> None:
    dialog = theirs()
    with pytest.raises(ValueError):
        dialog.receive(request("UPDATE", 2, headers="Contact: *"), FLOW)
    assert dialog.receive(request("UPDATE", 2), FLOW)


def test_request_names_its_dialog_by_our_tag_first() -> None:
    message = request()
    with pytest.raises(ValueError):
        id_of_request(message)
    message.headers.set("To", "<sip:agent@192.0.2.10>;tag=ours")
    assert id_of_request(message) == DialogId("c", "ours", "theirs")
    assert tag_of("<sip:old@phone>") == ""
