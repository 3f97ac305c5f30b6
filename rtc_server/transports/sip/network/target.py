"""Where a request is to go, before it is known which address that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from rtc_server.transports.sip.flow import Transport, transport_named
from rtc_server.transports.sip.message.headers import SipUri


@dataclass(frozen=True, slots=True)
class Target:
    transport: Transport
    host: str
    """A name without a final dot, or an address without brackets. Over TLS the certificate must be made out to it (RFC
    5922)."""
    port: int | None = None
    """None: as DNS says, else the one of the transport."""

    @classmethod
    def of_uri(cls, uri: SipUri) -> Self:
        """RFC 3263 section 4.1 without NAPTR: UDP, unless the URI says otherwise.

        Raises: ValueError for a transport that is not spoken here, or a URI of another scheme.
        """
        scheme = uri.scheme.lower()
        if scheme not in ("sip", "sips"):
            raise ValueError(f"nothing is sent to a {scheme} URI")
        transport = transport_named(uri.params.get("transport") or "udp")
        if scheme == "sips":
            # The parameter names what is under TLS (RFC 3261 section 26.2.2); TLS over UDP is not spoken.
            transport = "tls"
        return cls(transport, uri.host.strip("[]").removesuffix("."), uri.port)
