"""What happens within the dialog of a call, from either end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rtc_server.transports.sip.call.answers import describe_us, refuse, refuse_extensions
from rtc_server.transports.sip.call.callmedia import CallMedia
from rtc_server.transports.sip.call.digits import PLAIN, RELAY, digit_of, is_digit_info
from rtc_server.transports.sip.call.endreason import told_by
from rtc_server.transports.sip.call.probe import Probe
from rtc_server.transports.sip.call.renegotiation import Renegotiation
from rtc_server.transports.sip.call.requests import DialogRequests, End, Guard
from rtc_server.transports.sip.call.surroundings import Surroundings
from rtc_server.transports.sip.call.transfer import Transfer
from rtc_server.transports.sip.message.message import Request
from rtc_server.transports.sip.transaction.base import ServerTransaction


class Established:
    """A dialog in use: answers the other end's requests, and watches that it is there.

    Args:
        tell: the call's feed.
        on_refer: answers a REFER.
        end: ends the call.
        on_bye: the other end has ended it: the reason, and what it says about it.
    """

    def __init__(
        self,
        around: Surroundings,
        requests: DialogRequests,
        media: CallMedia,
        guard: Guard,
        tell: Callable[..., None],
        on_refer: Callable[[ServerTransaction, Request], None],
        end: End,
        on_bye: Callable[[str, str | None], None],
        *,
        owner: bool,
    ) -> None:
        self.renegotiation = Renegotiation(around, requests, media, guard, end, owner=owner)
        self.transfer = Transfer(around, requests, guard, tell, end)
        self._around = around
        self._requests = requests
        self._media = media
        self._on_refer = on_refer
        self._on_bye = on_bye
        self._heard_s = around.timers.now_s
        self._probe = Probe(
            around.timers,
            heard_s=lambda: max(self._heard_s, media.last_audio_s),
            patience_s=self._patience_s,
            ask=partial(guard, self.ask),
        )

    def _patience_s(self) -> float:
        settings = self._around.settings
        return settings.quiet_s if self._media.expects_audio else settings.held_quiet_s

    def start(self) -> None:
        self._probe.start()

    def stop(self) -> None:
        self._probe.stop()
        self.renegotiation.stop()
        self.transfer.stop()

    def on_alive(self) -> None:
        """Something was heard of the other end."""
        self._heard_s = self._around.timers.now_s
        self._media.keep_alive()

    def ask(self) -> None:
        """Find out whether the other end is there."""
        self._requests.send("OPTIONS", headers=[("Accept", "application/sdp")])

    def receive(self, transaction: ServerTransaction, request: Request) -> None:
        """A request in the dialog, in order."""
        self.on_alive()
        match request.method:
            case "BYE":
                transaction.respond(transaction.reply(200))
                self._on_bye("transferred" if self.transfer.accepted else "peer_closed", told_by(request))
            case "INVITE":
                self.renegotiation.on_invite(transaction, request)
            case "UPDATE":
                self.renegotiation.on_update(transaction, request)
            case _ if refuse_extensions(transaction, request):
                pass
            case "OPTIONS":
                transaction.respond(describe_us(transaction.reply(200)))
            case "INFO":
                self._on_info(transaction, request)
            case "REFER":
                self._on_refer(transaction, request)
            case "NOTIFY":
                self.transfer.on_notify(transaction, request)
            case "PRACK":
                refuse(transaction, 481)  # nothing of ours waits for it
            case _:
                refuse(transaction, 405)

    def _on_info(self, transaction: ServerTransaction, request: Request) -> None:
        """Digits of phones that send them so; anything else in an INFO is not ours (RFC 6086 section 4.2.2)."""
        if not request.body:
            transaction.respond(transaction.reply(200))
        elif not is_digit_info(request):
            refuse(transaction, 415, Accept=f"{RELAY}, {PLAIN}")
        elif (digit := digit_of(request)) is None:
            refuse(transaction, 400)
        else:
            transaction.respond(transaction.reply(200))
            self._media.digit(digit)
