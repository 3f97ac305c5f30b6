"""The way to the peer of a dialog. It may have to be looked up and connected first: requests wait for that in order."""

from __future__ import annotations

from collections.abc import Callable

from rtc_server.log import get_logger
from rtc_server.transports.sip.call.surroundings import Network, Tasks
from rtc_server.transports.sip.dialog.dialog import Dialog
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.network.target import Target

MAX_WAITING = 16

log = get_logger(__name__)


class Path:
    """Where the requests of one dialog go. What it connects to is held until the dialog has another next hop, that
    connection is gone, or `close`. The flow that the peer was last seen on is the call's to hold."""

    def __init__(self, dialog: Dialog, network: Network, tasks: Tasks) -> None:
        self._dialog = dialog
        self._network = network
        self._tasks = tasks
        self._target: Target | None = None
        self._flow: Flow | None = None
        """To `_target`, and held. Both or neither."""
        self._waiting: list[Callable[[Flow | None], None]] = []
        self._closed = False

    def use(self, send: Callable[[Flow | None], None]) -> None:
        """Call `send` with a flow, at once or when it is connected; with None, when there is no way."""
        if self._waiting:
            self._wait(send)
            return
        try:
            hop = self._dialog.next_hop()
            target = None if hop is None else Target.of_uri(hop)
        except ValueError:
            send(self._dialog.flow)
            return
        if target is None:
            send(self._dialog.flow)
        elif target == self._target and self._flow is not None:
            send(self._flow)
        else:
            self._waiting.append(send)
            self._tasks.start(self._connect(target), "sip-connect")

    def hosts_of(self, flow: Flow) -> tuple[str, ...]:
        """Whom a flow of `use` leads to: its address, and the name that this was looked up for, if there is one."""
        address = flow.remote[0]
        return (address,) if self._target is None or flow != self._flow else (address, self._target.host)

    def on_flow_closed(self, flow: Flow) -> bool:
        """True, when this was the way."""
        lost = flow in (self._flow, self._dialog.flow)
        if self._flow == flow:
            self._leave()
        if self._dialog.flow == flow:
            self._dialog.flow = None
        return lost

    def close(self) -> None:
        """Hold nothing any more. What is still to be said finds its way. May be called twice."""
        self._closed = True
        self._leave()

    def _wait(self, send: Callable[[Flow | None], None]) -> None:
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append(send)
        else:
            send(None)

    async def _connect(self, target: Target) -> None:
        flow: Flow | None
        try:
            flow = await self._network.connect(target)
        except (OSError, TimeoutError, ValueError):  # a name that no certificate can be made out to is the last
            log.info("SIP peer not reached, its last flow is used", transport=target.transport)
            self._leave()
            flow = self._dialog.flow
        else:
            self._keep(target, flow)
        waiting, self._waiting = self._waiting, []
        for send in waiting:
            send(flow)

    def _keep(self, target: Target, flow: Flow) -> None:
        self._leave()
        if not self._closed:
            self._network.hold(flow)
            self._target, self._flow = target, flow

    def _leave(self) -> None:
        if self._flow is not None:
            self._network.release(self._flow)
        self._target = self._flow = None
