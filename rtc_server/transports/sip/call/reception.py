"""Who may call, and whom: what is checked of an INVITE before it becomes a call, cheapest first.

Every refusal here costs no port and no slot.
"""

from __future__ import annotations

from rtc_server.engine.stepper import SessionPrompt
from rtc_server.errors import RtcServerError
from rtc_server.transports.sip.call.answers import refuse, refuse_error, refuse_unfit
from rtc_server.transports.sip.call.call import Call, CallDetails, CallObserver
from rtc_server.transports.sip.call.calls import Calls
from rtc_server.transports.sip.call.inbound import CallRejected, InboundCall
from rtc_server.transports.sip.call.sessionrefresh import refuses_interval
from rtc_server.transports.sip.call.surroundings import Surroundings
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.message.message import Request
from rtc_server.transports.sip.network.listenon import host_and_port
from rtc_server.transports.sip.transaction.invite_server import InviteServerTransaction
from rtc_server.transports.sip.trunk.callers import callee_of, caller_of, metadata_of
from rtc_server.transports.sip.trunk.numbers import NumberRule
from rtc_server.transports.sip.trunk.trunks import Trunk
from rtc_server.transports.sip.trunk.webhook import IncomingCall, Reject, Webhook

SCHEMES = ("sip", "sips", "tel")
BUSY_RETRY_AFTER_S = "10"


class Reception:
    """
    Args:
        webhook: decides about each call that passes; None: all are taken.
    """

    def __init__(
        self,
        around: Surroundings,
        calls: Calls,
        observer: CallObserver,
        webhook: Webhook | None,
    ) -> None:
        self._around = around
        self._calls = calls
        self._observer = observer
        self._webhook = webhook

    def receive(self, transaction: InviteServerTransaction, request: Request, trunk: Trunk) -> None:
        """An INVITE of a trunk, outside of any dialog: refuse it, or make it a call."""
        if request.uri.partition(":")[0].lower() not in SCHEMES:
            refuse(transaction, 416)
            return
        if refuse_unfit(transaction, request) or refuses_interval(self._around.settings, transaction, request):
            return
        callee, caller = callee_of(request), caller_of(request, trunk)
        rule = trunk.rule_for(callee)
        if rule is None:
            refuse(transaction, 404)
        elif not rule.admits(caller.number):
            refuse(transaction, 403)
        elif rule.max_calls is not None and self._count(rule) >= rule.max_calls:
            refuse(transaction, 486)
        elif not self.has_room(trunk):
            refuse(transaction, 503, Retry_After=BUSY_RETRY_AFTER_S)
        elif self._may_come_in(transaction):
            details = CallDetails(trunk, caller.number, callee, metadata_of(request, trunk), rule)
            self._take(transaction, details)

    def has_room(self, trunk: Trunk) -> bool:
        """Whether another call fits under the trunk's limit and the server's."""
        of_trunk = sum(call.trunk is trunk for call in self._calls)
        of_all = self._around.settings.max_calls
        return (of_all is None or len(self._calls) < of_all) and (trunk.max_calls is None or of_trunk < trunk.max_calls)

    def _count(self, rule: NumberRule) -> int:
        return sum(call.rule is rule for call in self._calls)

    def _may_come_in(self, transaction: InviteServerTransaction) -> bool:
        try:
            self._around.admission.check()
        except RtcServerError as error:
            refuse_error(transaction, error)
            return False
        return True

    def _take(self, transaction: InviteServerTransaction, details: CallDetails) -> None:
        secure = transaction.request.uri.lower().startswith("sips:")
        contact = contact_of(self._around, transaction.flow, secure=secure)
        try:
            call = InboundCall(self._around, details, self._observer, transaction, contact, self._decide)
        except ValueError:
            refuse(transaction, 400)
        else:
            self._calls.add(call)

    async def _decide(self, call: Call) -> SessionPrompt:
        rule = call.rule
        persona, voice = (None, None) if rule is None else (rule.persona, rule.voice)
        if self._webhook is not None:
            asked = IncomingCall(call.id, call.trunk.name, call.caller, call.callee, call.metadata)
            decision = await self._webhook.decide(asked)
            if isinstance(decision, Reject):
                raise CallRejected(decision.status)
            persona, voice = decision.persona or persona, decision.voice or voice
        return SessionPrompt(persona=persona, voice=voice)


def contact_of(around: Surroundings, flow: Flow, *, secure: bool = False) -> str:
    """Our Contact for a peer on this flow."""
    place = host_and_port(*around.network.contact(flow))
    if secure:
        return f"<sips:{place}>"
    return f"<sip:{place}{'' if flow.transport == 'udp' else f';transport={flow.transport}'}>"
