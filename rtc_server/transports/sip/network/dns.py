"""Names through DNS: SRV by dnspython, addresses as the system resolves them, with its hosts file."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

import dns.asyncresolver
import dns.exception
import dns.resolver

from rtc_server.log import get_logger
from rtc_server.transports.sip.network.resolve import ServerRecord

DNS_TIMEOUT_S = 4.0
"""Of one question."""

logger = get_logger(__name__)


class DnsResolver:
    """A `Resolver`."""

    async def servers(self, name: str) -> Sequence[ServerRecord]:
        try:
            answer = await dns.asyncresolver.resolve(name, "SRV", lifetime=DNS_TIMEOUT_S, search=False)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return ()
        except (dns.exception.DNSException, OSError) as error:
            # A name server that does not answer for SRV often does for addresses.
            logger.warning("SRV not looked up", reason=type(error).__name__)
            return ()
        return [
            ServerRecord(item.priority, item.weight, item.target.to_text(omit_final_dot=True).rstrip("."), item.port)
            for item in answer
        ]

    async def addresses(self, host: str) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(DNS_TIMEOUT_S):
            try:
                found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except UnicodeError as error:  # a label that is empty or too long
                raise OSError("this is no name") from error
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))
