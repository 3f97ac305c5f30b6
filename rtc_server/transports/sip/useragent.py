"""The user agent of all calls: gives each message to whom it belongs, takes calls in, and dials out.

It owns the network, the transactions, their timers and every call. Event loop's thread only.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from rtc_server.engine.stepper import SessionPrompt
from rtc_server.errors import CapacityError, EngineDraining, EngineUnavailable, RtcServerError, TrunkBusy
from rtc_server.log import get_logger
from rtc_server.session.admission import Admission
from rtc_server.transports.sip.call.answers import METHODS, describe_us, refuse, refuse_error
from rtc_server.transports.sip.call.call import Call, CallDetails
from rtc_server.transports.sip.call.calls import Calls
from rtc_server.transports.sip.call.dialling import Wish, plan
from rtc_server.transports.sip.call.outbound import OutboundCall
from rtc_server.transports.sip.call.reception import Reception
from rtc_server.transports.sip.call.referrals import Referrals
from rtc_server.transports.sip.call.surroundings import CallSettings, Media, Network, Surroundings, Tasks, admit
from rtc_server.transports.sip.dialog.dialog import id_of_request, tag_of
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.message.message import Request, SipParseError, parse
from rtc_server.transports.sip.timerloop import TimerLoop
from rtc_server.transports.sip.transaction.base import ServerTransaction
from rtc_server.transports.sip.transaction.invite_server import InviteServerTransaction
from rtc_server.transports.sip.transaction.layer import Transactions
from rtc_server.transports.sip.transaction.timers import Intervals, Timers
from rtc_server.transports.sip.trunk.gatekeeper import Challenge, Gatekeeper, Ignore, Known, Refuse
from rtc_server.transports.sip.trunk.trunks import Trunk, Trunks
from rtc_server.transports.sip.trunk.webhook import Webhook

log = get_logger(__name__)


class AgentNetwork(Network, Protocol):
    """`network.SipNetwork`."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def send(self, data: bytes, flow: Flow) -> None:
        """Raises: OSError."""

    def sent_by(self, flow: Flow) -> str: ...


OpenNetwork = Callable[
    [Callable[[bytes, Flow], None], Callable[[Flow], None], Callable[[SipParseError, Flow], None]], AgentNetwork
]
"""Makes the network; gets whom it tells of a message, of a connection that is gone, and of a stream that cannot be read
any further."""


class UserAgent:
    """
    Args:
        clock: monotonic seconds.
    """

    def __init__(
        self,
        open_network: OpenNetwork,
        trunks: Trunks,
        gatekeeper: Gatekeeper,
        admission: Admission,
        media: Media,
        *,
        webhook: Webhook | None = None,
        settings: CallSettings | None = None,
        intervals: Intervals | None = None,
        clock: Callable[[], float] = time.monotonic,
        timers: Timers | None = None,
        source: random.Random | None = None,
    ) -> None:
        settings, intervals = settings or CallSettings(), intervals or Intervals()
        # How long a call of ours rings is the settings' business: timer C is a proxy's, and must not end it before.
        intervals = replace(intervals, invite_s=max(intervals.invite_s, settings.ring_s))
        self._timers = Timers(clock) if timers is None else timers
        self._timer_loop = TimerLoop(self._timers)
        self._gatekeeper = gatekeeper
        self._network = open_network(self._on_message, self._on_flow_closed, self._on_unreadable)
        self._transactions = Transactions(
            self._network.send,
            self._timers,
            self._on_request,
            self._on_ack,
            intervals=intervals,
            sent_by=self._network.sent_by,
            allow_refusal=gatekeeper.allow_refusal,
        )
        self._tasks = Tasks()
        self.trunks = trunks
        self._admission = admission
        self._draining = False
        self._around = Surroundings(
            self._transactions,
            self._timers,
            intervals,
            self._network,
            media,
            admission,
            self._tasks,
            settings,
            clock,
            source or random.SystemRandom(),
        )
        self.calls = Calls(self._timers, Referrals(self.dial, self._around))
        self._reception = Reception(self._around, self.calls, webhook)
        self._webhook = webhook

    async def start(self) -> None:
        """Raises: ConfigError."""
        self._timer_loop.start()
        await self._network.start()

    def drain(self) -> None:
        """Take no new calls, and say so to who asks. Those that there are go on. `Admission.draining` does the same."""
        self._draining = True

    async def close(self) -> None:
        """Hang up on everyone, wait a little for their answers, and free everything. May be called twice."""
        self._draining = True
        for call in self.calls:
            call.hangup("shutdown")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.calls.wait_over(), self._around.settings.goodbye_s)
        self._transactions.close()
        self._timer_loop.stop()
        await self._tasks.close()
        if self._webhook is not None:
            await self._webhook.close()
        await self._network.close()

    async def dial(
        self,
        to: str,
        from_: str | None = None,
        trunk: str | None = None,
        persona: str | None = None,
        voice: str | None = None,
        metadata: Mapping[str, str] | None = None,
        seed: int | None = None,
    ) -> Call:
        """Call someone. Returns when there is a slot for the call and it is about to ring; its feed tells the rest.

        Args:
            to: a number, or a SIP URI of which the number counts.
            from_: our number; the trunk's `caller_id` by default.
            trunk: by name; may be left out where there is only one to call over.
            metadata: kept with the call; what is named X-... goes along as headers of the INVITE.

        Raises: BadRequest, InvalidNumber, NumberNotAllowed, CapacityError, and what `Admission.admit` raises. There is
        no call then.
        """
        wanted = plan(Wish(to, from_, trunk, metadata or {}), self.trunks)
        self._check_not_draining()
        if not self._reception.has_room(wanted.trunk):
            raise TrunkBusy(f"the trunk {wanted.trunk.name!r} has as many calls as it may", hint="try again later")
        prompt = SessionPrompt(persona=persona, voice=voice, seed=seed)
        self._admission.check()
        self._admission.prompt(prompt)
        with self.calls.expected(wanted.trunk):
            session = await admit(self._around, prompt, wanted.trunk.name)
        try:
            self._check_not_draining()
        except EngineDraining:
            session.close("shutdown")
            raise
        details = CallDetails(wanted.trunk, wanted.caller, wanted.callee, metadata or {})
        call = OutboundCall(self._around, details, self.calls, wanted.dialled, prompt, session)
        self.calls.add(call)
        call.start()
        return call

    def _check_not_draining(self) -> None:
        """Raises: EngineDraining."""
        if self._draining:
            raise _shutting_down()

    # ---- what arrives ------------------------------------------------------------------------------------------------

    def _on_message(self, datagram: bytes, flow: Flow) -> None:
        """Never raises, whatever it holds: the listener lives on."""
        try:
            message = parse(datagram)
        except SipParseError as error:
            self._on_unreadable(error, flow)
        except Exception:
            log.exception("SIP message not read")
        else:
            self._transactions.receive(message, flow)

    def _on_unreadable(self, error: SipParseError, flow: Flow) -> None:
        """Answer a malformed request as far as it can be read, if its sender is answered at all."""
        if error.partial is not None:
            self._transactions.refuse(error.partial, flow, error.status)

    def _on_flow_closed(self, flow: Flow) -> None:
        self._transactions.on_transport_error(flow)
        for call in self.calls:
            call.on_flow_closed(flow)

    def _on_ack(self, ack: Request, flow: Flow) -> None:
        try:
            call = self.calls.of_dialog(id_of_request(ack))
        except ValueError:
            return
        if call is not None:
            call.on_ack(ack, flow)

    def _on_request(self, transaction: ServerTransaction, request: Request) -> None:
        try:
            in_dialog = bool(tag_of(request.headers.get("To")))
            call = self.calls.of_dialog(id_of_request(request)) if in_dialog else None
        except ValueError:
            if self._gatekeeper.allow_refusal(transaction.flow):
                transaction.respond_once(transaction.reply(400))
            else:
                transaction.drop()
            return
        if call is not None:
            call.receive(transaction, request)
            return
        trunk = self._trunk_of(transaction, request)
        if trunk is None:
            return
        if in_dialog:
            transaction.respond_once(transaction.reply(481))
        else:
            self._on_new(transaction, request, trunk)

    def _trunk_of(self, transaction: ServerTransaction, request: Request) -> Trunk | None:
        """Whose request this is. None: it has been answered, or is not to be."""
        match self._gatekeeper.identify(request, transaction.flow):
            case Known(trunk):
                return trunk
            case Challenge(values):
                response = transaction.reply(401)
                for value in values:
                    response.headers.add("WWW-Authenticate", value)
                transaction.respond_once(response)
            case Refuse(status):
                transaction.respond_once(transaction.reply(status))
            case Ignore():
                transaction.drop()
        return None

    def _on_new(self, transaction: ServerTransaction, request: Request, trunk: Trunk) -> None:
        if request.method == "OPTIONS":
            self._on_options(transaction)
        elif (request.headers.get("Max-Forwards") or "").strip() == "0":
            refuse(transaction, 483)
            if request.method == "INVITE":
                self._reception.note_refusal(request, trunk, 483, "it has been handed on too often: a loop")
        elif request.method not in METHODS:
            refuse(transaction, 405)
        elif not isinstance(transaction, InviteServerTransaction):
            refuse(transaction, 481)
        elif self._draining:
            stopping = _shutting_down()
            self._reception.note_refusal(request, trunk, refuse_error(transaction, stopping), stopping.message)
        else:
            self._reception.receive(transaction, request, trunk)

    def _on_options(self, transaction: ServerTransaction) -> None:
        """A trunk asks whether to send calls here. A full server is no reason to take it out: each call is told. No
        state is kept of it."""
        if self._draining:
            self._answer_unavailable(transaction, _shutting_down())
            return
        try:
            self._admission.check()
        except (EngineDraining, EngineUnavailable) as error:
            self._answer_unavailable(transaction, error)
            return
        except CapacityError:
            pass
        transaction.respond_once(describe_us(transaction.reply(200)))

    def _answer_unavailable(self, transaction: ServerTransaction, error: RtcServerError) -> None:
        response = transaction.reply(503)
        response.headers.set("Retry-After", str(error.retry_after_s))
        transaction.respond_once(response)


def _shutting_down() -> EngineDraining:
    return EngineDraining("the server is shutting down", hint="try again in half a minute")
