"""`surroundings.Media` over real ports."""

from __future__ import annotations

import time
from collections.abc import Callable

from rtc_server.events import Numbered
from rtc_server.transports.pacer import Pacer
from rtc_server.transports.sip.call.surroundings import Port
from rtc_server.transports.sip.dialog.sessiontimer import LONGEST_S
from rtc_server.transports.sip.media.leg import SipLeg
from rtc_server.transports.sip.media.rtpport import RtpPort, RtpPorts


class RtpMedia:
    """Event loop's thread only.

    Args:
        pacer: sends the packets of all calls in time.
        clock: monotonic seconds.
    """

    def __init__(self, ports: RtpPorts, pacer: Pacer, clock: Callable[[], float] = time.monotonic) -> None:
        self._ports = ports
        self._pacer = pacer
        self._clock = clock

    def acquire(self, own_host: str, told_host: str) -> RtpPort:
        """Raises: NoRtpPort, ConfigError."""
        return self._ports.acquire(own_host, told_host)

    def leg(self, port: Port, on_event: Callable[[Numbered], None], on_close: Callable[[str], None]) -> SipLeg:
        assert isinstance(port, RtpPort)
        return SipLeg(port, self._pacer, self._clock, believed_s=float(LONGEST_S), on_event=on_event, on_close=on_close)
