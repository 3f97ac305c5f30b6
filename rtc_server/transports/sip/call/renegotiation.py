"""Offers and answers after the first: hold and resume, another address, another codec (RFC 3261 section 14, RFC 3311).

An offer that cannot be taken is refused, and the call goes on as it was.
"""

from __future__ import annotations

import random
from functools import partial

from rtc_server.transports.sip.call.answeredinvite import AnsweredInvite
from rtc_server.transports.sip.call.answers import (
    SDP,
    describe_us,
    refuse_media,
    refuse_unfit,
    with_sdp,
)
from rtc_server.transports.sip.call.callmedia import CallMedia
from rtc_server.transports.sip.call.requests import DialogRequests, End, Guard, Outcome, status_of
from rtc_server.transports.sip.call.sessionrefresh import MAX_LENGTHENINGS, SessionRefresh
from rtc_server.transports.sip.call.surroundings import Surroundings
from rtc_server.transports.sip.dialog.sessiontimer import RefreshMethod
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.negotiation.sdp import MediaRefused
from rtc_server.transports.sip.transaction.base import ServerTransaction
from rtc_server.transports.sip.transaction.timers import Timer

MAX_GLARES = 5


class Renegotiation:
    """
    Args:
        owner: the call began with our INVITE: our Call-ID (decides who waits longer after a glare).
        end: ends the call.
    """

    def __init__(
        self,
        around: Surroundings,
        requests: DialogRequests,
        media: CallMedia,
        guard: Guard,
        end: End,
        *,
        owner: bool,
    ) -> None:
        self._around = around
        self._requests = requests
        self._media = media
        self._guard = guard
        self._end = end
        self._owner = owner
        self._updates = True
        """The other end has not refused an UPDATE."""
        self._answered: AnsweredInvite | None = None
        self._asking = False
        self._stopped = False
        self._glares = 0
        self._lengthened = 0
        self._retry: Timer | None = None
        self.refresh = SessionRefresh(around, guard, self.ask, partial(end, "session_expired"))

    def stop(self) -> None:
        self._stopped = True
        self.refresh.stop()
        if self._answered is not None:
            self._answered.stop()
        if self._retry is not None:
            self._retry.cancel()

    # ---- theirs ------------------------------------------------------------------------------------------------------

    def on_invite(self, transaction: ServerTransaction, request: Request) -> None:
        if refuse_unfit(transaction, request) or self.refresh.refuses(transaction, request):
            return
        negotiation = self._media.negotiation
        is_offer = bool(request.body)
        try:
            if is_offer:
                body = negotiation.answer_offer(request.body)
            elif negotiation.offer_pending:
                raise MediaRefused(491, "an offer of ours waits for its answer")
            else:
                body = negotiation.make_offer()
        except MediaRefused as refusal:
            refuse_media(transaction, refusal, self._around.settings.agent)
            return
        if self._answered is not None:
            self._answered.stop()
        response = self._accepted(transaction, request)
        self._answered = AnsweredInvite(
            transaction,
            with_sdp(response, body),
            self._around.timers,
            self._around.intervals,
            on_ack=lambda ack: None if is_offer else self._take_answer(ack.body),
            on_lost=partial(self._guard, partial(self._end, "ack_lost")),
        )
        if is_offer:
            self._media.follow()

    def on_update(self, transaction: ServerTransaction, request: Request) -> None:
        if refuse_unfit(transaction, request) or self.refresh.refuses(transaction, request):
            return
        body = b""
        if request.body:
            try:
                body = self._media.negotiation.answer_offer(request.body)
            except MediaRefused as refusal:
                refuse_media(transaction, refusal, self._around.settings.agent)
                return
        response = self._accepted(transaction, request)
        if not body:
            transaction.respond(response)
            return
        transaction.respond(with_sdp(response, body))
        self._media.follow()

    def on_ack(self, ack: Request) -> None:
        if self._answered is not None:
            self._answered.acknowledged(ack)

    def _accepted(self, transaction: ServerTransaction, request: Request) -> Response:
        dialog = self._requests.dialog
        dialog.refresh_target(request)
        response = describe_us(transaction.reply(200))
        response.headers.set("Contact", dialog.contact)
        self.refresh.accept(request, response)
        return response

    def _take_answer(self, body: bytes) -> None:
        try:
            self._media.negotiation.take_answer(body)
        except MediaRefused as refusal:
            self._end("media_refused", detail=refusal.message)  # an answer cannot be refused otherwise
        else:
            self._media.follow()

    # ---- ours --------------------------------------------------------------------------------------------------------

    def ask(self, method: RefreshMethod) -> None:
        """Refresh the session: by an UPDATE without a body, or a re-INVITE that offers what there is."""
        if not self._updates:
            method = "INVITE"
        negotiation = self._media.negotiation
        if self._stopped or self._asking or (method == "INVITE" and negotiation.offer_pending):
            return
        self._asking = True
        body, headers = b"", self.refresh.headers()
        if method == "INVITE":
            body = negotiation.make_offer()
            headers.append(("Content-Type", SDP))
        self._requests.send(method, partial(self._on_outcome, method), body=body, headers=headers)

    def _on_outcome(self, method: RefreshMethod, outcome: Outcome) -> None:
        self._asking = False
        if self._stopped:
            return
        status = status_of(outcome)
        if isinstance(outcome, Response) and status < 300:
            self._glares = self._lengthened = 0
            self.refresh.confirmed(outcome)
            if method == "INVITE":
                self._take_answer(outcome.body)
            return
        if method == "INVITE":
            self._media.negotiation.drop_offer()
        if status == 491 and self._glares < MAX_GLARES:
            self._glares += 1
            self._retry = self._around.timers.after(
                glare_delay_s(self._owner, self._around.random), partial(self._guard, partial(self.ask, method))
            )
        elif isinstance(outcome, Response) and status == 422:
            if self._lengthened < MAX_LENGTHENINGS and self.refresh.lengthen(outcome):
                self._lengthened += 1
                self.ask(method)
        elif method == "UPDATE" and status in (405, 501):
            self._updates = False
            self.ask("INVITE")


def glare_delay_s(owner: bool, source: random.Random) -> float:
    """RFC 3261 section 14.1: in units of 10 ms, and not the same at both ends."""
    return source.randrange(210, 401) / 100 if owner else source.randrange(0, 201) / 100
