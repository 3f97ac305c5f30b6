"""Messages as RFC 4475 thinks of them, in words of our own: correct ones that break parsers."""

from __future__ import annotations

from rtc_server.transports.sip.message.headers import CSeq, NameAddr, SipUri, Via
from rtc_server.transports.sip.message.message import Request, Response, parse


def wire(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode()


WIDE = wire(
    """OPTIONS sip:desk%20lamp;light=on@pbx_7.example:5070;maddr=192.0.2.1 SIP/2.0
TO :
 sip:desk@pbx_7.example   ;   x-moon = "half; \\"full\\""
from   : "Q. \\\\ \\"R\\"\t,"       <sip:q@192.0.2.9>
  ;
  TAG = 88-a
MaX-fOrWaRdS: 0068
i: wide.0ha0isnda977644900765@192.0.2.1
cSEQ: 0009
  OPTIONS
V  : SIP  / 2.0
 /TCP   p1 : 5061 ;
  branch  =   z9hG4bKone  ,
  SIP/2.0/ UDP  [2001:db8::9:1]:5090; branch= z9hG4bKtwo ;received=[::1],,
v:SIP/2.0/Q-BERT 192.0.2.3;branch=z9hG4bKthree
X-%unknown~name: anything; at ;;,all,,;; of "it
sUbJect:
m:"Desk,Lamp"<sip:l@192.0.2.1?Subject=a,b>;q="0.5";+sip.instance="<urn:uuid:1>",sip:x@192.0.2.2;expires=7
l: 4

bodyand what is no body"""
)


def test_everything_the_grammar_allows_at_once() -> None:
    request = parse(WIDE)
    assert isinstance(request, Request)
    headers = request.headers
    assert request.body == b"body"
    assert SipUri.parse(request.uri) == SipUri(
        "sip", "desk lamp;light=on", "pbx_7.example", 5070, {"maddr": "192.0.2.1"}
    )
    assert NameAddr.parse(headers.get("To") or "") == NameAddr(
        "sip:desk@pbx_7.example", None, {"x-moon": 'half; "full"'}
    )
    assert NameAddr.parse(headers.get("From") or "") == NameAddr("sip:q@192.0.2.9", 'Q. \\ "R"\t,', {"tag": "88-a"})
    assert CSeq.parse(headers.get("CSeq") or "") == CSeq(9, "OPTIONS")
    assert [Via.parse(via) for via in headers.all("Via")] == [
        Via("TCP", "p1", 5061, {"branch": "z9hG4bKone"}),
        Via("UDP", "[2001:db8::9:1]", 5090, {"branch": "z9hG4bKtwo", "received": "[::1]"}),
        Via("Q-BERT", "192.0.2.3", None, {"branch": "z9hG4bKthree"}),
    ]
    assert headers.get("X-%Unknown~Name") == 'anything; at ;;,all,,;; of "it'
    assert headers.get("Subject") == ""
    assert [NameAddr.parse(contact) for contact in headers.all("Contact")] == [
        NameAddr("sip:l@192.0.2.1?Subject=a,b", "Desk,Lamp", {"q": "0.5", "+sip.instance": "<urn:uuid:1>"}),
        NameAddr("sip:x@192.0.2.2", None, {"expires": "7"}),
    ]


def test_method_of_nothing_but_odd_characters() -> None:
    request = parse(wire("!interesting-Method0123456789_*+`.%indeed'~ sip:1_unusual.URI~(to-be!sure)@a.b SIP/2.0\n\n"))
    assert isinstance(request, Request)
    assert request.method == "!interesting-Method0123456789_*+`.%indeed'~"


def test_escaped_null_stays_escaped_in_the_uri() -> None:
    request = parse(wire("REGISTER sip:null-%00-null@example.com SIP/2.0\n\n"))
    assert isinstance(request, Request)
    assert SipUri.parse(request.uri).user == "null-\x00-null"
    assert str(SipUri.parse(request.uri)) == "sip:null-%00-null@example.com"


def test_percent_that_escapes_nothing_is_a_percent_in_a_method() -> None:
    request = parse(wire("RE%47IST%45R sip:registrar.example.com SIP/2.0\n\n"))
    assert isinstance(request, Request)
    assert request.method == "RE%47IST%45R"


def test_response_with_everything_in_one_line() -> None:
    response = parse(wire("SIP/2.0 200\nv:SIP/2.0/UDP a;branch=1,SIP/2.0/UDP b;branch=2\nm:<sip:a>,<sip:b>\n\n"))
    assert isinstance(response, Response)
    assert (len(response.headers.all("Via")), len(response.headers.all("Contact"))) == (2, 2)


def test_second_request_in_a_datagram_is_not_there() -> None:
    request = parse(wire("REGISTER sip:a SIP/2.0\nl: 0\n\nINVITE sip:b SIP/2.0\n\n"))
    assert isinstance(request, Request)
    assert (request.method, request.body) == ("REGISTER", b"")


def test_long_values_of_everything() -> None:
    tag, host = "1" * 1500, "a." * 120 + "example"
    request = parse(
        wire(
            f"INVITE sip:{'u' * 1500}@{host} SIP/2.0\nFrom: {'name ' * 200}<sip:a@{host}>;tag={tag};{'p' * 900}=v\n"
            f"Call-ID: {'c' * 4000}\n" + f"Via: SIP/2.0/TCP {host};branch=z9hG4bK{tag}\n" * 25 + "\n"
        )
    )
    assert isinstance(request, Request)
    assert NameAddr.parse(request.headers.get("From") or "").params["tag"] == tag
    assert len(request.headers.all("Via")) == 25
    assert SipUri.parse(request.uri).host == host
