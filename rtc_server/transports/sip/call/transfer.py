"""Hands a call on to someone else: a blind transfer (RFC 3515, RFC 3892)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial

from rtc_server.errors import BadRequest, NotConnected, TransferPending, TransferRefused
from rtc_server.transports.sip.call.answers import refuse
from rtc_server.transports.sip.call.requests import DialogRequests, Guard, Outcome, status_of
from rtc_server.transports.sip.call.surroundings import Surroundings
from rtc_server.transports.sip.message.grammar import parse_params
from rtc_server.transports.sip.message.headers import CSeq, NameAddr, SipUri
from rtc_server.transports.sip.message.message import Request
from rtc_server.transports.sip.transaction.base import Failure, ServerTransaction
from rtc_server.transports.sip.transaction.timers import Timer

_STATUS_LINE = re.compile(r"SIP/2\.0 ([1-6][0-9]{2})(?: |\r|\n|$)")
_SAFE = re.compile(r"[!-~]+")
_TEL = re.compile(r"tel:\+?[0-9A-Za-z().*#_-]{1,64}")
_MAX_URI_CHARS = 255


class Transfer:
    """Asks the other end to call someone else. One at a time.

    Args:
        tell: the call's feed.
        end: ends the call, with the reason, when the transfer has succeeded, or nothing is heard of it any more.
    """

    def __init__(
        self,
        around: Surroundings,
        requests: DialogRequests,
        guard: Guard,
        tell: Callable[..., None],
        end: Callable[[str], None],
    ) -> None:
        self.accepted = False
        """The other end has taken it on: when it hangs up now, this is why."""
        self._around = around
        self._requests = requests
        self._guard = guard
        self._tell = tell
        self._end = end
        self._asked: asyncio.Future[None] | None = None
        self._refer: Request | None = None
        """The last one."""
        self._told: set[int] = set()
        """Of the transfer that goes on: many tell of it what their 202 has said."""
        self._deadline: Timer | None = None

    async def to(self, target: str) -> None:
        """Returns when the other end has taken it on; what becomes of it is told on the feed.

        Raises: BadRequest, NotConnected, TransferPending, TransferRefused.
        """
        uri = checked_uri(target)
        if self._asked is not None or self.accepted:
            raise TransferPending(
                "this call is being transferred already", hint="wait until its feed says how that has gone"
            )
        self._told.clear()
        self._asked = asked = asyncio.get_running_loop().create_future()
        referred_by = f"<{NameAddr.parse(self._requests.dialog.local).uri}>"
        headers = [("Refer-To", f"<{uri}>"), ("Referred-By", referred_by)]
        self._refer = self._requests.send("REFER", self._on_outcome, headers=headers)
        try:
            await asked
        finally:
            self._asked = None

    def on_notify(self, transaction: ServerTransaction, request: Request) -> None:
        """How the call to the third party goes, as the first line of a response (RFC 3515 section 2.4.5)."""
        match = _STATUS_LINE.match(request.body.decode("ascii", "replace"))
        try:
            expected = (self.accepted or self._asked is not None) and self._is_of_refer(request)
        except ValueError:
            refuse(transaction, 400)
            return
        if not expected:
            refuse(transaction, 481)
            return
        if request.body and match is None:
            refuse(transaction, 400)
            return
        transaction.respond(transaction.reply(200))
        if match is not None:
            self._on_progress(int(match[1]))

    def stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._asked is not None and not self._asked.done():
            ended = NotConnected("this call has ended meanwhile", hint="an ended call can only be looked at")
            self._asked.set_exception(ended)

    def _is_of_refer(self, notify: Request) -> bool:
        """Of the last one, and not of one before: the id is its CSeq, and may be left out (RFC 3515 section 2.4.6).

        Raises: ValueError.
        """
        name, semicolon, rest = (notify.headers.get("Event") or "").partition(";")
        if name.strip(" \t").lower() != "refer" or self._refer is None:
            return False
        subscription = parse_params(semicolon + rest).get("id")
        return subscription in (None, str(CSeq.parse(self._refer.headers.get("CSeq") or "").number))

    def _on_outcome(self, outcome: Outcome) -> None:
        status = status_of(outcome)
        asked = self._asked
        if asked is None or asked.done():
            return
        if 200 <= status < 300:
            self._accept()
        else:
            asked.set_exception(_refused(outcome))

    def _accept(self) -> None:
        self.accepted = True
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(None)
        self._tell_once(100)
        expired = partial(self._guard, partial(self._end, "transferred"))
        self._deadline = self._around.timers.after(self._around.settings.transfer_s, expired)

    def _on_progress(self, status: int) -> None:
        if not self.accepted:
            self._accept()  # the NOTIFY was faster than the 202
        if status < 200:
            self._tell_once(status)
        elif status < 300:
            self._tell("transferred", status=status)
            self._end("transferred")
        else:
            self._tell_once(status)
            self.accepted = False
            if self._deadline is not None:
                self._deadline.cancel()

    def _tell_once(self, status: int) -> None:
        if status not in self._told:
            self._told.add(status)
            self._tell("transfer", status=status)


def _refused(outcome: Outcome) -> TransferRefused:
    if isinstance(outcome, Failure):
        found = "gave no answer" if outcome is Failure.TIMEOUT else "cannot be reached"
        return TransferRefused(f"the other end {found}", hint="look at the call: it may have ended")
    hint = "many carriers have to allow transfers (REFER) first"
    return TransferRefused(f"the other end answered {outcome.status}", hint=hint)


def checked_uri(target: str) -> str:
    """A SIP or tel URI that is safe to write into a header. Raises: BadRequest."""
    if len(target) <= _MAX_URI_CHARS and _SAFE.fullmatch(target):
        if _TEL.fullmatch(target):
            return target
        try:
            if SipUri.parse(target).scheme in ("sip", "sips"):
                return target
        except ValueError:
            pass
    hint = "for example +15550100, or sip:+15550100@example.com"
    raise BadRequest(f"{target[:64]!r} is no number, and no SIP or tel URI", hint=hint)
