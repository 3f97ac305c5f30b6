"""A call of ours, from the slot to the ACK.

::

    slot, port -> CALLING (INVITE) -> RINGING (180, 183) -> ANSWERED (2xx, ACK) -> ENDED

Whatever is still to come when the call has ended is dealt with as the RFC wants: a CANCEL may cross a 2xx, and a forked
INVITE may be answered twice. Both get their ACK and a BYE.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from rtc_server.engine.stepper import SessionPrompt
from rtc_server.errors import CapacityError, RtcServerError
from rtc_server.log import get_logger
from rtc_server.session.session import Session
from rtc_server.transports.sip.call.answers import SDP, describe_us_as_caller, requires
from rtc_server.transports.sip.call.call import Call, CallDetails, CallObserver, CallState
from rtc_server.transports.sip.call.contact import contact_of
from rtc_server.transports.sip.call.credentials import Credentials
from rtc_server.transports.sip.call.endreason import outcome_of, reason_header
from rtc_server.transports.sip.call.requests import DialogRequests
from rtc_server.transports.sip.call.sessionrefresh import MAX_LENGTHENINGS, min_se
from rtc_server.transports.sip.call.surroundings import Surroundings
from rtc_server.transports.sip.dialog.dialog import Dialog, tag_of
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.message.headers import MAX_FORWARDS, CSeq, RAck
from rtc_server.transports.sip.message.message import Headers, Request, Response
from rtc_server.transports.sip.negotiation.sdp import MediaRefused
from rtc_server.transports.sip.network.target import Target
from rtc_server.transports.sip.transaction.base import Failure, ServerTransaction, State
from rtc_server.transports.sip.transaction.invite_client import InviteClientTransaction

MAX_BRANCHES = 8
"""Phones of a forked INVITE that are told apart while they ring, and as many that answer."""
_NOT_ANSWERED = (State.CALLING, State.PROCEEDING)

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Dialled:
    """Who is called, and by whom."""

    uri: str
    """The Request-URI."""
    from_uri: str
    target: Target
    """Where the INVITE is sent."""
    headers: Sequence[tuple[str, str]] = ()


class OutboundCall(Call):
    """
    Args:
        session: its slot; it ends with the call. The agent gets ready while it rings.
    """

    direction = "outbound"

    def __init__(
        self,
        around: Surroundings,
        details: CallDetails,
        observer: CallObserver,
        dialled: Dialled,
        prompt: SessionPrompt,
        session: Session,
    ) -> None:
        super().__init__(around, details, observer, CallState.CALLING)
        self.prompt = prompt
        self.session_id = session.id
        self._make_media().adopt(session)
        self._dialled = dialled
        self._transaction: InviteClientTransaction | None = None
        self._sign_in = Credentials(self.trunk, self._is_of_trunk)
        self._called_host: str | None = None
        """Where the INVITE went: one of the addresses of the trunk's target."""
        self._branches: dict[str, DialogRequests] = {}
        self._reliable_seen: dict[str, int] = {}
        self._answered_tags: set[str] = set()
        self._reaching: asyncio.Task[None] | None = None
        self._early_answers: dict[str, bytes] = {}
        """The last description of each branch that was any good, by its tag: the answer, where its 2xx has none."""
        self._early_media = False
        self._lengthened = 0
        self._ring_timer = around.timers.after(around.settings.ring_s, partial(self.end, "no_answer"))

    def start(self) -> None:
        """Ring. Returns at once."""
        log.info("call dialled", call_id=self.id, session_id=self.session_id, trunk=self.trunk.name)
        self._reaching = self._around.tasks.start(self._reach(), f"sip-call {self.id}")

    # ---- calling -----------------------------------------------------------------------------------------------------

    async def _reach(self) -> None:
        try:
            flow = await self._around.network.connect(self._dialled.target)
        except (OSError, TimeoutError):
            self.end("unreachable")
            return
        self.guard(partial(self._send_first, flow))

    def _send_first(self, flow: Flow) -> None:
        if self.state is CallState.ENDED or self._media is None:
            return
        self._called_host = flow.remote[0]
        try:
            self._open_media(self._media, flow)
            self._media.join()
        except RtcServerError as error:
            self.end(error.code, detail=error.message)
        if self.has_ended:
            return
        headers = Headers()
        headers.add("Max-Forwards", MAX_FORWARDS)
        headers.add("From", f"<{self._dialled.from_uri}>;tag={secrets.token_hex(8)}")
        headers.add("To", f"<{self._dialled.uri}>")
        headers.add("Call-ID", secrets.token_hex(16))
        headers.add("CSeq", "1 INVITE")
        headers.add("Contact", contact_of(self._around.network, flow))
        for name, value in self._dialled.headers:
            headers.add(name, value)
        request = Request("INVITE", self._dialled.uri, headers, self._media.negotiation.make_offer())
        describe_us_as_caller(request, self._around.settings.session_expires_s)
        headers.set("Content-Type", SDP)
        self._send(request, flow)

    def _send(self, request: Request, flow: Flow) -> None:
        try:
            self._transaction = self._around.transactions.invite(
                request,
                flow,
                lambda response: self.guard(partial(self._on_response, request, flow, response)),
                lambda failure: self.guard(partial(self._on_failed, failure)),
            )
        except CapacityError as error:
            self.end(error.code, detail=error.message, tell_peer=False)

    def _send_again(self, request: Request, flow: Flow) -> None:
        """The same INVITE with what it lacked (section 8.1.3.5)."""
        number = CSeq.parse(request.headers.get("CSeq") or "").number + 1
        request.headers.set("CSeq", f"{number} INVITE")
        self._branches.clear()
        self._reliable_seen.clear()
        self._early_answers.clear()
        self._send(request, flow)

    def _on_response(self, request: Request, flow: Flow, response: Response) -> None:
        if response.status < 200:
            self._on_provisional(request, flow, response)
        elif response.status < 300:
            self._on_answered(request, flow, response)
        else:
            self._on_refused(request, flow, response)

    def _on_failed(self, failure: Failure) -> None:
        if self.state is CallState.ENDED:
            self._over()
        else:
            self.end("unreachable", tell_peer=False)

    def _on_refused(self, request: Request, flow: Flow, response: Response) -> None:
        status = response.status
        if self.state is CallState.ENDED:
            self._over()
        elif status in (401, 407) and self._sign_in.answer(request, response, flow.remote[0]):
            self._send_again(request, flow)
        elif status == 422 and self._lengthened < MAX_LENGTHENINGS and (minimum := min_se(response)) is not None:
            self._lengthened += 1
            request.headers.set("Min-SE", str(minimum))
            request.headers.set("Session-Expires", str(max(minimum, self._around.settings.session_expires_s)))
            self._sign_in.renew(request)
            self._send_again(request, flow)
        else:
            self.end(outcome_of(status), detail=str(status), tell_peer=False)

    # ---- ringing -----------------------------------------------------------------------------------------------------

    def _on_provisional(self, request: Request, flow: Flow, response: Response) -> None:
        if response.status == 100 or self.state is CallState.ENDED:
            return
        branch = self._branch(request, flow, response, len(self._branches) < MAX_BRANCHES)
        if branch is not None and requires(response, "100rel") and not self._prack(request, branch, response):
            return
        if response.status == 180 and self.state is CallState.CALLING:
            self.state = CallState.RINGING
            self.feed.tell("ringing")
        if response.body and branch is not None:
            self._hear_early(branch, response.body)

    def _branch(self, request: Request, flow: Flow, response: Response, may_be_new: bool) -> DialogRequests | None:
        """The dialog of this response; None where it makes none."""
        tag = tag_of(response.headers.get("To"))
        if tag and tag not in self._branches and may_be_new:
            try:
                dialog = Dialog.of_our_invite(request, response, flow)
            except ValueError:
                return None
            requests = self._branches[tag] = self._requests_of(dialog)
            if self._requests is None:
                self._requests = requests
        return self._branches.get(tag)

    def _prack(self, request: Request, branch: DialogRequests, response: Response) -> bool:
        """RFC 3262 section 4. False: it came before, or is out of order."""
        text, tag = response.headers.get("RSeq") or "", branch.dialog.id.remote_tag
        if not text.isascii() or not text.isdigit() or len(text) > 10:
            return False
        last = self._reliable_seen.get(tag)
        if last is not None and int(text) != last + 1:
            return False
        self._reliable_seen[tag] = int(text)
        invite = CSeq.parse(request.headers.get("CSeq") or "")
        branch.send("PRACK", headers=[("RAck", str(RAck(int(text), invite.number, invite.method)))])
        return True

    def _hear_early(self, branch: DialogRequests, body: bytes) -> None:
        """What is sent before the answer: a ring back tone, or an announcement. Our own media waits for the answer."""
        media = self._media
        if media is None:
            return
        try:
            media.negotiation.take_answer(body)
        except MediaRefused:
            return
        self._early_answers[branch.dialog.id.remote_tag] = body
        media.follow()
        if not self._early_media:
            self._early_media = True
            self.feed.tell("early_media")

    # ---- answered ----------------------------------------------------------------------------------------------------

    def _on_answered(self, request: Request, flow: Flow, response: Response) -> None:
        branch = self._branch(request, flow, response, len(self._answered_tags) < MAX_BRANCHES)
        if branch is None:
            if self.state is CallState.ENDED:
                self._over()
            elif self.state is not CallState.ANSWERED:
                self.end("failed", detail="no dialog", tell_peer=False)
            return
        tag = branch.dialog.id.remote_tag
        is_new = tag not in self._answered_tags
        self._answered_tags.add(tag)
        if is_new:
            with contextlib.suppress(ValueError):
                branch.dialog.confirm(response)
        branch.ack(request)
        if is_new and self.state in (CallState.ANSWERED, CallState.ENDED):
            self._decline(branch)
        elif is_new:
            self._answer(branch, response)

    def _answer(self, branch: DialogRequests, response: Response) -> None:
        media = self._media
        assert media is not None
        self._ring_timer.cancel()
        self._requests = branch
        established = self._establish(branch, media)
        self.state = CallState.ANSWERED
        try:
            # A 2xx has none where a reliable provisional response of the same branch had it (RFC 3262 section 5).
            media.negotiation.take_answer(response.body or self._early_answers.get(branch.dialog.id.remote_tag, b""))
        except MediaRefused as refusal:
            self.end("media_refused", detail=refusal.message)
            return
        media.follow()
        established.renegotiation.refresh.confirmed(response)
        established.start()
        self.feed.tell("answered")
        media.answer()
        log.info("call answered", call_id=self.id, session_id=self.session_id)

    def _decline(self, branch: DialogRequests) -> None:
        """Nobody is there for this answer."""
        headers = [("Reason", reason_header(self.end_reason or "hangup"))]
        branch.send("BYE", lambda outcome: None if self.state is CallState.ANSWERED else self._over(), headers=headers)

    def _is_of_trunk(self, host: str) -> bool:
        return host == self._called_host or super()._is_of_trunk(host)

    def _on_ready(self) -> None:
        """The agent is ready before it is answered, or else a little later: nothing waits for it."""

    def _receive(self, transaction: ServerTransaction, request: Request) -> None:
        if self._established is not None:
            self._established.receive(transaction, request)
        elif request.method == "BYE":
            transaction.respond(transaction.reply(200))  # not from one that has not answered (section 15)
        elif request.method in ("INVITE", "UPDATE") and request.body:
            transaction.respond(transaction.reply(491))
        elif request.method in ("UPDATE", "OPTIONS", "INFO"):
            transaction.respond(transaction.reply(200))
        else:
            transaction.respond(transaction.reply(481))

    def _on_ack(self, ack: Request) -> None:
        if self._established is not None:
            self._established.renegotiation.on_ack(ack)

    # ---- the end -----------------------------------------------------------------------------------------------------

    def _say_goodbye(self, was: CallState, reason: str, tell_peer: bool) -> None:
        self._ring_timer.cancel()
        self._early_answers.clear()  # calls are remembered for a while
        if self._reaching is not None and asyncio.current_task() is not self._reaching:
            self._reaching.cancel()
        if was is CallState.ANSWERED:
            if tell_peer:
                self._bye(reason)
            else:
                self._over()
        elif tell_peer and self._transaction is not None and self._transaction.state in _NOT_ANSWERED:
            self._transaction.cancel(reason_header(reason))
        else:
            self._over()
