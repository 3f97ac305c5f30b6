"""The WebRTC side of the house: one UDP port, one certificate, and a leg for each offer."""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rtc_server.errors import TooManyTests
from rtc_server.log import get_logger
from rtc_server.session.leg import LegHandler
from rtc_server.transports.pacer import Pacer
from rtc_server.transports.webrtc.addresses import advertised_addresses, has_loopback
from rtc_server.transports.webrtc.connectivitytest import MAX_TESTS, ConnectivityTest
from rtc_server.transports.webrtc.contract import Certificate
from rtc_server.transports.webrtc.peer import WebRtcLeg
from rtc_server.transports.webrtc.udp_mux import UdpMux, open_mux

CERTIFICATE_LEAST_LIFE = datetime.timedelta(days=1)
"""A certificate with less to live is replaced for the calls to come; aiortc makes them for 30 days."""

ADDRESSES_FRESH_S = 5.0
"""How long this machine's addresses are taken for granted: a laptop changes its network between two calls."""

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WebRtcConfig:
    """Settings of the transport. `udp_port` 0 takes any free port."""

    udp_port: int = 8125
    advertise_ip: tuple[str, ...] = ()
    ice_timeout_s: float = 10.0
    """From the answer to the first valid connectivity check."""
    dtls_timeout_s: float = 5.0
    """From there to the end of the handshake."""
    dtx: bool = False
    """Send next to nothing while the agent is silent."""
    local_callers: bool = False
    """Offers come from this machine only, as far as we know: its web server listens on loopback."""

    @property
    def setup_s(self) -> float:
        """From an answer to a leg that is connected, or has given up."""
        return self.ice_timeout_s + self.dtls_timeout_s


class WebRtcTransport:
    """Answers offers. `pacer` is started and stopped by whoever owns it.

    Event loop's thread only.
    """

    def __init__(self, config: WebRtcConfig, pacer: Pacer, clock: Callable[[], float] = time.monotonic) -> None:
        self.config = config
        self.legs: set[WebRtcLeg] = set()
        """Every leg that is not closed."""
        self.tests: set[ConnectivityTest] = set()
        """Every connectivity test that is not over; at most `MAX_TESTS`."""
        self._pacer = pacer
        self._clock = clock
        self._mux: UdpMux | None = None
        self._certificate = Certificate.generateCertificate()
        self._addresses: list[str] = []
        self._addresses_read_s = 0.0

    @property
    def mux(self) -> UdpMux:
        assert self._mux is not None, "not started"
        return self._mux

    async def start(self) -> None:
        """Bind the port. Raises: ConfigError when it is taken, or an address to advertise is none."""
        self._mux = await open_mux(self.config.udp_port, self._clock)
        try:
            self._read_addresses()
        except BaseException:
            self._mux.close()
            self._mux = None
            raise
        if not self._addresses:
            logger.warning("no address to advertise; nobody can connect")

    def connectivity(self) -> Sequence[str]:
        """The addresses that answers offer at present, best first."""
        if self._clock() - self._addresses_read_s > ADDRESSES_FRESH_S:
            self._read_addresses()
        return tuple(self._addresses)

    def _read_addresses(self) -> None:
        self._addresses = advertised_addresses(self.config.advertise_ip, self.mux.families)
        self._addresses_read_s = self._clock()

    async def create(self, offer_sdp: str, handler: LegHandler) -> tuple[WebRtcLeg, str]:
        """A leg and the answer, within milliseconds: nothing is gathered, resolved or waited for.

        The leg connects by itself, or closes itself after the config's timeouts and says so to `handler`.

        Raises: BadOffer, UnsupportedOffer; then nothing is left behind.
        """
        addresses = self.connectivity()
        leg = WebRtcLeg(
            mux=self.mux,
            pacer=self._pacer,
            certificate=self._fresh_certificate(),
            addresses=addresses,
            peers_on_loopback=self._peers_on_loopback(addresses),
            handler=handler,
            ice_timeout_s=self.config.ice_timeout_s,
            dtls_timeout_s=self.config.dtls_timeout_s,
            dtx=self.config.dtx,
            clock=self._clock,
        )
        answer_sdp = leg.open(offer_sdp, on_freed=self.legs.discard)
        self.legs.add(leg)
        return leg, answer_sdp

    def check_tests(self) -> None:
        """Raises: TooManyTests, when none may begin now."""
        if len(self.tests) >= MAX_TESTS:
            raise TooManyTests(f"{MAX_TESTS} connections are being tested already", hint="try again in a few seconds")

    def test(self, offer_sdp: str) -> tuple[ConnectivityTest, str]:
        """A connectivity test and the answer to its offer, at once. It ends by itself.

        Raises: TooManyTests, BadOffer, UnsupportedOffer; then nothing is left behind.
        """
        self.check_tests()
        addresses = self.connectivity()
        test = ConnectivityTest(
            mux=self.mux,
            certificate=self._fresh_certificate(),
            addresses=addresses,
            peers_on_loopback=self._peers_on_loopback(addresses),
            ice_timeout_s=self.config.ice_timeout_s,
            dtls_timeout_s=self.config.dtls_timeout_s,
            clock=self._clock,
        )
        answer_sdp = test.open(offer_sdp, on_freed=self.tests.discard)
        self.tests.add(test)
        return test, answer_sdp

    def _peers_on_loopback(self, addresses: Sequence[str]) -> bool:
        """Else a stranger's offer could make us send to services of this machine that only listen there."""
        asked_for = self.config.local_callers or bool(self.config.advertise_ip)
        return asked_for and has_loopback(addresses)

    async def close(self) -> None:
        """Close every leg, every test and the port. May be called twice."""
        await asyncio.gather(*[leg.close("server_closed") for leg in self.legs], *[test.close() for test in self.tests])
        if self._mux is not None:
            self._mux.close()
            self._mux = None

    def _fresh_certificate(self) -> Certificate:
        # The offer's fingerprint is checked against the peer's certificate; ours only has to be valid.
        if self._certificate.expires - datetime.datetime.now(datetime.UTC) < CERTIFICATE_LEAST_LIFE:
            self._certificate = Certificate.generateCertificate()
        return self._certificate
