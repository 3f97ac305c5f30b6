"""Does a STUN or TURN server work, as a caller would find it? For ``rtc-server check``; a running server never asks.

Of a TURN server it wants an allocation with fresh credentials, the right to reach the media server, and refusals for
places that a relay must not lead to. Nothing takes longer than its timeout, whatever server and network do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass

from rtc_server.transports.webrtc.turn import Credential, IceUrl
from rtc_server.transports.webrtc.turnclient import FORBIDDEN, UNAUTHORIZED, Refused, TurnClient

TIMEOUT_S = 4.0
MUST_BE_REFUSED = ("127.0.0.1", "169.254.169.254", "10.255.255.254")
"""The TURN server's own services, where clouds keep their keys, and somebody's inner network."""
_QUOTA = (486, 508)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one address: `found` for people, `advice` what to do when it is not `ok`."""

    url: IceUrl
    ok: bool
    found: str
    advice: str = ""


async def probe_all(
    urls: Sequence[IceUrl],
    credential: Credential | None,
    media_addresses: Sequence[str],
    timeout_s: float = TIMEOUT_S,
    tls: ssl.SSLContext | None = None,
) -> list[Verdict]:
    """All at the same time, in the order of `urls`.

    Args:
        credential: for those that relay.
        media_addresses: of the media server, which relays must reach.
        tls: whom to trust; the system's authorities by default.
    """
    probes = (_probe(url, credential, media_addresses, timeout_s, tls) for url in urls)
    return list(await asyncio.gather(*probes))


async def _probe(
    url: IceUrl,
    credential: Credential | None,
    media_addresses: Sequence[str],
    timeout_s: float,
    tls: ssl.SSLContext | None,
) -> Verdict:
    port = f"{url.transport.upper()} port {url.port}"
    try:
        async with asyncio.timeout(timeout_s):
            client = await TurnClient.connect(url, tls)
            with contextlib.closing(client):
                if url.relays:
                    return await _relay(client, url, credential, media_addresses)
                return Verdict(url, True, f"answers; sees this machine as {await client.binding()}")
    except TimeoutError:
        advice = f"check the address; let {port} through every firewall on the way"
        return Verdict(url, False, f"no answer within {timeout_s:g} s", advice)
    except socket.gaierror as error:
        return Verdict(url, False, f"no address for {url.host}: {error.strerror}", "check name and DNS")
    except ssl.SSLCertVerificationError as error:
        advice = "give the TURN server a certificate for this name, from an authority that browsers know"
        return Verdict(url, False, f"certificate refused: {error.verify_message}", advice)
    except ssl.SSLError as error:
        return Verdict(url, False, f"no TLS: {error.reason}", "check cert and pkey of the TURN server")
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        return Verdict(url, False, f"unreachable: {why}", f"start the TURN server; open {port}")
    except Refused as refusal:
        return _refused(url, refusal)


async def _relay(
    client: TurnClient, url: IceUrl, credential: Credential | None, media_addresses: Sequence[str]
) -> Verdict:
    with contextlib.suppress(Refused):
        await client.allocate(None)
        advice = "let nobody relay without a credential: use-auth-secret in turnserver.conf"
        return Verdict(url, False, "relays for everybody", advice)
    relay = await client.allocate(credential)
    try:
        reachable = [peer for peer in media_addresses if (":" in peer) == (":" in relay)]
        if reachable and not any([await _permits(client, peer) for peer in reachable]):
            advice = f"allow the media server: allowed-peer-ip={reachable[0]} in turnserver.conf"
            return Verdict(url, False, f"relays, but not to this server's {', '.join(reachable)}", advice)
        for peer in MUST_BE_REFUSED:
            if peer not in reachable and await _permits(client, peer):
                advice = "deny all peers but the media server: denied-peer-ip in turnserver.conf"
                return Verdict(url, False, f"relays even to {peer}", advice)
        return Verdict(url, True, f"relays from {relay}")
    finally:
        with contextlib.suppress(Refused):
            await client.release()


async def _permits(client: TurnClient, peer: str) -> bool:
    try:
        await client.permit(peer)
    except Refused as refusal:
        if refusal.code == FORBIDDEN:
            return False
        raise
    return True


def _refused(url: IceUrl, refusal: Refused) -> Verdict:
    if refusal.code == UNAUTHORIZED:
        advice = "give both the same secret; compare their clocks"
        return Verdict(url, False, "wrong secret: it refuses our credential", advice)
    if refusal.code in _QUOTA:
        advice = "wait until calls end, or raise total-quota in turnserver.conf"
        return Verdict(url, False, f"quota reached ({refusal})", advice)
    return Verdict(url, False, f"refuses ({refusal})", "look into the TURN server's log")
