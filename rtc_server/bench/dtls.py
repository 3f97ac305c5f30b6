"""DTLS of a call, with the SRTP sessions that it keyed."""

from __future__ import annotations

from aiortc import RTCDtlsTransport


class DtlsTransport(RTCDtlsTransport):
    def set_role(self, role: str) -> None:
        self._set_role(role)

    @property
    def rx_srtp(self):
        return self._rx_srtp

    @property
    def tx_srtp(self):
        return self._tx_srtp
