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
    """Where the requests of one dialog go. What it connects to is kept until the dialog has another next hop."""

    def __init__(self, dialog: Dialog, network: Network, tasks: Tasks) -> None:
        self._dialog = dialog
        self._network = network
        self._tasks = tasks
        self._target: Target | None = None
        self._flow: Flow | None = None
        self._waiting: list[Callable[[Flow | None], None]] = []

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

    def on_flow_closed(self, flow: Flow) -> bool:
        """True, when this was the way."""
        lost = flow in (self._flow, self._dialog.flow)
        if self._flow == flow:
            self._flow = None
        if self._dialog.flow == flow:
            self._dialog.flow = None
        return lost

    def _wait(self, send: Callable[[Flow | None], None]) -> None:
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append(send)
        else:
            send(None)

    async def _connect(self, target: Target) -> None:
        try:
            self._target, self._flow = target, await self._network.connect(target)
        except (OSError, TimeoutError):
            log.info("SIP peer not reached, its last flow is used", transport=target.transport)
            self._target, self._flow = None, self._dialog.flow
        waiting, self._waiting = self._waiting, []
        for send in waiting:
            send(self._flow)
