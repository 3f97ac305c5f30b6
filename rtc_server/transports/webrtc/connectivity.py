"""Can a browser connect to what we advertise? It ignores loopback candidates, so loopback alone is no network."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Connectivity:
    """For people: on the page, in the terminal, in ``/v1/config``."""

    ok: bool
    message: str
    """What is wrong and what to do; empty when nothing is."""
    addresses: tuple[str, ...]
    """What answers offer, best first."""


def judge_connectivity(addresses: Sequence[str]) -> Connectivity:
    if any(not ipaddress.ip_address(address).is_loopback for address in addresses):
        return Connectivity(True, "", tuple(addresses))
    return Connectivity(
        False,
        "This machine has no network address but loopback, and browsers never send media there: a browser cannot "
        "connect. Join a network (any will do, without internet too), or give an address with --advertise-ip.",
        tuple(addresses),
    )
