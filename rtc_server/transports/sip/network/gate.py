"""Whom to listen to, asked before a byte of a message is read: reading one costs more than sending it."""

from __future__ import annotations

from collections.abc import Container
from typing import Protocol


class Gate(Protocol):
    """`trunk.gatekeeper.Gatekeeper`, as far as it can tell by an address. Hosts are IPv4 or IPv6 literals."""

    def is_trunk(self, host: str) -> bool:
        """A trunk's, which is always listened to, and whose connections stay when room is short."""

    def hears(self, host: str) -> bool:
        """Whether one more message, or connection, from there is taken. Each question counts."""


class GateForCalls:
    """A gate that the hosts of calls are never asked at: a flood of others must not end a call."""

    def __init__(self, gate: Gate, in_calls: Container[str]) -> None:
        self._gate = gate
        self._in_calls = in_calls

    def is_trunk(self, host: str) -> bool:
        return self._gate.is_trunk(host)

    def hears(self, host: str) -> bool:
        return host in self._in_calls or self._gate.hears(host)


class OpenGate:
    """Everybody is listened to: for who asks others, and is asked nothing."""

    def is_trunk(self, host: str) -> bool:
        return False

    def hears(self, host: str) -> bool:
        return True
