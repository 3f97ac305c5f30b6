"""A call that comes in, from its INVITE to the ACK.

::

    INVITE -> RINGING (100, webhook, port, answer, slot; 180: the agent gets ready) -> ANSWERED (200 until ACK) -> ENDED
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from rtc_server.engine.stepper import SessionPrompt
from rtc_server.errors import RtcServerError
from rtc_server.log import get_logger
from rtc_server.transports.sip.call.answeredinvite import AnsweredInvite
from rtc_server.transports.sip.call.answers import (
    describe_us,
    refuse,
    refuse_error,
    refuse_media,
    requires,
    with_sdp,
)
from rtc_server.transports.sip.call.call import Call, CallDetails, CallObserver, CallState
from rtc_server.transports.sip.call.callmedia import CallMedia
from rtc_server.transports.sip.call.endreason import status_for, told_by
from rtc_server.transports.sip.call.reliable import ReliableProvisional
from rtc_server.transports.sip.call.surroundings import Surroundings, admit
from rtc_server.transports.sip.dialog.dialog import Dialog
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.negotiation.sdp import MediaRefused
from rtc_server.transports.sip.transaction.base import Failure, ServerTransaction
from rtc_server.transports.sip.transaction.invite_server import InviteServerTransaction

log = get_logger(__name__)


class CallRejected(Exception):
    """The call is not wanted.

    `reason` and `detail` are what its end is told with.
    """

    def __init__(self, status: int, reason: str = "rejected", detail: str | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.reason = reason
        self.detail = str(status) if detail is None else detail


Decide = Callable[["InboundCall"], Awaitable[SessionPrompt]]
"""Who the caller is to talk to. Raises: CallRejected."""


class InboundCall(Call):
    """
    Args:
        contact: our Contact for this peer.
        decide: may ask an application, which takes its time.

    Raises: ValueError for an INVITE that no dialog can be made of.
    """

    direction = "inbound"

    def __init__(
        self,
        around: Surroundings,
        details: CallDetails,
        observer: CallObserver,
        transaction: InviteServerTransaction,
        contact: str,
        decide: Decide,
    ) -> None:
        super().__init__(around, details, observer, CallState.RINGING)
        self._invite = transaction
        self._contact = contact
        self._decide = decide
        self._answer = b""
        self._reliable: ReliableProvisional | None = None
        self._answered: AnsweredInvite | None = None
        self._bye_reason: str | None = None
        dialog = Dialog.of_their_invite(transaction.request, transaction.to_tag, transaction.flow, contact)
        self._requests = self._requests_of(dialog)
        self._setup = around.tasks.start(self._set_up(), f"sip-call {self.id}")
        self._deadline = around.timers.after(around.settings.setup_s, partial(self.end, "not_ready"))
        transaction.on_cancel = self._on_cancel
        transaction.on_failure = self._on_failure

    # ---- ringing -----------------------------------------------------------------------------------------------------

    async def _set_up(self) -> None:
        offer, flow = self._invite.request.body, self._invite.flow
        try:
            self._seen_on(flow)
            media = self._make_media()
            if offer:
                media.check_offer(offer, self._around.network.contact(flow)[0])
            self.prompt = await self._decide(self)  # takes its time, so that no port is held meanwhile
            self._open_media(media, self._flow or flow)
            self._answer = media.negotiation.answer_offer(offer) if offer else b""
            session = await admit(self._around, self.prompt, self.id)
            self.session_id = session.id
            media.adopt(session)
            media.join()
            self._ring()
        except MediaRefused as refusal:
            refuse_media(self._invite, refusal, self._around.settings.agent)
            self.end("media_refused", detail=refusal.message)
        except CallRejected as rejection:
            self._invite.respond(self._invite.reply(rejection.status))
            self.end(rejection.reason, detail=rejection.detail)
        except RtcServerError as error:
            refuse_error(self._invite, error)
            self.end(error.code, detail=error.message)
        except Exception:
            log.exception("call failed", call_id=self.id)
            self.end("internal_error")

    def _ring(self) -> None:
        if self.state is not CallState.RINGING:
            return
        self.feed.tell("ringing")
        if not requires(self._invite.request, "100rel"):
            self._invite.respond(self._provisional())
        elif self._answer:
            self._reliable = ReliableProvisional(
                self._invite,
                self._provisional(),
                self._around.timers,
                self._around.intervals,
                self._around.random,
                partial(self.end, "prack_lost"),
            )
        # Without an offer, the first reliable response would have to bring ours (RFC 3262 section 5): 180 is not sent.

    def _provisional(self) -> Response:
        return self._with_dialog(self._invite.reply(180))

    def _with_dialog(self, response: Response) -> Response:
        """What makes a dialog at the other end (RFC 3261 section 12.1.1)."""
        for route in self._invite.request.headers.all("Record-Route"):
            response.headers.add("Record-Route", route)
        response.headers.set("Contact", self._contact)
        return response

    def _on_cancel(self, cancel: Request) -> None:
        self.end("cancelled", detail=told_by(cancel), tell_peer=False)  # the transaction sends the 487

    def _on_failure(self, failure: Failure) -> None:
        """Our way back is broken. An answered call notices it by the ACK that does not come."""
        if self.state is CallState.RINGING:
            self.end("peer_gone")

    # ---- answered ----------------------------------------------------------------------------------------------------

    def _on_ready(self) -> None:
        media, requests = self._media, self._requests
        if self.state is not CallState.RINGING or media is None or requests is None:
            return
        self._stop_waiting()
        body = self._answer or media.negotiation.make_offer()
        response = with_sdp(describe_us(self._with_dialog(self._invite.reply(200))), body)
        established = self._establish(requests, media)
        established.renegotiation.refresh.accept(self._invite.request, response)
        self.state = CallState.ANSWERED
        self._answered = AnsweredInvite(
            self._invite,
            response,
            self._around.timers,
            self._around.intervals,
            self._on_acknowledged,
            self._on_ack_lost,
        )
        established.start()
        self.feed.tell("answered")
        if self._answer:
            media.answer()
        log.info("call answered", call_id=self.id, session_id=self.session_id)

    def _on_ack(self, ack: Request) -> None:
        if self._answered is not None:
            self._answered.acknowledged(ack)
        if self._established is not None:
            self._established.renegotiation.on_ack(ack)

    def _on_acknowledged(self, ack: Request) -> None:
        if self._bye_reason is not None:
            self._bye(self._bye_reason)
        elif not self._answer and self._media is not None:
            self._take_late_answer(self._media, ack.body)

    def _take_late_answer(self, media: CallMedia, body: bytes) -> None:
        """The offer was ours, so media begins now."""
        try:
            media.negotiation.take_answer(body)
        except MediaRefused as refusal:
            self.end("media_refused", detail=refusal.message)
        else:
            media.follow()
            media.answer()

    def _on_ack_lost(self) -> None:
        if self._bye_reason is not None:
            self._bye(self._bye_reason)
        else:
            self.end("ack_lost")

    def _receive(self, transaction: ServerTransaction, request: Request) -> None:
        if self._established is not None:
            if request.method == "PRACK" and self._acknowledges(request):
                transaction.respond(transaction.reply(200))
                return
            self._established.receive(transaction, request)
            return
        match request.method:
            case "BYE":
                transaction.respond(transaction.reply(200))
                self._invite.respond(self._invite.reply(487))
                self.end("cancelled", detail=told_by(request), tell_peer=False)
            case "PRACK" if self._acknowledges(request):
                transaction.respond(transaction.reply(200))
            case "INVITE" | "UPDATE":
                refuse(transaction, 500, Retry_After="3")  # its offer, or its first answer, is not settled yet
            case "OPTIONS" | "INFO":
                transaction.respond(describe_us(transaction.reply(200)))
            case "REFER" | "NOTIFY" | "PRACK":
                refuse(transaction, 481)
            case _:
                refuse(transaction, 405)

    def _receive_late(self, transaction: ServerTransaction, request: Request) -> None:
        if request.method == "BYE" and self._answered is not None:
            self._answered.stop()  # the BYE of ours that waits for the ACK need not be sent any more
        super()._receive_late(transaction, request)

    def _acknowledges(self, prack: Request) -> bool:
        return self._reliable is not None and self._reliable.acknowledges(prack)

    # ---- the end -----------------------------------------------------------------------------------------------------

    def _stop_waiting(self) -> None:
        self._deadline.cancel()
        if self._reliable is not None:
            self._reliable.stop()

    def _say_goodbye(self, was: CallState, reason: str, tell_peer: bool) -> None:
        self._stop_waiting()
        if asyncio.current_task() is not self._setup:
            self._setup.cancel()
        if was is CallState.RINGING:
            if tell_peer and not self._invite.answered:
                refuse(self._invite, status_for(reason))
            self._over()
        elif not tell_peer:
            if self._answered is not None:
                self._answered.stop()
            self._over()
        elif self._answered is not None and self._answered.waiting:
            self._bye_reason = reason  # section 15: no BYE before the ACK
        else:
            self._bye(reason)
