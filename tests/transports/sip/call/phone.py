"""The other end of a call, as a script: it sends what a test says, and keeps what comes."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.hosts import host_and_port
from rtc_server.transports.sip.message.message import Request, Response, parse

US = ("192.0.2.10", 5060)
THEM = ("198.51.100.7", 5060)
FLOW = Flow("udp", US, THEM)

_numbers = itertools.count(1)


def sdp(
    *formats: str, port: int = 16384, direction: str = "sendrecv", address: str = "198.51.100.7", version: int = 1
) -> str:
    """PCMU with telephone events, unless `formats` says otherwise (lines of `payload type name/clock`)."""
    chosen = formats or ("0 PCMU/8000", "101 telephone-event/8000")
    numbers = " ".join(line.split()[0] for line in chosen)
    lines = [
        "v=0",
        f"o=- 1 {version} IN IP4 198.51.100.7",
        "s=-",
        f"c=IN {'IP6' if ':' in address else 'IP4'} {address}",
        "t=0 0",
        f"m=audio {port} RTP/AVP {numbers}",
        *(f"a=rtpmap:{line}" for line in chosen),
        f"a={direction}",
    ]
    return "\r\n".join([*lines, ""])


class Phone:
    """One call of the other end. Its requests share a Call-ID and a From tag; the To tag is learnt from our answers.

    Args:
        deliver: hands a datagram to us.
    """

    def __init__(self, deliver: Callable[[bytes, Flow], None], flow: Flow = FLOW, contact: str | None = None) -> None:
        number = next(_numbers)
        self.flow = flow
        self.received: list[Request | Response] = []
        self.call_id = f"call-{number}@198.51.100.7"
        self.tag = f"theirs-{number}"
        self.our_tag: str | None = None
        self.cseq = 0
        self.contact = contact or f"<sip:1001@{host_and_port(*flow.remote)}>"
        self.target = "sip:+15550100@192.0.2.10"
        self.mute = False
        """Sends nothing by itself."""
        self._deliver = deliver
        self._branches: dict[int, str] = {}
        self._seen = 0
        self._from = f'"Test Caller" <sip:1001@198.51.100.7>;tag={self.tag}'
        self._to = "<sip:+15550100@192.0.2.10>"

    # ---- requests ----------------------------------------------------------------------------------------------------

    def send(
        self, method: str, body: str = "", headers: str = "", *, cseq: int | None = None, branch: str = ""
    ) -> None:
        """A request in the call; the next CSeq, unless it is an ACK or says otherwise."""
        if cseq is None:
            self.cseq += 1
            cseq = self.cseq
        branch = branch or f"z9hG4bK-{self.call_id.replace(chr(64), chr(46))}-{cseq}-{method}"
        self._branches[cseq] = branch
        self.send_text(self.text(method, body, headers, cseq=cseq, branch=branch))

    def text(self, method: str, body: str, headers: str, *, cseq: int, branch: str) -> str:
        to = self._to if self.our_tag is None else f"{self._to};tag={self.our_tag}"
        lines = [
            f"{method} {self.target} SIP/2.0",
            f"Via: SIP/2.0/{self.flow.transport.upper()} {host_and_port(*self.flow.remote)};rport;branch={branch}",
            "Max-Forwards: 70",
            f"From: {self._from}",
            f"To: {to}",
            f"Call-ID: {self.call_id}",
            f"CSeq: {cseq} {method}",
        ]
        if "Contact:" not in headers:
            lines.append(f"Contact: {self.contact}")
        if headers:
            lines += headers.strip().splitlines()
        if body and "Content-Type:" not in headers:
            lines.append("Content-Type: application/sdp")
        return "\r\n".join([*lines, f"Content-Length: {len(body.encode())}", "", body])

    def send_text(self, text: str) -> None:
        self._deliver(text.encode(), self.flow)

    def invite(self, body: str | None = None, headers: str = "") -> None:
        self.send("INVITE", sdp() if body is None else body, headers)

    def again(self, method: str, body: str = "", headers: str = "") -> None:
        """The last request of this method once more, as UDP may bring it."""
        self.send(method, body, headers, cseq=self.cseq, branch=self._branches[self.cseq])

    def cancel(self, headers: str = "") -> None:
        """Of the last INVITE."""
        self.send("CANCEL", headers=headers, cseq=self.cseq, branch=self._branches[self.cseq])

    def ack(self, body: str = "") -> None:
        """Of the last 2xx."""
        self.send("ACK", body, cseq=self._cseq_of_last("INVITE"), branch=f"z9hG4bK-ack-{next(_numbers)}")

    def ack_refusal(self) -> None:
        self.send("ACK", cseq=self.cseq, branch=self._branches[self.cseq])

    # ---- responses ---------------------------------------------------------------------------------------------------

    def answer(
        self, status: int, body: str = "", headers: str = "", *, to: str = "INVITE", tag: str | None = None
    ) -> None:
        """Our last request of this method."""
        request = self.last_request(to)
        theirs = request.headers.get("To") or ""
        if "tag=" not in theirs and status != 100:
            theirs += f";tag={tag or self.tag}"
        lines = [f"SIP/2.0 {status} Whatever"]
        lines += [f"Via: {value}" for value in request.headers.all("Via")]
        lines += [f"From: {request.headers.get('From')}", f"To: {theirs}"]
        lines += [f"Call-ID: {request.headers.get('Call-ID')}", f"CSeq: {request.headers.get('CSeq')}"]
        if "Contact:" not in headers:
            lines.append(f"Contact: {self.contact}")
        if headers:
            lines += headers.strip().splitlines()
        if body:
            lines.append("Content-Type: application/sdp")
        self.send_text("\r\n".join([*lines, f"Content-Length: {len(body.encode())}", "", body]))

    def join(self, invite: Request) -> None:
        """Be the end that our INVITE has called, so that requests of its own fit the dialog."""
        self.call_id = invite.headers.get("Call-ID") or ""
        self._from = f"{invite.headers.get('To')};tag={self.tag}"
        self._to = (invite.headers.get("From") or "").partition(";tag=")[0]
        self.our_tag = (invite.headers.get("From") or "").partition(";tag=")[2]
        self.cseq = 100

    # ---- what came ---------------------------------------------------------------------------------------------------

    def receive(self, datagram: bytes) -> None:
        message = parse(datagram)
        self.received.append(message)
        if isinstance(message, Response) and message.status > 100:
            tag = (message.headers.get("To") or "").partition(";tag=")[2]
            if "INVITE" in (message.headers.get("CSeq") or "") and tag:
                self.our_tag = tag

    def new(self) -> list[str]:
        """Methods and statuses of what has come since the last time."""
        messages, self._seen = self.received[self._seen :], len(self.received)
        return [message.method if isinstance(message, Request) else str(message.status) for message in messages]

    @property
    def last(self) -> Response:
        return next(message for message in reversed(self.received) if isinstance(message, Response))

    def last_request(self, method: str) -> Request:
        return next(m for m in reversed(self.received) if isinstance(m, Request) and m.method == method)

    def last_response(self, status: int) -> Response:
        return next(m for m in reversed(self.received) if isinstance(m, Response) and m.status == status)

    def count(self, name: str) -> int:
        return sum((m.method if isinstance(m, Request) else str(m.status)) == name for m in self.received)

    def _cseq_of_last(self, method: str) -> int:
        for message in reversed(self.received):
            number, _, of = (message.headers.get("CSeq") or "").partition(" ")
            if isinstance(message, Response) and of == method and message.status >= 200:
                return int(number)
        return self.cseq
