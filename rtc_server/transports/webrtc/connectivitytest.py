"""Can this peer reach us? The whole way of a call, from ICE to the data channel, and no call at the end of it.

::

    offer, answer -> ICE, DTLS, SCTP as for a call -> the peer's data channel opens -> one message -> the end

It takes no slot and no engine, and works on a full server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Callable, Sequence

from aiortc import InvalidStateError, RTCCertificate, RTCDataChannel

from rtc_server.errors import PeerError
from rtc_server.log import get_logger
from rtc_server.transports.webrtc.connection import Connection
from rtc_server.transports.webrtc.negotiation import answer_data_offer
from rtc_server.transports.webrtc.ourside import describe
from rtc_server.transports.webrtc.sdp import AgreedPath
from rtc_server.transports.webrtc.udp_mux import UdpMux

MAX_TESTS = 8
"""At once."""
CONNECTED_S = 10.0
"""Longest that a connection is kept for a peer that does not close it."""

logger = get_logger(__name__)


class ConnectivityTest:
    """One peer's test. Ends by itself, and then holds nothing.

    Args:
        ice_timeout_s, dtls_timeout_s: as for a call.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        mux: UdpMux,
        certificate: RTCCertificate,
        addresses: Sequence[str],
        peers_on_loopback: bool,
        ice_timeout_s: float,
        dtls_timeout_s: float,
        clock: Callable[[], float],
    ) -> None:
        self.id = secrets.token_urlsafe(16)
        self.connected = False
        self._local = describe(certificate, addresses, mux.port, peers_on_loopback)
        self._connection = Connection(mux, certificate, self._local.credentials, self._end, self._on_defect, clock)
        self._ice_timeout_s = ice_timeout_s
        self._dtls_timeout_s = dtls_timeout_s
        self._on_freed: Callable[[ConnectivityTest], None] = lambda test: None
        self._channel: RTCDataChannel | None = None
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._freeing: asyncio.Task[None] | None = None

    def open(self, offer_sdp: str, on_freed: Callable[[ConnectivityTest], None]) -> str:
        """The answer. The test goes on in a task of its own.

        Raises: BadOffer, UnsupportedOffer; the test then holds nothing and must not be used.
        """
        agreed = answer_data_offer(offer_sdp, self._local)
        self._on_freed = on_freed
        self._connection.listen(agreed)
        self._task = asyncio.get_running_loop().create_task(self._run(agreed), name=f"connectivity-test {self.id}")
        return agreed.answer_sdp

    async def close(self) -> None:
        """End it now. May be called twice."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._free()

    async def _run(self, agreed: AgreedPath) -> None:
        try:
            await self._connection.connect(agreed.remote_fingerprints, self._ice_timeout_s, self._dtls_timeout_s)
            self.connected = True
            assert agreed.sctp is not None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CONNECTED_S):
                    await self._connection.associate(agreed.sctp, self._on_channel)
                    await self._ended.wait()
        except PeerError as error:
            logger.info("connectivity test failed", test=self.id, code=error.code)
        except Exception:
            logger.exception("connectivity test broke", test=self.id)
        await self._free()

    def _on_channel(self, channel: RTCDataChannel) -> None:
        path = self._connection.agent.selected
        if self._channel is not None or path is None:
            return
        self._channel = channel
        channel.on("close", self._end)
        host, port = path.address
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        with contextlib.suppress(InvalidStateError, ValueError):  # closing, or a peer that takes next to nothing
            channel.send(json.dumps({"type": "connectivity.ok", "address": address}))
        logger.info("connectivity test passed", test=self.id)

    def _end(self) -> None:
        self._ended.set()

    def _on_defect(self, error: Exception) -> None:
        logger.error("connectivity test cannot receive", test=self.id, exc_info=error)
        self._end()

    async def _free(self) -> None:
        if self._freeing is None:
            self._freeing = asyncio.get_running_loop().create_task(self._shut_down())
        await asyncio.shield(self._freeing)

    async def _shut_down(self) -> None:
        try:
            await self._connection.close()
        except Exception:
            logger.exception("connectivity test did not say goodbye", test=self.id)
        finally:
            self._on_freed(self)
        await asyncio.sleep(0)  # the tasks cancelled above get their last turn
