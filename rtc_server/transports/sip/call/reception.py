"""Who may call, and whom: what is checked of an INVITE before it becomes a call, cheapest first.

Every refusal here costs no port and no slot.
"""

from __future__ import annotations

from rtc_server.engine.stepper import SessionPrompt
from rtc_server.errors import ClientError, RtcServerError
from rtc_server.log import get_logger
from rtc_server.transports.sip.call.answers import Refusal, refuse, refuse_error, refuse_unfit
from rtc_server.transports.sip.call.call import Call, CallDetails
from rtc_server.transports.sip.call.calls import Calls
from rtc_server.transports.sip.call.contact import contact_of
from rtc_server.transports.sip.call.inbound import CallRejected, InboundCall
from rtc_server.transports.sip.call.sessionrefresh import refuse_interval
from rtc_server.transports.sip.call.surroundings import Surroundings
from rtc_server.transports.sip.message.message import Request
from rtc_server.transports.sip.sparselog import SparseLog
from rtc_server.transports.sip.transaction.invite_server import InviteServerTransaction
from rtc_server.transports.sip.trunk.callers import callee_of, caller_of, metadata_of
from rtc_server.transports.sip.trunk.numbers import NumberRule
from rtc_server.transports.sip.trunk.trunks import Trunk
from rtc_server.transports.sip.trunk.webhook import Accept, IncomingCall, Webhook

SCHEMES = ("sip", "sips", "tel")
BUSY_RETRY_AFTER_S = "10"
LINES_OF_EACH, LINES_OF_ALL = 30, 60
"""Of the log, a minute, about refused calls of one trunk and of all of them."""

log = get_logger(__name__)


class Reception:
    """
    Args:
        webhook: decides about each call that passes; None: all are taken.
    """

    def __init__(
        self,
        around: Surroundings,
        calls: Calls,
        webhook: Webhook | None,
    ) -> None:
        self._around = around
        self._calls = calls
        self._webhook = webhook
        self._sparse = SparseLog(log, LINES_OF_EACH, LINES_OF_ALL)

    def receive(self, transaction: InviteServerTransaction, request: Request, trunk: Trunk) -> None:
        """An INVITE of a trunk, outside of any dialog: refuse it, or make it a call."""
        details = _details_of(request, trunk)
        refusal = self._refuse(transaction, request, details) or self._take(transaction, request, details)
        if refusal is not None:
            self._note(details, *refusal)

    def note_refusal(self, request: Request, trunk: Trunk, status: int, cause: str) -> None:
        """Say in the log why an INVITE of a trunk did not become a call."""
        self._note(_details_of(request, trunk), status, cause)

    def _note(self, details: CallDetails, status: int, cause: str) -> None:
        self._sparse.info(
            details.trunk.name,
            "call refused",
            self._around.clock(),
            trunk=details.trunk.name,
            caller=details.caller,
            callee=details.callee,
            status=status,
            cause=cause,
        )

    def has_room(self, trunk: Trunk) -> bool:
        """Whether another call fits under the trunk's limit and the server's."""
        return self._limit_reached(trunk) is None

    def _refuse(self, transaction: InviteServerTransaction, request: Request, details: CallDetails) -> Refusal | None:
        """None: it may come in."""
        if request.uri.partition(":")[0].lower() not in SCHEMES:
            refuse(transaction, 416)
            return Refusal(416, "its request URI is no sip:, sips: or tel: URI")
        unfit = refuse_unfit(transaction, request) or refuse_interval(self._around.settings, transaction, request)
        if unfit is not None:
            return unfit
        rule = details.rule
        if rule is None:
            refuse(transaction, 404)
            return Refusal(404, f"no number rule of the trunk matches {details.callee or 'a URI without a number'}")
        if not rule.admits(details.caller):
            refuse(transaction, 403)
            return Refusal(403, f"allow_callers of {rule.pattern.text} does not have the caller")
        if rule.max_calls is not None and self._count(rule) >= rule.max_calls:
            refuse(transaction, 486)
            return Refusal(486, f"{rule.pattern.text} has as many calls as it may: max_calls is {rule.max_calls}")
        if (limit := self._limit_reached(details.trunk)) is not None:
            refuse(transaction, 503, Retry_After=BUSY_RETRY_AFTER_S)
            return Refusal(503, limit)
        try:
            self._around.admission.check()
        except RtcServerError as error:
            return Refusal(refuse_error(transaction, error), error.message)
        return None

    def _take(self, transaction: InviteServerTransaction, request: Request, details: CallDetails) -> Refusal | None:
        secure = request.uri.lower().startswith("sips:")
        contact = contact_of(self._around.network, transaction.flow, secure=secure)
        try:
            call = InboundCall(self._around, details, self._calls, transaction, contact, self._decide)
        except ValueError:
            refuse(transaction, 400)
            return Refusal(400, "its From, To, Contact or Record-Route is malformed")
        log.info("call arrives", call_id=call.id, trunk=call.trunk.name, caller=call.caller, callee=call.callee)
        self._calls.add(call)
        return None

    def _limit_reached(self, trunk: Trunk) -> str | None:
        """In words; None: there is none that is."""
        of_all = self._around.settings.max_calls
        if of_all is not None and self._calls.count() >= of_all:
            return f"the server has as many calls as it may: max_calls is {of_all}"
        if trunk.max_calls is not None and self._calls.count(trunk) >= trunk.max_calls:
            return f"the trunk has as many calls as it may: max_calls is {trunk.max_calls}"
        return None

    def _count(self, rule: NumberRule) -> int:
        return sum(call.rule is rule for call in self._calls)

    async def _decide(self, call: Call) -> SessionPrompt:
        usual = SessionPrompt() if call.rule is None else SessionPrompt(call.rule.persona, call.rule.voice)
        if self._webhook is None:
            return usual
        asked = IncomingCall(call.id, call.trunk.name, call.caller, call.callee, call.metadata)
        decision = await self._webhook.decide(asked)
        if isinstance(decision, Accept):
            prompt = SessionPrompt(decision.persona or usual.persona, decision.voice or usual.voice)
            try:
                self._around.admission.prompt(prompt)
            except ClientError as error:
                decision = self._webhook.undecided(call.id, str(error))
            else:
                return prompt
        if isinstance(decision, Accept):
            return usual
        if decision.failure is None:
            raise CallRejected(decision.status)
        raise CallRejected(decision.status, "webhook_failed", decision.failure)


def _details_of(request: Request, trunk: Trunk) -> CallDetails:
    callee = callee_of(request)
    return CallDetails(trunk, caller_of(request, trunk), callee, metadata_of(request, trunk), trunk.rule_for(callee))
