"""The secure path to one peer: ICE, DTLS, SCTP, from the first check to the goodbye. Knows nothing of audio.

::

    listen -> first valid check -> DTLS handshake -> connected -> closed
                 10 s at most        5 s at most

The first check is the peer's, or the answer to ours where the peer is ICE-lite itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from aiortc import (
    RTCCertificate,
    RTCDataChannel,
    RTCDtlsFingerprint,
    RTCDtlsParameters,
    RTCSctpCapabilities,
)

from rtc_server.errors import DtlsFailed, IceFailed
from rtc_server.transports.webrtc.contract import EventSctp, SecureTransport
from rtc_server.transports.webrtc.dtls import DtlsChannel
from rtc_server.transports.webrtc.ice import Credentials, IceAgent
from rtc_server.transports.webrtc.ice_controlling import ControllingAgent, RemoteAgent
from rtc_server.transports.webrtc.offer import Fingerprint
from rtc_server.transports.webrtc.sdp import AgreedPath, SctpParameters
from rtc_server.transports.webrtc.udp_mux import UdpMux

if TYPE_CHECKING:
    from pylibsrtp import Session


class Connection:
    """One peer's transport. Holds nothing until `listen`, and nothing after `close`.

    Args:
        credentials: ours of the first answer.
        on_lost: called when the peer said goodbye or the transport broke; perhaps more than once.
        on_defect: called with what a receive callback raised; must not raise itself.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        mux: UdpMux,
        certificate: RTCCertificate,
        credentials: Credentials,
        on_lost: Callable[[], None],
        on_defect: Callable[[Exception], None],
        clock: Callable[[], float],
    ) -> None:
        self.agent = IceAgent(credentials, self._receive, self._on_first_check)
        self._mux = mux
        self._on_lost = on_lost
        self._on_defect = on_defect
        self._clock = clock
        self._checked = asyncio.Event()
        self._channel = DtlsChannel(self.send, clock, asyncio.get_running_loop().call_later)
        self._dtls = SecureTransport(self._channel, certificate)
        self._dtls.on("statechange", self._on_dtls_state)
        self._sctp: EventSctp | None = None

    def listen(self, agreed: AgreedPath) -> None:
        """Answer checks from now on, and send them if the peer will not."""
        self._channel.setup = agreed.setup
        if not agreed.remote_lite:
            return self._mux.add(self.agent)
        agent = ControllingAgent(
            self.agent.credentials,
            self._receive,
            self._on_first_check,
            on_expired=self._on_lost,
            transactions=self._mux.by_transaction,
            all_unproven_checks=self._mux.unproven_checks,
            clock=self._clock,
            call_later=asyncio.get_running_loop().call_later,
        )
        self.agent = agent
        self._mux.add(agent)
        return agent.check(self._remote_agent(agreed))

    def restart_ice(self, credentials: Credentials, agreed: AgreedPath) -> None:
        """Look for a new path with these credentials of ours, and stay on the present one until it is found."""
        self._mux.release(self.agent, self.agent.restart(credentials))
        self._mux.add(self.agent)
        if isinstance(self.agent, ControllingAgent):
            self.agent.check(self._remote_agent(agreed))

    def _remote_agent(self, agreed: AgreedPath) -> RemoteAgent:
        paths = [self._mux.path_to((item.host, item.port)) for item in agreed.remote_candidates]
        credentials = Credentials(agreed.remote_ufrag, agreed.remote_pwd)
        return RemoteAgent(credentials, [path for path in paths if path is not None])

    async def connect(self, fingerprints: Sequence[Fingerprint], ice_timeout_s: float, dtls_timeout_s: float) -> None:
        """Wait for the peer, then shake hands; its certificate must match every one of `fingerprints`.

        Raises: IceFailed, DtlsFailed.
        """
        try:
            async with asyncio.timeout(ice_timeout_s):
                await self._checked.wait()
        except TimeoutError:
            asked = isinstance(self.agent, ControllingAgent)
            kind = "answer to our connectivity checks" if asked else "connectivity check"
            raise IceFailed(f"no {kind} within {ice_timeout_s:g} s") from None
        parameters = RTCDtlsParameters([RTCDtlsFingerprint(item.algorithm, item.value) for item in fingerprints])
        try:
            async with asyncio.timeout(dtls_timeout_s):
                await self._dtls.start(parameters)
        except TimeoutError:
            raise DtlsFailed(f"no DTLS handshake within {dtls_timeout_s:g} s") from None
        if self._dtls.state != "connected":
            raise DtlsFailed("the DTLS handshake failed", hint="was the certificate the offered one?")
        self._channel.handshake_done()

    @property
    def connected(self) -> bool:
        return self._dtls.state == "connected"

    def srtp_sessions(self) -> tuple[Session, Session]:
        """(for what we receive, for what we send), once connected."""
        rx, tx = self._dtls.rx_srtp, self._dtls.tx_srtp
        assert rx is not None and tx is not None, "not connected"
        return rx, tx

    def send(self, data: bytes) -> bool:
        """Put a protected datagram on the selected path. False while there is none."""
        return self.agent.send(data)

    def receive_media(self, on_srtp: Callable[[bytes], bool]) -> None:
        """Hand on SRTP and SRTCP from now on; before, they are dropped. `on_srtp` returns True for what authenticates.

        Only that, besides checks, says which path the peer uses.
        """
        self._channel.on_srtp = on_srtp

    @property
    def associated(self) -> bool:
        """SCTP has been started and has not ended."""
        return self._sctp is not None and self._sctp.state != "closed"

    async def associate(self, parameters: SctpParameters, on_channel: Callable[[RTCDataChannel], None]) -> None:
        """Start SCTP, once. Data channels are the peer's to open."""
        if self._sctp is None:
            self._sctp = EventSctp(self._dtls)
            self._sctp.on("datachannel", on_channel)
            capabilities = RTCSctpCapabilities(maxMessageSize=parameters.max_message_bytes)
            await self._sctp.start(capabilities, parameters.port)

    async def close(self) -> None:
        """SCTP ABORT, DTLS close_notify, then silence."""
        try:
            if self._sctp is not None:
                # Also when DTLS is gone: a lost ABORT leaves SCTP connected, with its timers running.
                await self._sctp.stop()
            await self._dtls.stop()
        finally:
            self._channel.close()
            self._mux.remove(self.agent)
            self._dtls.remove_all_listeners()

    def _receive(self, data: bytes) -> bool:
        try:
            return self._channel.receive(data)
        except Exception as error:
            # A defect in handling this peer's media ends this call, and no other.
            self._on_defect(error)
            return False

    def _on_first_check(self) -> None:
        self._checked.set()

    def _on_dtls_state(self) -> None:
        if self._dtls.state == "closed":
            self._on_lost()
