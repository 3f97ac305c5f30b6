"""One phone call, as the rest of the server and its applications see it."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Literal

from rtc_server import events, metrics
from rtc_server.engine.stepper import SessionPrompt
from rtc_server.errors import BadRequest, ClientError, NotConnected, TransferRefused
from rtc_server.events import Numbered
from rtc_server.log import get_logger
from rtc_server.transports.sip.call import digits
from rtc_server.transports.sip.call.callmedia import CallMedia
from rtc_server.transports.sip.call.credentials import Credentials
from rtc_server.transports.sip.call.endreason import MAX_DETAIL_CHARS, reason_header
from rtc_server.transports.sip.call.established import Established
from rtc_server.transports.sip.call.feed import CallFeed
from rtc_server.transports.sip.call.path import Path
from rtc_server.transports.sip.call.requests import DialogRequests
from rtc_server.transports.sip.call.surroundings import Surroundings
from rtc_server.transports.sip.dialog.dialog import Dialog, DialogId, id_of_request
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.message.message import Request
from rtc_server.transports.sip.transaction.base import ServerTransaction
from rtc_server.transports.sip.trunk.numbers import NumberRule
from rtc_server.transports.sip.trunk.trunks import Trunk

REFER_EXPIRES_S = 180

_LINES = {
    "held": "call held",
    "resumed": "call resumed",
    "transfer": "transfer goes on",
    "transferred": "transfer has worked",
}
"""Of the log, for what the feed tells."""

log = get_logger(__name__)


class CallState(Enum):
    CALLING = "calling"
    """Ours, and nothing is heard yet."""
    RINGING = "ringing"
    ANSWERED = "answered"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class CallDetails:
    trunk: Trunk
    caller: str | None
    """A number, or the user part of a SIP URI. None: withheld. Untrusted, unless the trunk vouches for it."""
    callee: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Untrusted text from the other end's headers."""
    rule: NumberRule | None = None
    """Of the number that was called; None for calls of ours."""


class CallObserver(ABC):
    """Keeps the calls."""

    @abstractmethod
    def on_dialog(self, call: Call, dialog_id: DialogId) -> None:
        """The call has this dialog from now on."""

    @abstractmethod
    def on_ended(self, call: Call) -> None:
        """Its slot and its ports are given back."""

    @abstractmethod
    def on_over(self, call: Call) -> None:
        """It has nothing more to say to the other end either."""

    @abstractmethod
    def on_refer(self, call: Call, transaction: ServerTransaction, request: Request) -> None:
        """The other end wants us to call someone else: it is answered."""


class Call(ABC):
    """Owns its dialog and its media; whichever ends first ends the other. One way out: `end`, from any state.

    Event loop's thread only. No method raises because of what the other end does.
    """

    direction: Literal["inbound", "outbound"]

    def __init__(self, around: Surroundings, details: CallDetails, observer: CallObserver, state: CallState) -> None:
        self.id = f"call_{secrets.token_urlsafe(12)}"
        self.trunk = details.trunk
        self.caller = details.caller
        self.callee = details.callee
        self.metadata = dict(details.metadata)
        self.rule = details.rule
        self.prompt: SessionPrompt | None = None
        """Who speaks here; None until it is decided."""
        self.state = state
        self.session_id: str | None = None
        self.started_s = around.clock()
        self.end_reason: str | None = None
        self.end_detail: str | None = None
        """What more is known of it: a status, what is wrong with a session description, or words of a stranger."""
        self.ended_s: float | None = None
        self.feed = CallFeed()
        self._around = around
        self._observer = observer
        self._media: CallMedia | None = None
        self._dialogs: dict[DialogId, DialogRequests] = {}
        """More than one where an INVITE of ours was forked."""
        self._requests: DialogRequests | None = None
        """In the dialog that counts: of the branch that has answered, until then of the first that rings."""
        self._established: Established | None = None
        self._flow: Flow | None = None

    @property
    def has_ended(self) -> bool:
        return self.state is CallState.ENDED

    @property
    def dialog_ids(self) -> Collection[DialogId]:
        """Of all dialogs that this call has had."""
        return self._dialogs.keys()

    # ---- for applications --------------------------------------------------------------------------------------------

    def hangup(self, reason: str = "hangup") -> None:
        self.end(reason)

    async def transfer(self, target_uri: str) -> None:
        """Hand the other end on to someone else. Returns when it agrees to try; the feed tells how it goes, and the
        call ends by itself when it has worked.

        Raises: BadRequest, NotConnected, TransferPending, TransferRefused.
        """
        self._check_not_ended()
        if self.state is not CallState.ANSWERED or self._established is None:
            raise NotConnected("this call is not answered", hint="transfer it when its feed says `answered`")
        log.info("transfer asked for", call_id=self.id)
        try:
            await self._established.transfer.to(target_uri)
        except (ClientError, TransferRefused) as error:
            # The message of a bad request has the number in it.
            reason = error.code if isinstance(error, BadRequest) else error.message
            log.info("transfer refused", call_id=self.id, reason=reason)
            raise

    def send_digits(self, text: str) -> None:
        """Press keys. Raises: BadRequest, NotConnected, DigitsPending."""
        checked = digits.checked(text)
        self._check_not_ended()
        if self.state is not CallState.ANSWERED or self._media is None or self._media.leg is None:
            raise NotConnected("this call is not answered", hint="send digits when its feed says `answered`")
        self._media.leg.send_digits(checked)
        log.debug("digits pressed", call_id=self.id, count=len(checked))  # which ones may be a secret

    def notify(self, refer_cseq: int, status_line: str, *, final: bool) -> None:
        """Tell how a call goes that the other end has referred us to (RFC 3515 section 2.4.4). Nothing is told when
        this call is over."""
        if self._requests is None or self.has_ended:
            return
        headers = [
            ("Event", f"refer;id={refer_cseq}"),
            ("Subscription-State", "terminated;reason=noresource" if final else f"active;expires={REFER_EXPIRES_S}"),
            ("Content-Type", "message/sipfrag;version=2.0"),
        ]
        self._requests.send("NOTIFY", headers=headers, body=f"SIP/2.0 {status_line}\r\n".encode())

    # ---- for the user agent ------------------------------------------------------------------------------------------

    def receive(self, transaction: ServerTransaction, request: Request) -> None:
        """A request in one of this call's dialogs."""
        requests = self._dialogs[id_of_request(request)]
        counts = requests is self._requests
        if self.state is CallState.ENDED or (self._established is not None and not counts):
            self._receive_late(transaction, request)
            return
        try:
            in_order = requests.dialog.receive(request, transaction.flow)
        except ValueError:
            transaction.respond(transaction.reply(400))
            return
        if not in_order:
            transaction.respond(transaction.reply(500))
            return
        if counts:
            self._seen_on(transaction.flow)
        self.guard(lambda: self._receive(transaction, request))
        if not transaction.answered and self.has_ended:
            transaction.respond(transaction.reply(500))  # a defect of ours

    def on_ack(self, ack: Request, flow: Flow) -> None:
        requests = self._dialogs[id_of_request(ack)]
        if requests is not self._requests:
            return
        requests.dialog.flow = flow
        self._seen_on(flow)
        if self._established is not None and self.state is CallState.ANSWERED:
            self._established.on_alive()
        self.guard(lambda: self._on_ack(ack))

    def on_flow_closed(self, flow: Flow) -> None:
        """A connection is gone. The call may go on over another one: ask at once whether it does."""
        were_theirs = [requests for requests in self._dialogs.values() if requests.path.on_flow_closed(flow)]
        was_ours = self._requests in were_theirs
        if was_ours and self._established is not None and self.state is CallState.ANSWERED:
            self.guard(self._established.ask)

    def guard(self, work: Callable[[], None]) -> None:
        """Run a piece of this call's work. A defect ends this call, and nothing else."""
        try:
            work()
        except Exception:
            log.exception("call failed", call_id=self.id)
            self.end("internal_error")

    def end(self, reason: str, *, detail: str | None = None, tell_peer: bool = True) -> None:
        """Free everything, and tell the other end as fits the state, unless it has been the one to end the call."""
        if self.state is CallState.ENDED:
            return
        detail = None if detail is None else detail[:MAX_DETAIL_CHARS]
        was, self.state, self.end_reason = self.state, CallState.ENDED, reason
        self.end_detail, self.ended_s = detail, self._around.clock()
        try:
            if self._established is not None:
                self._established.stop()
            self._say_goodbye(was, reason, tell_peer)
        except Exception:
            log.exception("goodbye failed", call_id=self.id)
            self._over()
        finally:
            if self._media is not None:
                self._media.close(reason)
            metrics.PHONE_CALLS_ENDED.labels(self.direction, reason).inc()
            more = {} if detail is None else {"detail": detail}
            log.info("call ended", call_id=self.id, direction=self.direction, reason=reason, **more)
            self.feed.tell("ended", reason=reason, **more)
            self._observer.on_ended(self)

    # ---- the steps that differ ---------------------------------------------------------------------------------------

    @abstractmethod
    def _receive(self, transaction: ServerTransaction, request: Request) -> None:
        """A request in order, in a dialog that lives."""

    def _receive_late(self, transaction: ServerTransaction, request: Request) -> None:
        """A request in a dialog that is over for us. A BYE has crossed ours (RFC 5407 section 3.2)."""
        hangs_up = request.method == "BYE"
        transaction.respond(transaction.reply(200 if hangs_up else 481))
        if hangs_up and self.has_ended:
            self._over()

    @abstractmethod
    def _on_ack(self, ack: Request) -> None: ...

    @abstractmethod
    def _on_ready(self) -> None:
        """The agent can speak."""

    @abstractmethod
    def _say_goodbye(self, was: CallState, reason: str, tell_peer: bool) -> None:
        """Ends with `_over`, sooner or later."""

    # ---- common steps ------------------------------------------------------------------------------------------------

    def _check_not_ended(self) -> None:
        """Raises: NotConnected."""
        if self.has_ended:
            raise NotConnected(f"this call has ended: {self.end_reason}", hint="an ended call can only be looked at")

    def _seen_on(self, flow: Flow) -> None:
        """Keep the flow that the other end uses."""
        if self._media is not None:
            self._media.peer_host = flow.remote[0]
        if flow != self._flow:
            self._let_go()
            self._flow = flow
            self._around.network.hold(flow)

    def _let_go(self) -> None:
        if self._flow is not None:
            self._around.network.release(self._flow)
            self._flow = None

    def _make_media(self) -> CallMedia:
        media = self._media = CallMedia(
            self._around.media, self.trunk.media, self._hear_session, self._on_leg_closed, self._on_hold
        )
        return media

    def _open_media(self, media: CallMedia, flow: Flow) -> None:
        """Raises: CapacityError."""
        self._seen_on(flow)
        media.open(flow.local[0], self._around.network.contact(flow)[0])

    def _requests_of(self, dialog: Dialog) -> DialogRequests:
        requests = DialogRequests(
            dialog,
            Path(dialog, self._around.network, self._around.tasks),
            self._around.transactions,
            lambda: Credentials(self.trunk, self._is_of_trunk),
            self.guard,
            on_gone=lambda: self._on_gone(requests),
            on_alive=lambda: self._on_alive(requests),
        )
        self._dialogs[dialog.id] = requests
        self._observer.on_dialog(self, dialog.id)
        return requests

    def _establish(self, requests: DialogRequests, media: CallMedia) -> Established:
        self._requests = requests
        self._established = established = Established(
            self._around,
            requests,
            media,
            self.guard,
            self._tell_and_log,
            partial(self._observer.on_refer, self),
            self.end,
            lambda reason, detail: self.end(reason, detail=detail, tell_peer=False),
            owner=self.direction == "outbound",
        )
        return established

    def _is_of_trunk(self, host: str) -> bool:
        """Whether it may be shown that we know the trunk's password. `host`: an address literal, or a name."""
        return self.trunk.owns(host)

    def _bye(self, reason: str) -> None:
        """Say it, and be over when it is answered."""
        if self._requests is None:
            self._over()
            return
        self._requests.send("BYE", lambda outcome: self._over(), headers=[("Reason", reason_header(reason))])

    def _over(self) -> None:
        """May be called again: another branch of a forked INVITE has said goodbye."""
        self._let_go()
        for requests in self._dialogs.values():
            requests.path.close()
        self._observer.on_over(self)

    def _on_gone(self, requests: DialogRequests) -> None:
        """Before the answer the INVITE says itself what becomes of it."""
        if self._established is not None and requests is self._requests:
            self.end("peer_gone")

    def _on_alive(self, requests: DialogRequests) -> None:
        if self._established is not None and requests is self._requests and self.state is CallState.ANSWERED:
            self._established.on_alive()

    def _on_hold(self, held: bool) -> None:
        self._tell_and_log("held" if held else "resumed")

    def _tell_and_log(self, kind: str, **fields: int) -> None:
        self._around.lines.info(self.id, _LINES[kind], self._around.clock(), call_id=self.id, **fields)
        self.feed.tell(kind, **fields)

    def _on_leg_closed(self, reason: str) -> None:
        self.end(reason)

    def _hear_session(self, numbered: Numbered) -> None:
        if self.state is not CallState.ENDED:
            self.guard(lambda: self._tell(numbered.event))

    def _tell(self, event: events.ServerEvent) -> None:
        match event:
            case events.SessionReady():
                self._on_ready()
            case events.ResponseDelta(data=text):
                self.feed.tell("text", text=text)
            case events.InputTranscript(text=text, final=final):
                self.feed.tell("transcript", text=text, final=final)
            case events.Dtmf(digit=digit):
                log.debug("digit heard", call_id=self.id)  # which one may be part of a secret
                self.feed.tell("dtmf", digit=digit)
            case events.BargeIn(audio_ms=audio_ms):
                self.feed.tell("barge_in", audio_ms=audio_ms)
            case _:
                pass
