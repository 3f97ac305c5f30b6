"""Transfers that the other end asks for: REFER (RFC 3515), where a trunk's settings say ``accept``.

What is honoured is a blind transfer to a number that may be dialled over the same trunk. It is a call of its own, with
the same persona and voice but a conversation that begins anew; who has asked hears by NOTIFY how it goes, and hangs up
when it likes. An attended transfer, which would have to take over a call of somebody else's, is declined.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rtc_server.errors import RtcServerError
from rtc_server.transports.sip.call.answers import refuse
from rtc_server.transports.sip.call.call import Call
from rtc_server.transports.sip.call.surroundings import Surroundings
from rtc_server.transports.sip.message.headers import CSeq, NameAddr
from rtc_server.transports.sip.message.message import Request
from rtc_server.transports.sip.transaction.base import ServerTransaction
from rtc_server.transports.sip.trunk.callers import number_of

_ENDINGS = {
    "busy": "486 Busy Here",
    "declined": "603 Decline",
    "no_answer": "480 Temporarily Unavailable",
    "no_such_number": "404 Not Found",
}
_FAILED = "503 Service Unavailable"


class _Refused(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Referrals:
    """At most one at a time for each call.

    Args:
        dial: `UserAgent.dial`.
    """

    def __init__(self, dial: Callable[..., Awaitable[Call]], around: Surroundings) -> None:
        self._dial = dial
        self._around = around
        self._referring: set[str] = set()

    def receive(self, call: Call, transaction: ServerTransaction, request: Request) -> None:
        """Answer a REFER, and call whom it names."""
        try:
            number, cseq = self._wanted(call, request)
        except _Refused as refusal:
            self._say(call, "transfer by the other end refused", status=refusal.status)
            refuse(transaction, refusal.status)
            return
        self._say(call, "transfer by the other end accepted")
        transaction.respond(transaction.reply(202))
        self._referring.add(call.id)
        self._around.tasks.start(self._follow(call, number, cseq), f"sip-refer {call.id}")

    def _wanted(self, call: Call, request: Request) -> tuple[str, int]:
        """The number to call, and the CSeq of the request. Raises: _Refused."""
        targets = request.headers.all("Refer-To")
        if len(targets) != 1:
            raise _Refused(400)  # RFC 3515 section 2.4.2
        if call.trunk.refer != "accept" or call.id in self._referring:
            raise _Refused(603)
        try:
            target = NameAddr.parse(targets[0])
            cseq = CSeq.parse(request.headers.get("CSeq") or "").number
        except ValueError:
            raise _Refused(400) from None
        number = number_of(target.uri)
        if number is None or "?" in target.uri or "method=" in target.uri.lower():
            raise _Refused(603)
        if not call.trunk.may_dial(number):
            raise _Refused(403)
        return number, cseq

    def _say(self, call: Call, event: str, **fields: str | int) -> None:
        self._around.lines.info(call.id, event, self._around.clock(), call_id=call.id, **fields)

    async def _follow(self, call: Call, number: str, cseq: int) -> None:
        try:
            call.notify(cseq, "100 Trying", final=False)
            outcome = await self._outcome(call, number, cseq)
            self._say(call, "transfer by the other end is over", status=int(outcome[:3]))
            call.notify(cseq, outcome, final=True)
        finally:
            self._referring.discard(call.id)

    async def _outcome(self, call: Call, number: str, cseq: int) -> str:
        persona, voice = (None, None) if call.prompt is None else (call.prompt.persona, call.prompt.voice)
        try:
            referred = await self._dial(number, trunk=call.trunk.name, persona=persona, voice=voice)
            self._say(call, "referred call begun", referred_call_id=referred.id)
            events = referred.feed.subscribe()
        except RtcServerError as error:
            self._say(call, "referred call refused", code=error.code)
            return _FAILED
        try:
            async for event in events:
                match event["type"]:
                    case "ringing" | "early_media":
                        call.notify(cseq, "180 Ringing", final=False)
                    case "answered":
                        return "200 OK"
                    case "ended":
                        return _ENDINGS.get(event["reason"], _FAILED)
        finally:
            events.close()
        return _FAILED
