"""SIPp scenarios, put together from single steps: what a phone sends, and what it insists on getting.

A response that is not expected, or does not come in time, fails the call. See SIPp's documentation for the words in
square brackets, which SIPp fills in.
"""

from __future__ import annotations

from tests.e2e.sip.sipserver import GATE_PASSWORD, GATE_USER

VOICE = "voice.ulaw"
"""What callers say: raw PCMU in the folder that SIPp runs in."""
_DIGITS = "/usr/share/sip-tester/dtmf_2833_{}.pcap"
_DIGIT_NAMES = {"*": "star", "#": "pound"}

_OURS = """Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch];rport
From: "SIPp" <sip:sipp@[local_ip]:[local_port]>;tag=[pid]SIPp[call_number]
Call-ID: [call_id]
Contact: <sip:sipp@[local_ip]:[local_port];transport=[transport]>
Max-Forwards: 70"""
_SAME_BRANCH = """[last_Via:]
[last_From:]
Call-ID: [call_id]
Max-Forwards: 70"""
_URI = "sip:[service]@[remote_ip]:[remote_port]"
_FROM_THEM = """[last_Via:]
[last_From:]
[last_Call-ID:]
[last_CSeq:]
[last_Record-Route:]
Contact: <sip:[local_ip]:[local_port];transport=[transport]>"""
_TAG = ";tag=[pid]SIPp[call_number]"

_EMPTY = "Content-Length: 0\n"
_SDP = """Content-Type: application/sdp
Content-Length: [len]

v=0
o=- 1 {version} IN IP[local_ip_type] [local_ip]
s=-
c=IN IP[media_ip_type] [media_ip]
t=0 0
m=audio [{port}] RTP/AVP 0 101
a=rtpmap:0 PCMU/8000
a=rtpmap:101 telephone-event/8000
a=fmtp:101 0-15
a=ptime:20
a={direction}
"""


def sdp(direction: str = "sendrecv", version: int = 1, port: str = "rtpstream_audio_port") -> str:
    """``port`` is SIPp's word for it: packets of captures leave from ``auto_media_port``."""
    return _SDP.format(direction=direction, version=version, port=port)


# ---- What callers do -------------------------------------------------------------------------------------------------


def send(message: str, retransmit: bool = True, begins: str = "", acknowledges: str = "") -> str:
    """`begins`, `acknowledges`: the name of a transaction, see `expect`."""
    words = ' retrans="500"' if retransmit else ""
    words += f' start_txn="{begins}"' if begins else ""
    words += f' ack_txn="{acknowledges}"' if acknowledges else ""
    return f"<send{words}><![CDATA[\n{message}\n]]></send>"


def invite(body: str = "", transaction: str = "") -> str:
    head = f"INVITE {_URI} SIP/2.0\n{_OURS}\nTo: <{_URI}>\nCSeq: 1 INVITE\n"
    return send(head + (body or sdp()), begins=transaction)


def in_dialog(method: str, number: int, body: str = _EMPTY, transaction: str = "") -> str:
    """A request behind the 2xx, to the Contact that it brought."""
    head = f"{method} [next_url] SIP/2.0\n{_OURS}\n[routes]\nTo: <{_URI}>[peer_tag_param]\nCSeq: {number} {method}\n"
    if method == "ACK":
        return send(head + body, retransmit=False, acknowledges=transaction)
    return send(head + body, begins=transaction)


def ack_refusal() -> str:
    head = f"ACK {_URI} SIP/2.0\n{_SAME_BRANCH}\n[last_To:]\nCSeq: 1 ACK\n"
    return send(head + _EMPTY, retransmit=False)


def cancel() -> str:
    return send(f"CANCEL {_URI} SIP/2.0\n{_SAME_BRANCH}\nTo: <{_URI}>\nCSeq: 1 CANCEL\n{_EMPTY}")


def probe() -> str:
    return send(f"OPTIONS {_URI} SIP/2.0\n{_OURS}\nTo: <{_URI}>\nCSeq: 1 OPTIONS\n{_EMPTY}")


def expect(*statuses: int, optional: bool = False, transaction: str = "") -> str:
    """Responses, in this order. What a 2xx says of the way is kept for `in_dialog`.

    Without a transaction SIPp takes any response of that status: a late 2xx to the INVITE for that to a BYE.
    """
    return "".join(
        f'<recv response="{status}"'
        + (' optional="true"' if optional else "")
        + (f' response_txn="{transaction}"' if transaction else "")
        + (' rrs="true"' if 200 <= status < 300 else "")
        + "/>"
        for status in statuses
    )


def pause(milliseconds: int) -> str:
    return f'<pause milliseconds="{milliseconds}"/>'


def talk() -> str:
    """Begin to play `VOICE`, once."""
    return f'<nop><action><exec rtp_stream="{VOICE},1,0"/></action></nop>'


def press(digits: str) -> str:
    """Keys as RFC 4733 packets, from captures, one after the other."""
    files = [_DIGITS.format(_DIGIT_NAMES.get(digit, digit)) for digit in digits]
    return "".join(f'<nop><action><exec play_pcap_audio="{file}"/></action></nop>{pause(500)}' for file in files)


# ---- What callees do -------------------------------------------------------------------------------------------------


def await_request(method: str, within_ms: int = 0, **remembered: str) -> str:
    """`remembered`: headers of it, by the names that they are wanted under."""
    kept = "".join(
        f'<ereg regexp=".*" search_in="hdr" header="{header}:" assign_to="{name}"/>'
        for name, header in remembered.items()
    )
    words = f' timeout="{within_ms}"' if within_ms else ""
    return f'<recv request="{method}" rrs="true"{words}>' + (f"<action>{kept}</action>" if kept else "") + "</recv>"


def reply(status: int, body: str = _EMPTY, headers: str = "") -> str:
    """To the last request. The first reply to an INVITE makes the tag; later requests bring it."""
    final = 200 <= status < 300 and body != _EMPTY
    extra = f"{headers}\n" if headers else ""
    return send(f"SIP/2.0 {status} Sure\n{_FROM_THEM}\n[last_To:]{_TAG}\n{extra}{body}", retransmit=final)


def confirm(body: str = _EMPTY, headers: str = "") -> str:
    """200 to a request of the dialog."""
    extra = f"{headers}\n" if headers else ""
    return send(f"SIP/2.0 200 OK\n{_FROM_THEM}\n[last_To:]\n{extra}{body}", retransmit=body != _EMPTY)


def _from_callee(method: str, number: int, body: str = _EMPTY, transaction: str = "") -> str:
    """A request in the call, from the end that was called: ``caller`` and ``callee`` are remembered."""
    head = (
        f"{method} [next_url] SIP/2.0\nVia: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch];rport\n"
        f"From: [$callee]{_TAG}\nTo: [$caller]\nCall-ID: [call_id]\nCSeq: {number} {method}\nMax-Forwards: 70\n"
        "Contact: <sip:[local_ip]:[local_port];transport=[transport]>\n"
    )
    if method == "ACK":
        return send(head + body, retransmit=False, acknowledges=transaction)
    return send(head + body, begins=transaction)


def _to_remembered(status: str, ends: str) -> str:
    """A response to the request whose ``via`` and ``cseq`` are remembered. `ends`: From and To."""
    return f"SIP/2.0 {status}\nVia: [$via]\n{ends}\nCall-ID: [call_id]\nCSeq: [$cseq]\n{_EMPTY}"


# ---- Whole calls -----------------------------------------------------------------------------------------------------

_RINGING = expect(100, 180, 183, optional=True)


def call(talk_ms: int = 1000, during: str = "") -> str:
    """A call that is answered, and hung up by us after `talk_ms`."""
    return (
        invite(transaction="invite")
        + expect(100, 180, 183, optional=True, transaction="invite")
        + expect(200, transaction="invite")
        + in_dialog("ACK", 1, transaction="invite")
        + talk()
        + (during or pause(talk_ms))
        + in_dialog("BYE", 9, transaction="bye")
        + expect(200, transaction="bye")
    )


def call_with_digits(digits: str) -> str:
    return (
        invite(sdp(port="auto_media_port"))
        + _RINGING
        + expect(200)
        + in_dialog("ACK", 1)
        + pause(500)
        + press(digits)
        + in_dialog("BYE", 2)
        + expect(200)
    )


def call_refused(status: int) -> str:
    return invite() + _RINGING + expect(status) + ack_refusal()


def call_held() -> str:
    """Hold, and resume."""
    held, resumed = sdp("sendonly", 2), sdp("sendrecv", 3)
    during = (
        pause(300)
        + in_dialog("INVITE", 2, held)
        + expect(100, optional=True)
        + expect(200)
        + in_dialog("ACK", 2)
        + pause(300)
        + in_dialog("INVITE", 3, resumed)
        + expect(100, optional=True)
        + expect(200)
        + in_dialog("ACK", 3)
        + pause(300)
    )
    return call(during=during)


def cancel_ringing() -> str:
    return invite() + expect(100, optional=True) + expect(180) + cancel() + expect(200, 487) + ack_refusal()


def cancel_trying() -> str:
    """Before anything but 100 has come."""
    return invite() + expect(100) + cancel() + expect(180, optional=True) + expect(200, 487) + ack_refusal()


def cancel_answered() -> str:
    """Too late: the CANCEL is taken, but the call stands until it is hung up."""
    return (
        invite()
        + _RINGING
        + expect(200)
        + cancel()
        + expect(200)
        + in_dialog("ACK", 1)
        + pause(200)
        + in_dialog("BYE", 2)
        + expect(200)
    )


def cancel_unknown() -> str:
    """Of an INVITE that never was."""
    head = f"CANCEL {_URI} SIP/2.0\n{_OURS}\nTo: <{_URI}>\nCSeq: 1 CANCEL\n"
    return send(head + _EMPTY) + expect(481)


def answer(until: str = "", ring_ms: int = 200) -> str:
    """A callee that rings, answers, and waits for the BYE."""
    return (
        await_request("INVITE")
        + reply(180)
        + pause(ring_ms)
        + reply(200, sdp(port="media_port"))
        + await_request("ACK")
        + (until or await_request("BYE") + confirm())
    )


def answer_and_hang_up(talk_ms: int = 300) -> str:
    """The BYE goes to where the INVITE came from, so that From and To change places."""
    answered = answer(until=pause(talk_ms) + _from_callee("BYE", 1) + expect(200))
    return answered.replace(await_request("INVITE"), await_request("INVITE", caller="From", callee="To"))


def answer_and_cross() -> str:
    """A callee whose change of the call crosses our refresh of it, half way through a session of 30 s.

    Its own is refused, as ours is. It tries again at once; we do no sooner than 2.1 s and no later than 4 s behind its
    refusal, since the call is ours (RFC 3261 section 14.1).
    """
    timer = "Allow: INVITE, ACK, CANCEL, BYE\nRequire: timer\nSession-Expires: {};refresher=uac"
    return (
        await_request("INVITE", caller="From", callee="To")
        + reply(180)
        + reply(200, sdp(port="media_port"), timer.format(30))
        + await_request("ACK")
        + await_request("INVITE", via="Via", cseq="CSeq")
        + _from_callee("INVITE", 1, sdp(version=2, port="media_port"), "first")
        + expect(100, optional=True, transaction="first")
        + expect(491, transaction="first")
        + send(
            f"ACK [next_url] SIP/2.0\n{_SAME_BRANCH}\n[last_To:]\nCSeq: 1 ACK\n{_EMPTY}", False, acknowledges="first"
        )
        + send(_to_remembered("491 Request Pending", "From: [$caller]\nTo: [$callee]" + _TAG), retransmit=False)
        + await_request("ACK")
        + pause(300)
        + _from_callee("INVITE", 2, sdp(version=2, port="media_port"), "second")
        + expect(100, optional=True, transaction="second")
        + expect(200, transaction="second")
        + _from_callee("ACK", 2, transaction="second")
        + pause(1700)
        + await_request("INVITE", within_ms=3000)
        + confirm(sdp(version=3, port="media_port"), timer.format(90))
        + await_request("ACK")
        + _from_callee("BYE", 3, transaction="bye")
        + expect(200, transaction="bye")
    )


def decline(status: int) -> str:
    return await_request("INVITE") + reply(180) + reply(status) + await_request("ACK")


def early_media() -> str:
    """An announcement in front of the answer."""
    return (
        await_request("INVITE")
        + reply(183, sdp(port="media_port"))
        + pause(300)
        + reply(200, sdp(port="media_port"))
        + await_request("ACK")
        + await_request("BYE")
        + confirm()
    )


def ring_until_cancelled() -> str:
    """487 answers the INVITE, whose CSeq is gone once the CANCEL is there: it is remembered."""
    remember = await_request("INVITE", via="Via", cseq="CSeq")
    terminated = _to_remembered("487 Request Terminated", f"[last_From:]\n[last_To:]{_TAG}")
    return remember + reply(180) + await_request("CANCEL") + confirm() + send(terminated) + await_request("ACK")


def decline_without_password() -> str:
    """As proxies ask."""
    question = 'Proxy-Authenticate: Digest realm="gate", nonce="5ec1e7", algorithm=MD5, qop="auth"'
    return await_request("INVITE") + reply(407, headers=question) + await_request("ACK")


def answer_who_knows_password() -> str:
    """401, and whoever comes back with the right credentials is answered, anybody else refused.

    SIPp verifies ``Authorization`` only: 407, which proxies ask with, it cannot check.
    """
    question = 'WWW-Authenticate: Digest realm="gate", nonce="5ec1e7", algorithm=MD5, qop="auth"'
    verify = (
        '<recv request="INVITE" rrs="true"><action>'
        f'<verifyauth assign_to="known" username="{GATE_USER}" password="{GATE_PASSWORD}"/></action></recv>'
    )
    return (
        await_request("INVITE")
        + reply(401, headers=question)
        + await_request("ACK")
        + verify
        + '<nop test="known" next="known"/>'
        + reply(403)
        + '<recv request="ACK" next="end"/>'
        + '<label id="known"/>'
        + reply(180)
        + reply(200, sdp(port="media_port"))
        + await_request("ACK")
        + await_request("BYE")
        + confirm()
        + '<label id="end"/>'
    )
