"""The transaction layer: gives each message to its transaction, and new requests to the core (RFC 3261 section 17).

Sans-IO. Bytes go out by a callable, time comes from `Timers`; whoever reads the sockets calls `receive` and
`on_transport_error`. One thread only.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Callable
from functools import partial

from rtc_server import metrics
from rtc_server.errors import TransactionsFull
from rtc_server.log import get_logger
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.hosts import host_and_port
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.transaction.base import (
    ClientTransaction,
    Failure,
    Layer,
    ServerTransaction,
    State,
    Transaction,
)
from rtc_server.transports.sip.transaction.derived import response_to
from rtc_server.transports.sip.transaction.invite_client import InviteClientTransaction
from rtc_server.transports.sip.transaction.invite_server import InviteServerTransaction
from rtc_server.transports.sip.transaction.matching import (
    MAGIC_COOKIE,
    Arrival,
    Key,
    arrived,
    client_key,
    key_of_response,
    way_back,
)
from rtc_server.transports.sip.transaction.noninvite_client import NonInviteClientTransaction
from rtc_server.transports.sip.transaction.noninvite_server import NonInviteServerTransaction
from rtc_server.transports.sip.transaction.timers import Intervals, Timers

MAX_TRANSACTIONS = 4096
RETRY_AFTER_S = 5

logger = get_logger(__name__)

OnResponse = Callable[[Response], None]
OnFailure = Callable[[Failure], None]


def _random_token() -> str:
    return secrets.token_hex(12)


def _drop(reason: str) -> None:
    metrics.DATAGRAMS_DROPPED.labels(reason).inc()


class Transactions:
    """All transactions of a user agent.

    Args:
        send: puts a message on a flow; may raise OSError.
        on_request: a new request, in a transaction that waits for `respond`. An INVITE that has not been answered when
            this returns gets its 100 (RFC 3261 section 17.2.1 allows 200 ms; a busy event loop would miss them).
            Never called for ACK or CANCEL.
        on_ack: the ACK to a 2xx, or one that belongs to nothing: the dialog decides.
        sent_by: host and port for our Via, where the address of our end of the flow is not what others can reach.
        allow_refusal: whether a request is answered that is refused here, before anybody has asked who sent it. Asked
            once for each, since it counts; where it is not, not a byte goes back.
        limit: of the requests from others, and once more of ours. At the limit a new request takes the place of the
            oldest one that has been answered, and is only kept in case it comes again. Where all wait for their
            answer, or for the ACK to a 2xx, it gets a 503. Of ours, BYE and CANCEL are always sent: they end something.
        random_token: text for branches; must not be guessable.
    """

    def __init__(
        self,
        send: Callable[[bytes, Flow], None],
        timers: Timers,
        on_request: Callable[[ServerTransaction, Request], None],
        on_ack: Callable[[Request, Flow], None],
        *,
        intervals: Intervals | None = None,
        sent_by: Callable[[Flow], str] | None = None,
        allow_refusal: Callable[[Flow], bool] = lambda flow: True,
        limit: int = MAX_TRANSACTIONS,
        random_token: Callable[[], str] = _random_token,
    ) -> None:
        self._send_raw = send
        self._timers = timers
        self._intervals = intervals or Intervals()
        self._on_request = on_request
        self._on_ack = on_ack
        self._sent_by = sent_by or (lambda flow: host_and_port(*flow.local))
        self._allow_refusal = allow_refusal
        self._limit = limit
        self._random_token = random_token
        self._tag_key = random_token().encode()[: hashlib.blake2b.MAX_KEY_SIZE]
        self._clients: dict[Key, ClientTransaction] = {}
        self._servers: dict[Key, ServerTransaction] = {}
        self._answered: dict[Key, ServerTransaction] = {}  # those of the servers that only linger, oldest first
        self._merge_keys: set[Key] = set()
        self._by_flow: dict[Flow, dict[Transaction, None]] = {}  # oldest first

    def __len__(self) -> int:
        """How many are not over."""
        return len(self._clients) + len(self._servers)

    def receive(self, message: Request | Response, flow: Flow) -> None:
        """A message has arrived. Does not raise, whatever it holds: the other calls go on."""
        try:
            if isinstance(message, Request):
                self._receive_request(message, flow)
            else:
                self._receive_response(message)
        except Exception:
            logger.exception("SIP message failed")

    def on_transport_error(self, flow: Flow) -> None:
        """The connection is gone, or the peer cannot be reached: every transaction of this flow fails."""
        for transaction in list(self._by_flow.get(flow, ())):
            try:
                transaction.on_transport_error()
            except Exception:
                # A defect in one call must not keep it from the others of this connection.
                logger.exception("SIP transport error failed")

    def refuse(self, request: Request, flow: Flow, status: int) -> None:
        """Answer a malformed request, as far as it can be read, and keep nothing of it. An ACK has no answer."""
        try:
            if request.method != "ACK":
                self._refuse(request, flow, way_back(request, flow), status, self._tag(request.to_bytes()))
        except ValueError:
            _drop("sip_malformed")

    def invite(
        self, request: Request, flow: Flow, on_response: OnResponse, on_failure: OnFailure
    ) -> InviteClientTransaction:
        """Send an INVITE. Its Via is set here; the user gets what `ClientTransaction` says.

        Raises: TransactionsFull.
        """
        self._check_room()
        branch = self._stamp(request, flow)
        key = client_key(branch, request.method)
        send_cancel = partial(self._send_cancel, branch, flow)
        layer = self._layer(ended=partial(self._forget_client, key))
        transaction = InviteClientTransaction(request, flow, layer, on_response, on_failure, send_cancel)
        self._start(key, transaction)
        return transaction

    def request(
        self, request: Request, flow: Flow, on_response: OnResponse, on_failure: OnFailure
    ) -> NonInviteClientTransaction:
        """Send any other request but ACK and CANCEL. Its Via is set here; the user gets what `ClientTransaction` says.

        Raises: TransactionsFull, but never for a BYE.
        """
        if request.method != "BYE":
            self._check_room()
        key = client_key(self._stamp(request, flow), request.method)
        return self._start_other(key, request, flow, on_response, on_failure)

    def send_ack(self, request: Request, flow: Flow) -> bytes:
        """Send the ACK to a 2xx, which is no transaction. Its Via is set here.

        Returns: what to give to `send` whenever the 2xx arrives again.
        """
        self._stamp(request, flow)
        data = request.to_bytes()
        self.send(data, flow)
        return data

    def send(self, data: bytes, flow: Flow) -> None:
        """Send what belongs to no transaction. What cannot go out is lost."""
        with contextlib.suppress(OSError):
            self._send_raw(data, flow)

    def close(self) -> None:
        """Forget everything, without a word to anyone. May be called twice."""
        for transaction in [*self._clients.values(), *self._servers.values()]:
            transaction.drop()

    def _receive_response(self, response: Response) -> None:
        try:
            transaction = self._clients.get(key_of_response(response))
        except ValueError:
            transaction = None
        if transaction is None:
            # RFC 6026 section 8.9: not for the core either, even if it is a 2xx.
            _drop("sip_stray")
        else:
            transaction.receive(response)

    def _receive_request(self, request: Request, flow: Flow) -> None:
        try:
            arrival = arrived(request, flow)
        except ValueError:
            self.refuse(request, flow, 400)
            return
        known = self._servers.get(arrival.key)
        if request.method == "ACK" and (known is None or known.state is State.ACCEPTED):
            self._on_ack(request, flow)
        elif known is not None:
            known.receive(request)
        elif request.method == "CANCEL":
            self._cancel(request, flow, arrival)
        else:
            self._accept(request, flow, arrival)

    def _cancel(self, request: Request, flow: Flow, arrival: Arrival) -> None:
        """RFC 3261 section 9.2. The CANCEL needs no transaction: its repetition has the same answer."""
        invite = self._servers.get(arrival.cancels)
        # Anyone may send a CANCEL, so it must come from where the INVITE came from (section 22.1).
        if isinstance(invite, InviteServerTransaction) and invite.flow.remote[0] == flow.remote[0]:
            self._reply_once(request, arrival.back, 200, invite.to_tag)
            invite.cancel(request)
        else:
            self._refuse(request, flow, arrival.back, 481, self._tag(arrival.identity))

    def _accept(self, request: Request, flow: Flow, arrival: Arrival) -> None:
        to_tag = self._tag(arrival.identity)
        if arrival.merge_key in self._merge_keys:
            self._refuse(request, flow, arrival.back, 482, to_tag)  # section 8.2.2.2
            return
        if not self._make_room():
            self._refuse(request, flow, arrival.back, 503, to_tag)
            return
        layer = self._layer(
            ended=partial(self._forget_server, arrival), answered=partial(self._on_answered, arrival.key)
        )
        kind = InviteServerTransaction if request.method == "INVITE" else NonInviteServerTransaction
        transaction = kind(request, flow, layer, arrival.back, to_tag)
        self._servers[arrival.key] = transaction
        if arrival.merge_key is not None:
            self._merge_keys.add(arrival.merge_key)
        self._link(transaction)
        self._offer(transaction)

    def _offer(self, transaction: ServerTransaction) -> None:
        try:
            self._on_request(transaction, transaction.request)
        except Exception:
            logger.exception("SIP request failed")
            transaction.respond(transaction.reply(500))
        if isinstance(transaction, InviteServerTransaction):
            transaction.trying()

    def _refuse(self, request: Request, flow: Flow, back: Flow, status: int, to_tag: str) -> None:
        if self._allow_refusal(flow):
            self._reply_once(request, back, status, to_tag)
        else:
            _drop("sip_unanswered")

    def _reply_once(self, request: Request, back: Flow, status: int, to_tag: str) -> None:
        response = response_to(request, status, to_tag)
        if status == 503:
            response.headers.set("Retry-After", str(RETRY_AFTER_S))
        self.send(response.to_bytes(), back)

    def _make_room(self) -> bool:
        if len(self._servers) >= self._limit and self._answered:
            next(iter(self._answered.values())).drop()
        return len(self._servers) < self._limit

    def _check_room(self) -> None:
        if len(self._clients) >= self._limit:
            raise TransactionsFull(f"{self._limit} SIP requests are under way", hint="try again in a minute")

    def _stamp(self, request: Request, flow: Flow) -> str:
        """Set the Via of a request of ours; gives its branch."""
        branch = MAGIC_COOKIE + self._random_token()
        request.headers.set("Via", f"SIP/2.0/{flow.transport.upper()} {self._sent_by(flow)};rport;branch={branch}")
        return branch

    def _send_cancel(self, branch: str, flow: Flow, cancel: Request) -> None:
        """What becomes of the CANCEL does not matter: its INVITE ends one way or the other."""
        self._start_other(client_key(branch, "CANCEL"), cancel, flow, lambda response: None, lambda failure: None)

    def _start_other(
        self, key: Key, request: Request, flow: Flow, on_response: OnResponse, on_failure: OnFailure
    ) -> NonInviteClientTransaction:
        layer = self._layer(ended=partial(self._forget_client, key))
        transaction = NonInviteClientTransaction(request, flow, layer, on_response, on_failure)
        self._start(key, transaction)
        return transaction

    def _start(self, key: Key, transaction: ClientTransaction) -> None:
        self._clients[key] = transaction
        self._link(transaction)
        transaction.start()

    def _layer(self, ended: Callable[[], None], answered: Callable[[], None] = lambda: None) -> Layer:
        return Layer(self._timers, self._intervals, self._send_raw, answered, ended)

    def _on_answered(self, key: Key) -> None:
        self._answered[key] = self._servers[key]

    def _forget_client(self, key: Key) -> None:
        self._unlink(self._clients.pop(key))

    def _forget_server(self, arrival: Arrival) -> None:
        self._answered.pop(arrival.key, None)
        if arrival.merge_key is not None:
            self._merge_keys.discard(arrival.merge_key)
        self._unlink(self._servers.pop(arrival.key))

    def _link(self, transaction: Transaction) -> None:
        self._by_flow.setdefault(transaction.way_out, {})[transaction] = None

    def _unlink(self, transaction: Transaction) -> None:
        of_flow = self._by_flow[transaction.way_out]
        del of_flow[transaction]
        if not of_flow:
            del self._by_flow[transaction.way_out]

    def _tag(self, identity: str | bytes) -> str:
        """A To tag: nobody can guess it, and the same request gets the same one (RFC 3261 sections 8.2.7, 19.3)."""
        data = identity if isinstance(identity, bytes) else identity.encode()
        return hashlib.blake2b(data, key=self._tag_key, digest_size=8).hexdigest()
