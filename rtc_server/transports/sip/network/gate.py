"""Whom to listen to, asked before a byte of a message is read: reading one costs more than sending it."""

from __future__ import annotations

from collections.abc import Container
from typing import Protocol

from rtc_server.transports.sip.flow import Transport


class Gate(Protocol):
    """`trunk.gatekeeper.Gatekeeper`, as far as it can tell by an address. Hosts are IPv4 or IPv6 literals."""

    def is_trunk(self, host: str) -> bool:
        """A trunk's, which is always listened to, and whose connections stay when room is short."""

    def allow(self, host: str, transport: Transport) -> bool:
        """Whether one more message, or connection, from there is taken. Each question counts, for its transport."""


class GateForCalls:
    """A gate that the hosts of calls are never asked at: a flood of others must not end a call.

    Args:
        in_calls: those hosts, with the transport of the call: another's datagrams may bear the address of any.
    """

    def __init__(self, gate: Gate, in_calls: Container[tuple[Transport, str]]) -> None:
        self._gate = gate
        self._in_calls = in_calls

    def is_trunk(self, host: str) -> bool:
        return self._gate.is_trunk(host)

    def allow(self, host: str, transport: Transport) -> bool:
        return (transport, host) in self._in_calls or self._gate.allow(host, transport)


class OpenGate:
    """Everybody is listened to: for who asks others, and is asked nothing."""

    def is_trunk(self, host: str) -> bool:
        return False

    def allow(self, host: str, transport: Transport) -> bool:
        return True
