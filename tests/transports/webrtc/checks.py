"""Connectivity checks as a peer would send them, and sockets that only remember."""

from __future__ import annotations

from typing import Any

from aioice import stun

from rtc_server.transports.webrtc.ice import Credentials, IceAgent


class FakeSocket:
    """Takes the place of a bound UDP socket: remembers what was sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, tuple[Any, ...]]] = []

    def send(self, data: bytes, destination: tuple[Any, ...]) -> None:
        self.sent.append((data, destination))

    def responses(self) -> list[stun.Message]:
        return [stun.parse_message(data) for data, _ in self.sent]


def agent() -> IceAgent:
    """An agent whose datagrams and first check nobody waits for."""
    return IceAgent(Credentials.random(), lambda data: False, lambda: None)


def request(to: IceAgent, credentials: Credentials | None = None, **attributes: Any) -> stun.Message:
    """A signed binding request; names of attributes with _ for -, e.g. USE_CANDIDATE=None.

    Args:
        credentials: those of `to` that the check is made with; the newest if not given.
    """
    used = to.credentials if credentials is None else credentials
    message = stun.Message(stun.Method.BINDING, stun.Class.REQUEST)
    message.attributes["USERNAME"] = f"{used.ufrag}:them"
    message.attributes["PRIORITY"] = 1
    if "ICE_CONTROLLED" not in attributes:
        message.attributes["ICE-CONTROLLING"] = 42
    for name, value in attributes.items():
        message.attributes[name.replace("_", "-")] = value
    message.add_message_integrity(used.key)
    return message


def with_wrong_password(to: IceAgent) -> Credentials:
    return Credentials(to.credentials.ufrag, "somebody else's password")
