"""The socket of a call, or one sentence that says why there is none."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence

import aiohttp

from rtc_server.errors import ConfigError, PeerError
from rtc_server.talk.address import Address
from rtc_server.talk.protocol import CallProtocol

Socket = aiohttp.ClientWebSocketResponse

ANSWER_WITHIN_S = 15.0
HEARTBEAT_S = 10.0
"""A server that answers no ping for half of this is gone."""
MOST_MESSAGE_BYTES = 4 << 20
_NO_SUCH_SOCKET = {200, 204, 301, 302, 307, 308, 404, 405, 426, 501}
"""Answers of a server that is there, but has no socket of this path."""


async def connect(
    http: aiohttp.ClientSession,
    address: Address,
    protocols: Sequence[CallProtocol],
    token: str | None,
    tls: ssl.SSLContext | bool = True,
) -> tuple[Socket, CallProtocol]:
    """The first of the protocols that the server has.

    Raises: PeerError for a server that is not there, or has none of them, or lets nobody in; ConfigError for a key that
    cannot be one.
    """
    headers = {} if token is None else {"Authorization": f"Bearer {_checked(token)}"}
    for protocol in protocols[:-1]:
        try:
            return await _socket(http, address.socket(protocol.path, protocol.query), headers, tls), protocol
        except aiohttp.WSServerHandshakeError as error:
            if error.status not in _NO_SUCH_SOCKET:
                raise _refused(error.status, address, protocols) from None
    try:
        last = protocols[-1]
        return await _socket(http, address.socket(last.path, last.query), headers, tls), last
    except aiohttp.WSServerHandshakeError as error:
        raise _refused(error.status, address, protocols) from None


async def _socket(http: aiohttp.ClientSession, url: str, headers: dict[str, str], tls: ssl.SSLContext | bool) -> Socket:
    """Raises: WSServerHandshakeError for any answer but the upgrade; PeerError for anything else."""
    where = url.partition("?")[0]
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            return await http.ws_connect(
                url, headers=headers, heartbeat=HEARTBEAT_S, max_msg_size=MOST_MESSAGE_BYTES, ssl=tls
            )
    except aiohttp.WSServerHandshakeError:
        raise
    except aiohttp.ClientConnectorCertificateError:
        raise PeerError(
            f"nobody vouches for the certificate of {where}",
            hint="if it is the server's own (--tls self-signed), and the way there is safe: --insecure",
        ) from None
    except aiohttp.ClientSSLError:
        raise PeerError(f"{where} does not speak TLS", hint="is it http, and not https?") from None
    except aiohttp.ClientConnectorError as error:
        raise PeerError(
            f"nobody answers at {where}: {error.os_error.strerror or error.os_error}",
            hint="start a server with rtc-server serve, or give its address with --url",
        ) from None
    except TimeoutError:
        raise PeerError(f"{where} has not answered within {ANSWER_WITHIN_S:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise PeerError(
            f"what answers at {where} is no web server ({type(error).__name__})", hint="see to the port, and to https"
        ) from None


def _refused(status: int, address: Address, protocols: Sequence[CallProtocol]) -> PeerError:
    paths = " or ".join(protocol.path for protocol in protocols)
    where = f"{address.scheme}://{address.netloc}{address.prefix}"
    match status:
        case 401:
            return PeerError(f"{where} wants a key, and this is not it", hint="set RTC_API_KEY, or give --token")
        case 403:
            return PeerError(f"{where} does not let this machine in", hint="name the server by its address")
        case 400 | 414 | 431:
            return PeerError(f"{where} does not take the request ({status})", hint="shorten --persona")
        case _ if status in _NO_SUCH_SOCKET:
            return PeerError(
                f"{where} answers, but has no {paths} ({status})", hint="is it an rtc-server, or one of Moshi's?"
            )
        case _:
            return PeerError(f"{where} takes no call now ({status})", hint="try again in a few seconds")


def _checked(token: str) -> str:
    if not (token.isascii() and token.isprintable()):
        raise ConfigError("the key has characters in it that no key has", hint="see to RTC_API_KEY or --token")
    return token
