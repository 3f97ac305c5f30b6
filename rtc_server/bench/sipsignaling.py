"""INVITE and BYE: as much of a phone's signalling as a call needs (RFC 3261). No registration, and no passwords."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time

from rtc_server.errors import ConfigError, PeerError
from rtc_server.transports.sip.dialog.dialog import Dialog
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.hosts import host_and_port
from rtc_server.transports.sip.message.headers import MAX_FORWARDS, SipUri
from rtc_server.transports.sip.message.message import Headers, Request, Response, SipParseError, parse
from rtc_server.transports.sip.network.listenon import ListenOn
from rtc_server.transports.sip.network.network import SipNetwork
from rtc_server.transports.sip.network.target import Target
from rtc_server.transports.sip.timerloop import TimerLoop
from rtc_server.transports.sip.transaction.base import Failure, ServerTransaction
from rtc_server.transports.sip.transaction.layer import Transactions
from rtc_server.transports.sip.transaction.timers import Timers

ANSWER_TIMEOUT_S = 15.0
HANG_UP_TIMEOUT_S = 5.0
CALLER = "bench"
GRANTED = ("BYE", "OPTIONS", "UPDATE")


class SipSignaling:
    """One user agent for all calls.

    Args:
        url: whom to call, such as ``sip:100@192.0.2.1:5060;transport=tcp``.

    Raises: ConfigError for a URL that is none.
    """

    def __init__(self, url: str) -> None:
        self._uri = url
        self._target = target_of(url)
        timers = Timers(time.monotonic)
        self._timer_loop = TimerLoop(timers)
        family = "::" if ":" in self._target.host else "0.0.0.0"
        self._network = SipNetwork([ListenOn("udp", family, 0)], self._on_message, self._on_closed)
        self._transactions = Transactions(
            self._network.send, timers, self._on_request, _ignore_ack, sent_by=self._network.sent_by
        )
        self._open_flow: Flow | None = None

    async def start(self) -> None:
        """Raises: PeerError where no way leads to the server."""
        self._timer_loop.start()
        await self._network.start()
        try:
            self._open_flow = await self._network.connect(self._target)
        except OSError as error:
            raise PeerError(f"cannot reach {self._uri}: {error}", hint="is the server running there?") from None

    async def close(self) -> None:
        """To be called when every call is hung up."""
        self._transactions.close()
        self._timer_loop.stop()
        await self._network.close()

    @property
    def local_host(self) -> str:
        """The address of this machine that the server sees."""
        return self._network.contact(self._flow)[0]

    async def invite(self, offer: bytes) -> tuple[Dialog, bytes]:
        """Call, let it ring, and acknowledge the 200. Returns: the dialog, and the answer to `offer`.

        Raises: PeerError when the server is silent, or refuses.
        """
        attempt = _Attempt(self._transactions, self._invite(offer), self._flow)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await attempt.answered
        except TimeoutError:
            raise PeerError(
                f"{self._uri} has not taken the call within {ANSWER_TIMEOUT_S:g} s", hint="is the server running there?"
            ) from None
        finally:
            attempt.give_up()

    async def hang_up(self, dialog: Dialog) -> None:
        """End a call; a server that does not answer is left to its timeouts."""
        over = asyncio.Event()
        self._transactions.request(
            dialog.request("BYE"), self._flow, lambda response: over.set(), lambda failure: over.set()
        )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), HANG_UP_TIMEOUT_S)

    @property
    def _flow(self) -> Flow:
        assert self._open_flow is not None, "not started"
        return self._open_flow

    def _invite(self, offer: bytes) -> Request:
        transport = self._flow.transport
        ourselves = f"{CALLER}@{host_and_port(*self._network.contact(self._flow))}"
        headers = Headers()
        headers.add("Max-Forwards", MAX_FORWARDS)
        headers.add("From", f"<sip:{ourselves}>;tag={secrets.token_hex(8)}")
        headers.add("To", f"<{self._uri}>")
        headers.add("Call-ID", secrets.token_hex(16))
        headers.add("CSeq", "1 INVITE")
        headers.add(
            "Contact", f"<sip:{ourselves}>" if transport == "udp" else f"<sip:{ourselves};transport={transport}>"
        )
        headers.add("Content-Type", "application/sdp")
        return Request("INVITE", self._uri, headers, offer)

    def _on_message(self, data: bytes, flow: Flow) -> None:
        with contextlib.suppress(SipParseError):  # as good as no answer
            self._transactions.receive(parse(data), flow)

    def _on_closed(self, flow: Flow) -> None:
        self._transactions.on_transport_error(flow)

    def _on_request(self, transaction: ServerTransaction, request: Request) -> None:
        """A call that the server ends shows in the figures: nothing comes any more."""
        transaction.respond(transaction.reply(200 if request.method in GRANTED else 501))


class _Attempt:
    """One INVITE on its way to an answer."""

    def __init__(self, transactions: Transactions, invite: Request, flow: Flow) -> None:
        self.answered: asyncio.Future[tuple[Dialog, bytes]] = asyncio.get_running_loop().create_future()
        self._transactions = transactions
        self._invite = invite
        self._flow = flow
        self._transaction = transactions.invite(invite, flow, self._on_response, self._on_failure)

    def give_up(self) -> None:
        """Without effect once there is an answer."""
        self._transaction.cancel()

    def _on_response(self, response: Response) -> None:
        if response.status < 200:
            return
        if response.status >= 300:
            self._fail(f"the server refused the call: {response.status} {response.reason}", _why(response))
            return
        try:
            dialog = Dialog.of_our_invite(self._invite, response, self._flow)
            self._transactions.send_ack(dialog.ack(dialog.local_cseq), self._flow)
        except ValueError as error:
            self._fail(f"the server's 200 is malformed: {error}")
            return
        if not self.answered.done():
            self.answered.set_result((dialog, response.body))
        elif self.answered.cancelled():  # nobody waits for this call any more
            self._transactions.request(dialog.request("BYE"), self._flow, lambda _: None, lambda _: None)

    def _on_failure(self, failure: Failure) -> None:
        self._fail(f"the call came to nothing: {failure.name.lower()}")

    def _fail(self, message: str, hint: str = "") -> None:
        if not self.answered.done():
            self.answered.set_exception(PeerError(message, hint=hint))


def target_of(url: str) -> Target:
    """Raises: ConfigError when it is no SIP URI."""
    try:
        return Target.of_uri(SipUri.parse(url))
    except ValueError as error:
        raise ConfigError(f"--url {url!r}: {error}", hint="for example sip:100@127.0.0.1:5060") from None


def _why(response: Response) -> str:
    return response.headers.get("Warning") or response.headers.get("Reason") or ""


def _ignore_ack(_ack: Request, _flow: Flow) -> None:
    """Of a call to us, and there is none."""
