"""Which transaction a message belongs to (RFC 3261 sections 17.1.3, 17.2.3 and 8.2.2.2), and which way its answer goes
(section 18.2.2, RFC 3581)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from rtc_server.transports.sip.flow import DEFAULT_PORT, Flow
from rtc_server.transports.sip.message.headers import CSeq, NameAddr, Via
from rtc_server.transports.sip.message.message import Headers, Request, Response

MAGIC_COOKIE = "z9hG4bK"
"""What a branch begins with that is different for each transaction; those of RFC 2543 are not."""

Key = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request, as far as matching needs it."""

    key: Key
    """Of its transaction; the ACK to a refusal has that of its INVITE."""
    cancels: Key
    """Of the INVITE that this is the CANCEL of, if it is one."""
    merge_key: Key | None
    """Equal in requests that are one, come on two ways. None: that cannot be."""
    back: Flow
    """The way of its responses."""
    identity: str
    """The same for each repetition, for the CANCEL too, and for nothing else."""


def arrived(request: Request, flow: Flow) -> Arrival:
    """Read what identifies a request, and note in its topmost Via where it came from.

    Raises: ValueError where a header that every request has is missing or malformed, or CSeq names another method.
    """
    headers = request.headers
    via, back = _note_source(headers, flow)
    cseq = CSeq.parse(_required(headers, "CSeq"))
    if cseq.method != request.method:
        raise ValueError("CSeq names another method")
    call_id = _required(headers, "Call-ID")
    from_tag = NameAddr.parse(_required(headers, "From")).params.get("tag")
    to_tag = NameAddr.parse(_required(headers, "To")).params.get("tag")
    branch = via.params.get("branch") or ""
    sent_by = f"{via.host.lower()}:{via.port or ''}"
    same: Key = (branch, sent_by)
    if not branch.startswith(MAGIC_COOKIE):
        # Section 17.2.3, second half. The To tag is left out: the ACK to a refusal has one that its INVITE had not.
        same = (branch, sent_by, request.uri, call_id, from_tag, cseq.number)
    outside_dialog = to_tag is None and request.method not in ("ACK", "CANCEL")
    return Arrival(
        key=(*same, "INVITE" if request.method == "ACK" else request.method),
        cancels=(*same, "INVITE"),
        merge_key=(call_id, from_tag, cseq.number, cseq.method) if outside_dialog else None,
        back=back,
        identity="\0".join((branch, sent_by, call_id, from_tag or "", str(cseq.number))),
    )


def way_back(request: Request, flow: Flow) -> Flow:
    """The way of its responses; notes in its topmost Via where it came from.

    Raises: ValueError without a Via that can be read.
    """
    return _note_source(request.headers, flow)[1]


def client_key(branch: str, method: str) -> Key:
    return branch, method


def key_of_response(response: Response) -> Key:
    """The `client_key` of the request that is answered.

    Raises: ValueError for a response that is malformed, or meant for someone before us (section 8.1.3.3).
    """
    headers = response.headers
    vias = headers.all("Via")
    if len(vias) != 1:
        raise ValueError("a response with more than one Via, or none")
    NameAddr.parse(_required(headers, "To"))  # what an ACK and a dialog are made of
    return client_key(Via.parse(vias[0]).params.get("branch") or "", CSeq.parse(_required(headers, "CSeq")).method)


def _note_source(headers: Headers, flow: Flow) -> tuple[Via, Flow]:
    """The topmost Via, and where responses go: the source where the sender asks for that with `rport`, else the port
    that it names."""
    vias = headers.all("Via")
    if not vias:
        raise ValueError("no Via")
    via = Via.parse(vias[0])
    host, port = flow.remote
    params = dict(via.params)
    symmetric = "rport" in params
    if symmetric:
        params["rport"] = str(port)
    if symmetric or via.host.strip("[]").lower() != host:
        params["received"] = host
    headers.set("Via", *(str(replace(via, params=params)), *vias[1:]))
    if flow.reliable or symmetric:
        return via, flow
    return via, replace(flow, remote=(host, via.port or DEFAULT_PORT[flow.transport]))


def _required(headers: Headers, name: str) -> str:
    value = headers.get(name)
    if value is None:
        raise ValueError(f"no {name}")
    return value
