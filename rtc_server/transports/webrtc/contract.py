"""Everything that this server takes from aiortc beyond its public classes stands here, and nowhere else.

| private name | class | why |
|---|---|---|
| `_recv`, `_send` called on the ICE transport | RTCDtlsTransport | our own object takes the ICE transport's place |
| `_rx_srtp`, `_tx_srtp` | RTCDtlsTransport | there is no public way to the SRTP sessions |
| `_send_data` | RTCDtlsTransport | never twice an SCTP INIT, nothing too long, nothing once DTLS has ended |
| `_create_ssl_context` | RTCCertificate | peers with an RSA certificate; nothing older than DTLS 1.2 |
| `_handle_data` | RTCSctpTransport | to guard against a late INIT and malformed packets |
| `_rto`, `_update_rto`, `_srtt`, `_rttvar` | RTCSctpTransport | timers fit for live events: 1 s at least is too slow |
| `_advertised_rwnd`, `_sack_misordered`, `_data_channels` | RTCSctpTransport | bounds on what a peer may make it keep |

The pin is ``aiortc==1.16.*``; `missing_names` says which of these a new version has moved.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from aiortc import RTCCertificate, RTCDtlsTransport, RTCSctpTransport
from OpenSSL import SSL

from rtc_server import metrics

if TYPE_CHECKING:
    from pylibsrtp import Session

RTO_INITIAL_S = 0.5
RTO_MIN_S = 0.2
RTO_MAX_S = 10.0
"""aiortc: 3 s before the first measurement, at least 1 s afterwards. Browsers use 0.4 s and 1 s at least."""

MAX_PACKET_BYTES = 1189
"""Of SCTP. With DTLS (37 bytes), UDP and IPv6 that is 1274 bytes of the 1280 which every IPv6 path carries, and TURN's
ChannelData still has room. aiortc cuts messages to it; only a peer that makes up gaps by the hundred gets longer SACKs.
"""

MAX_MISORDERED_CHUNKS = 2048
MAX_DATA_CHANNELS = 16

_INIT_CHUNK = 1
_SCTP_HEADER_BYTES = 12

_CIPHERS = (
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:"
    "ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES128-SHA:"
    "ECDHE-ECDSA-AES256-SHA:ECDHE-RSA-AES256-SHA"
)
"""aiortc's, each with its RSA twin: the suite names the certificate of the DTLS server, which may be the peer."""

_DTLS_1_2 = 0xFEFD
"""On the wire, and in OpenSSL (RFC 6347 section 4.1); pyOpenSSL has no name for it."""

_DTLS_NAMES = ("_rx_srtp", "_tx_srtp", "_send_data")
_CERTIFICATE_NAMES = ("_create_ssl_context",)
_SCTP_NAMES = (
    "_handle_data",
    "_rto",
    "_update_rto",
    "_srtt",
    "_rttvar",
    "_advertised_rwnd",
    "_sack_misordered",
    "_data_channels",
)


class IceTransport(Protocol):
    """What RTCDtlsTransport uses of an ICE transport."""

    @property
    def role(self) -> str: ...

    async def _recv(self) -> bytes: ...

    async def _send(self, data: bytes) -> None: ...


class RecordSender(IceTransport, Protocol):
    def next_record_once(self) -> None:
        """The next application record must not be sent twice."""


class Certificate(RTCCertificate):
    """Ours, on ECDSA P-256, which takes peers with an RSA certificate too. Made by `generateCertificate`."""

    def _create_ssl_context(self, srtp_profiles: list[Any]) -> SSL.Context:
        context = super()._create_ssl_context(srtp_profiles)
        context.set_cipher_list(_CIPHERS.encode())
        context.set_min_proto_version(_DTLS_1_2)
        return context


class SecureTransport(RTCDtlsTransport):
    """DTLS over an ICE transport of our own, with the SRTP sessions readable."""

    def __init__(self, transport: RecordSender, certificate: RTCCertificate) -> None:
        super().__init__(transport, [certificate])  # type: ignore[arg-type]
        self._record_sender = transport

    @property
    def rx_srtp(self) -> Session | None:
        """Unprotects what the peer sends; None before the handshake is done."""
        return self._rx_srtp

    @property
    def tx_srtp(self) -> Session | None:
        return self._tx_srtp

    async def _send_data(self, data: bytes) -> None:
        if self.state != "connected":
            # SCTP's timers learn only afterwards that DTLS has ended; raising in their tasks would help nobody.
            return
        if len(data) > MAX_PACKET_BYTES:
            metrics.DATAGRAMS_DROPPED.labels("sctp_oversize").inc()
            return
        if is_init(data):
            self._record_sender.next_record_once()
        # SSL.Error: the peer's close_notify is in, and aiortc has not said so yet.
        with contextlib.suppress(ConnectionError, SSL.Error):
            await super()._send_data(data)


class EventSctp(RTCSctpTransport):
    """SCTP that stays up whatever the peer sends, with timers quick enough for live events."""

    def __init__(self, transport: SecureTransport) -> None:
        super().__init__(transport)
        self._rto: float = RTO_INITIAL_S

    @property
    def overrun(self) -> bool:
        """The peer keeps more open than any honest peer does."""
        return (
            self._advertised_rwnd < 0
            or len(self._sack_misordered) > MAX_MISORDERED_CHUNKS
            or len(self._data_channels) > MAX_DATA_CHANNELS
        )

    async def _handle_data(self, data: bytes) -> None:
        # aiortc obeys an INIT in every state, and forgets what it has received: one that comes late, after the
        # association is up by the other end's INIT, would stop inbound data for good.
        if self.state == "connected" and is_init(data):
            return
        try:
            await super()._handle_data(data)
        except Exception:
            # Malformed chunks end in assertions, index errors and the like; to the peer it is a lost packet.
            metrics.DATAGRAMS_DROPPED.labels("bad_sctp").inc()
        if self.overrun:
            metrics.DATAGRAMS_DROPPED.labels("sctp_overrun").inc()
            await self.stop()

    def _update_rto(self, R: float) -> None:  # noqa: N803 - the name of the base class
        super()._update_rto(R)
        if self._srtt is not None and self._rttvar is not None:
            self._rto = max(RTO_MIN_S, min(self._srtt + 4 * self._rttvar, RTO_MAX_S))


def is_init(packet: bytes) -> bool:
    """An SCTP packet whose first chunk is INIT (RFC 9260 section 3.3.2: it stands alone)."""
    return len(packet) > _SCTP_HEADER_BYTES and packet[_SCTP_HEADER_BYTES] == _INIT_CHUNK


def missing_names(transport: RecordSender) -> Sequence[str]:
    """Private names of the table above that the installed aiortc does not have, as ``Class.name``."""
    dtls = RTCDtlsTransport(transport, [RTCCertificate.generateCertificate()])  # type: ignore[arg-type]
    missing = [f"RTCDtlsTransport.{name}" for name in _DTLS_NAMES if not hasattr(dtls, name)]
    missing += [f"RTCCertificate.{name}" for name in _CERTIFICATE_NAMES if not hasattr(RTCCertificate, name)]
    sctp = RTCSctpTransport(dtls)
    missing += [f"RTCSctpTransport.{name}" for name in _SCTP_NAMES if not hasattr(sctp, name)]
    used = inspect.getsource(RTCDtlsTransport)
    missing += [
        f"RTCDtlsTransport: transport.{name}" for name in ("_recv", "_send", "role") if f"transport.{name}" not in used
    ]
    return missing
