"""Which of our addresses a peer can reach us at."""

from __future__ import annotations

import ipaddress
import socket
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from rtc_server.transports.sip.flow import Address, Flow
from rtc_server.transports.sip.hosts import host_and_port, is_address
from rtc_server.transports.sip.network.listenon import ListenOn

CACHE_S = 60.0
"""After which a route is asked for again: interfaces come and go."""
CACHE_ENTRIES = 1024
_DISCARD_PORT = 9
WILDCARDS = ("0.0.0.0", "::")


class SourceAddresses:
    """Which address of this machine packets to somebody leave from. Asks the kernel's routes; nothing is sent."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def towards(self, remote: str) -> str:
        """Raises: OSError where no route leads there."""
        now = self._clock()
        if (known := self._known.get(remote)) is not None and now - known[0] < CACHE_S:
            return known[1]
        family = socket.AF_INET6 if ":" in remote else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((remote, _DISCARD_PORT))
            source = str(probe.getsockname()[0])
        self._known.pop(remote, None)
        self._known[remote] = now, source
        if len(self._known) > CACHE_ENTRIES:
            self._known.popitem(last=False)
        return source


def place_towards(remote: str, places: Iterable[ListenOn], sources: SourceAddresses) -> ListenOn | None:
    """Of the places where we listen, the one to speak to `remote` from: others may know us by its address.

    Raises: OSError where no route leads there.
    """
    source = sources.towards(remote)
    same_family = [place for place in places if (":" in place.host) == (":" in remote)]
    for hosts in ((source,), WILDCARDS):
        for place in same_family:
            if place.host in hosts:
                return place
    # Loopback has no way out.
    return next((place for place in same_family if not ipaddress.ip_address(place.host).is_loopback), None)


def advertised_beside(own: str, advertise: str | None) -> str | None:
    """`advertise`, where it can stand for `own`, an address of ours: a name can, an address of the other family not."""
    if advertise is not None and is_address(advertise) and (":" in advertise) != (":" in own):
        return None
    return advertise


class OwnAddress:
    """What Via and Contact say of us.

    Args:
        advertise: an address or a name that leads here from outside, where the addresses of our own do not (1:1 NAT).
            Peers of the other family are told where the flow ends.
    """

    def __init__(self, advertise: str | None = None) -> None:
        self._advertise = advertise
        self._advertise_is_public = advertise is not None and _is_public(advertise)
        self.listening: Sequence[ListenOn] = ()
        """With the ports that the sockets have got."""

    def contact(self, flow: Flow) -> Address:
        """Host and port at which the peer of this flow, and whoever it hands them on to, can begin a new one."""
        host, port = flow.local
        advertised = advertised_beside(host, self._advertise)
        if advertised is not None and not self._is_local(flow.remote[0]):
            host = advertised
        return host, self._listening_port(flow, port)

    def sent_by(self, flow: Flow) -> str:
        """For our Via: a response that finds its connection gone comes by a new one (RFC 3261 section 18.2.2)."""
        return host_and_port(*self.contact(flow))

    def _is_local(self, remote: str) -> bool:
        """Loopback always; private addresses too, unless what is advertised is itself one, for a network around ours:
        then it is we who are hidden, in a container for example."""
        address = ipaddress.ip_address(remote.partition("%")[0])
        if address.is_loopback or address.is_link_local:
            return True
        return self._advertise_is_public and not address.is_global

    def _listening_port(self, flow: Flow, otherwise: int) -> int:
        """A connection that we have opened has a port of its own, where nobody listens."""
        if flow.transport == "udp":
            return otherwise
        same = [place for place in self.listening if place.transport == flow.transport]
        for hosts in ((flow.local[0],), WILDCARDS):
            for place in same:
                if place.host in hosts and (":" in place.host) == (":" in flow.local[0]):
                    return place.port
        return otherwise


def _is_public(advertise: str) -> bool:
    try:
        return ipaddress.ip_address(advertise).is_global
    except ValueError:  # a name
        return True
