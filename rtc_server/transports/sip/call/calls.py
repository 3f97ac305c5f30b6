"""All calls of a user agent: by id for applications, by dialog for what arrives."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from rtc_server.transports.sip.call.call import Call, CallObserver, CallState
from rtc_server.transports.sip.call.feed import CallFeed
from rtc_server.transports.sip.call.referrals import Referrals
from rtc_server.transports.sip.dialog.dialog import DialogId
from rtc_server.transports.sip.message.message import Request
from rtc_server.transports.sip.transaction.base import ServerTransaction
from rtc_server.transports.sip.transaction.timers import Timers
from rtc_server.transports.sip.trunk.trunks import Trunk

REMEMBERED_S = 60.0
MAX_REMEMBERED = 256


class Calls(CallObserver):
    """Iterates over those that have not ended. An ended call can still be got by its id for `REMEMBERED_S`, or until
    `MAX_REMEMBERED` others have ended, so that an application may ask how it went."""

    def __init__(self, timers: Timers, referrals: Referrals) -> None:
        self._timers = timers
        self._referrals = referrals
        self._live: dict[str, Call] = {}
        self._ended: dict[str, tuple[float, Call]] = {}
        self._expected: list[str] = []  # names of trunks
        self._not_over: set[str] = set()
        self._by_dialog: dict[DialogId, Call] = {}
        self._none_left = asyncio.Event()
        self._none_left.set()
        self.feed = CallFeed(lasting=True)
        """What all calls tell from now on, each event with its `call_id`."""

    def __iter__(self) -> Iterator[Call]:
        return iter(list(self._live.values()))

    def __len__(self) -> int:
        return len(self._live)

    def count(self, trunk: Trunk | None = None) -> int:
        """What the limits are about, of one trunk or of all: those that have not ended, and those that are expected."""
        if trunk is None:
            return len(self) + len(self._expected)
        return sum(call.trunk is trunk for call in self) + self._expected.count(trunk.name)

    @contextlib.contextmanager
    def expected(self, trunk: Trunk) -> Iterator[None]:
        """A call that is to be, unless it gets no slot. It has its place, and nobody hears of it."""
        self._expected.append(trunk.name)
        try:
            yield
        finally:
            self._expected.remove(trunk.name)

    @property
    def dialogs(self) -> int:
        """Of calls, and of ended calls that still say goodbye."""
        return len(self._by_dialog)

    def get(self, call_id: str) -> Call | None:
        self._forget_old()
        ended = self._ended.get(call_id)
        return self._live.get(call_id) or (None if ended is None else ended[1])

    def recently_ended(self) -> list[Call]:
        """Those that can still be got, the last one first."""
        self._forget_old()
        return [call for _, call in reversed(self._ended.values())]

    def of_dialog(self, dialog_id: DialogId) -> Call | None:
        return self._by_dialog.get(dialog_id)

    def add(self, call: Call) -> None:
        if call.state is not CallState.ENDED:
            self._live[call.id] = call
            self._not_over.add(call.id)
            self._none_left.clear()
            call.feed.pass_on = lambda event: self.feed.put({"call_id": call.id, **event})

    async def wait_over(self) -> None:
        """Until the last call has said goodbye."""
        await self._none_left.wait()

    # ---- CallObserver ------------------------------------------------------------------------------------------------

    def on_dialog(self, call: Call, dialog_id: DialogId) -> None:
        self._by_dialog[dialog_id] = call

    def on_refer(self, call: Call, transaction: ServerTransaction, request: Request) -> None:
        self._referrals.receive(call, transaction, request)

    def on_ended(self, call: Call) -> None:
        self._live.pop(call.id, None)
        self._ended[call.id] = (self._timers.now_s, call)
        self._forget_old()

    def on_over(self, call: Call) -> None:
        for dialog_id in call.dialog_ids:
            self._by_dialog.pop(dialog_id, None)
        self._not_over.discard(call.id)
        if not self._not_over:
            self._none_left.set()

    def _forget_old(self) -> None:
        """They lie in the order in which they ended."""
        limit_s = self._timers.now_s - REMEMBERED_S
        while self._ended:
            call_id, (ended_s, _) = next(iter(self._ended.items()))
            if len(self._ended) <= MAX_REMEMBERED and ended_s > limit_s:
                break
            del self._ended[call_id]
