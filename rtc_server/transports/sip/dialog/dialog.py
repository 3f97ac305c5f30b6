"""A dialog: what two user agents know of each other between the INVITE and the BYE (RFC 3261 section 12). Sans-IO."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Self

from rtc_server.transports.sip.flow import DEFAULT_PORT, Flow
from rtc_server.transports.sip.hosts import is_address, private_network
from rtc_server.transports.sip.message.headers import MAX_FORWARDS, CSeq, NameAddr, SipUri, Via
from rtc_server.transports.sip.message.message import Headers, Request, Response

MAX_ROUTES = 32


@dataclass(frozen=True, slots=True)
class DialogId:
    """Seen from our end (section 12)."""

    call_id: str
    local_tag: str
    remote_tag: str


def id_of_request(request: Request) -> DialogId:
    """Of a request from the other end. Raises: ValueError, where it has no tag of ours or a header is malformed."""
    local, remote = tag_of(request.headers.get("To")), tag_of(request.headers.get("From"))
    if not local:
        raise ValueError("no To tag")
    return DialogId(request.headers.get("Call-ID") or "", local, remote)


def tag_of(value: str | None) -> str:
    """The tag of a From or To; "" where there is none, as in RFC 2543. Raises: ValueError."""
    return NameAddr.parse(value or "").params.get("tag") or ""


class Dialog:
    """One peer's end of a call: tags, CSeq both ways, remote target, route set.

    Args:
        local, remote: From and To of our requests, with their tags.
        target: the remote target, a URI.
        route_set: values for Route, the nearest proxy first.
        flow: where the peer was seen, or where it was called.
        contact: our Contact.
        seen: a request of the peer has come on `flow`.
        behind_nat: the peer writes another address into its messages than the one that it is seen at.
    """

    def __init__(
        self,
        call_id: str,
        local: str,
        remote: str,
        target: str,
        route_set: list[str],
        flow: Flow,
        contact: str,
        *,
        local_cseq: int,
        remote_cseq: int | None = None,
        seen: bool = True,
        behind_nat: bool = False,
    ) -> None:
        self.id = DialogId(call_id, tag_of(local), tag_of(remote))
        self.local = local
        self.remote = remote
        self.target = target
        self.route_set = route_set
        self.flow: Flow | None = flow
        """Where the peer was last seen, until then where it was called; None when that connection is closed."""
        self.contact = contact
        self.local_cseq = local_cseq
        self.remote_cseq = remote_cseq
        self._seen = seen
        self._behind_nat = behind_nat

    @classmethod
    def of_their_invite(cls, invite: Request, local_tag: str, flow: Flow, contact: str) -> Self:
        """As its UAS (section 12.1.1). Raises: ValueError for an INVITE that no dialog can be made of."""
        headers = invite.headers
        to = NameAddr.parse(headers.get("To") or "")
        via = Via.parse(headers.all("Via")[0])
        return cls(
            headers.get("Call-ID") or "",
            local=str(NameAddr(to.uri, to.display, {**to.params, "tag": local_tag})),
            remote=headers.get("From") or "",
            target=_contact_of(invite),
            route_set=_routes(headers.all("Record-Route")),
            flow=flow,
            contact=contact,
            local_cseq=0,
            remote_cseq=CSeq.parse(headers.get("CSeq") or "").number,
            behind_nat=is_address(via.host) and not _is_host(via.host, flow.remote[0]),
        )

    @classmethod
    def of_our_invite(cls, invite: Request, response: Response, flow: Flow) -> Self:
        """As its UAC, by a response with a To tag (section 12.1.2). Raises: ValueError.

        Responses without a good Contact are met, and have to be acknowledged: the target is then that of the INVITE.
        """
        headers = response.headers
        return cls(
            headers.get("Call-ID") or "",
            local=invite.headers.get("From") or "",
            remote=headers.get("To") or "",
            target=_contact_if_any(response) or invite.uri,
            route_set=_routes(headers.all("Record-Route"))[::-1],
            flow=flow,
            contact=invite.headers.get("Contact") or "",
            local_cseq=CSeq.parse(invite.headers.get("CSeq") or "").number,
            seen=False,
        )

    def confirm(self, response: Response) -> None:
        """The 2xx of an early dialog of ours: target and route set are what it says (section 13.2.2.4). Raises:
        ValueError."""
        self.refresh_target(response)
        self.route_set = _routes(response.headers.all("Record-Route"))[::-1]

    # ---- their requests ----------------------------------------------------------------------------------------------

    def receive(self, request: Request, flow: Flow) -> bool:
        """Take notice of a request in this dialog. False: it is out of order, to be answered 500 (section 12.2.2).

        Raises: ValueError.
        """
        number = CSeq.parse(request.headers.get("CSeq") or "").number
        if request.method in ("INVITE", "UPDATE") and request.headers.get("Contact") is not None:
            _contact_of(request)
        if request.method != "ACK":
            if self.remote_cseq is not None and number <= self.remote_cseq:
                return False
            self.remote_cseq = number
        self.flow, self._seen = flow, True
        return True

    def refresh_target(self, message: Request | Response) -> None:
        """A re-INVITE or UPDATE that succeeded, or our own one's 2xx, may name another Contact (section 12.2)."""
        self.target = _contact_if_any(message) or self.target

    # ---- ours --------------------------------------------------------------------------------------------------------

    def request(self, method: str) -> Request:
        """The next request of ours, without body (section 12.2.1.1)."""
        self.local_cseq += 1
        return self._request(method, self.local_cseq)

    def ack(self, invite_cseq: int) -> Request:
        """For the 2xx to our INVITE of this number (section 13.2.2.4)."""
        return self._request("ACK", invite_cseq)

    def next_hop(self) -> SipUri | None:
        """Where our requests go. None: to `flow`.

        That is the way on which the peer was last seen, for connections, and where the next hop's URI is at the same
        host, or is no good: an address of a private network, or one behind a NAT. The others follow the RFC, and so do
        all whom we have called and who have asked nothing yet: nothing is known of them but what they say.

        Raises: ValueError, where there is no flow and the URI is malformed.
        """
        text = NameAddr.parse(self.route_set[0]).uri if self.route_set else self.target
        if self.flow is None:
            return SipUri.parse(text)
        try:
            uri = SipUri.parse(text)
        except ValueError:
            return None
        if self.flow.reliable or (_same_host if self._seen else _same_place)(uri, self.flow):
            return None
        if self._behind_nat and not self.route_set:
            return None
        return uri if _is_reachable(uri.host, self.flow.remote[0]) else None

    def _request(self, method: str, cseq: int) -> Request:
        uri, routes = self.target, list(self.route_set)
        if routes and "lr" not in SipUri.parse(NameAddr.parse(routes[0]).uri).params:
            # Strict routing of RFC 2543 (section 12.2.1.1).
            uri, routes = NameAddr.parse(routes[0]).uri, [*routes[1:], f"<{self.target}>"]
        headers = Headers()
        for route in routes:
            headers.add("Route", route)
        headers.add("Max-Forwards", MAX_FORWARDS)
        headers.add("From", self.local)
        headers.add("To", self.remote)
        headers.add("Call-ID", self.id.call_id)
        headers.add("CSeq", f"{cseq} {method}")
        headers.add("Contact", self.contact)
        return Request(method, uri, headers, b"")


def _contact_of(message: Request | Response) -> str:
    contacts = message.headers.all("Contact")
    if len(contacts) != 1:
        raise ValueError(f"{len(contacts)} Contact headers")
    uri = NameAddr.parse(contacts[0]).uri
    if SipUri.parse(uri).scheme.lower() not in ("sip", "sips"):
        raise ValueError("a Contact that is no SIP URI")
    return uri


def _contact_if_any(message: Request | Response) -> str | None:
    """None, where it is missing or no good."""
    try:
        return _contact_of(message)
    except ValueError:
        return None


def _routes(values: list[str]) -> list[str]:
    if len(values) > MAX_ROUTES:
        raise ValueError(f"{len(values)} Record-Route headers")
    for value in values:
        SipUri.parse(NameAddr.parse(value).uri)
    return values


def _same_host(uri: SipUri, flow: Flow) -> bool:
    return _is_host(uri.host, flow.remote[0])


def _same_place(uri: SipUri, flow: Flow) -> bool:
    """Of a flow over UDP."""
    spoken = (uri.scheme, (uri.params.get("transport") or "udp").lower())
    return spoken == ("sip", "udp") and _same_host(uri, flow) and (uri.port or DEFAULT_PORT["udp"]) == flow.remote[1]


def _is_host(host: str, address: str) -> bool:
    return host.strip("[]").lower() == address.lower()


def _is_reachable(host: str, seen_at: str) -> bool:
    """A name, or an address of the kind that the peer is seen at."""
    if not is_address(host):
        return not host.lower().endswith(".invalid")
    address, seen = ipaddress.ip_address(host.strip("[]")), ipaddress.ip_address(seen_at.partition("%")[0])
    if address.version != seen.version or address.is_unspecified or address.is_multicast:
        return False
    network = private_network(str(address))
    return network is None or seen in network
