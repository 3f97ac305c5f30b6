"""Session timers (RFC 4028): one end refreshes the session from time to time, or else both give it up."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rtc_server.transports.sip.call.answers import refuse
from rtc_server.transports.sip.call.requests import Guard
from rtc_server.transports.sip.call.surroundings import CallSettings, Surroundings
from rtc_server.transports.sip.message.headers import SessionExpires, delta_seconds
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.transaction.base import ServerTransaction
from rtc_server.transports.sip.transaction.timers import Timer

MAX_INTERVAL_S = 86_400
LAST_MOMENT_S = 32.0


def refuses_interval(settings: CallSettings, transaction: ServerTransaction, request: Request) -> bool:
    """Refuse a request whose interval is too short (422), or no number (400). True, when it did.

    An interval that a proxy has put in, for a client that knows nothing of timers, is taken as it is (section 9).
    """
    try:
        asked = _asked(request)
    except ValueError:
        refuse(transaction, 400)
        return True
    if asked is None or asked.seconds >= settings.min_se_s or not _knows_timers(request):
        return False
    refuse(transaction, 422, Min_SE=str(settings.min_se_s))
    return True


class SessionRefresh:
    """The session timer of one call. It runs where one of the ends has asked for it.

    Args:
        ask: refreshes the session, and gives the 2xx to `confirmed`.
        on_expired: nobody has refreshed it: the call is to be ended.
    """

    def __init__(
        self, around: Surroundings, guard: Guard, ask: Callable[[], None], on_expired: Callable[[], None]
    ) -> None:
        self._around = around
        self._guard = guard
        self._ask = ask
        self._on_expired = on_expired
        self._interval_s: int | None = None
        self._min_se_s: int | None = None
        self._ours = False
        self._timers: list[Timer] = []

    def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def refuses(self, transaction: ServerTransaction, request: Request) -> bool:
        return refuses_interval(self._around.settings, transaction, request)

    # ---- as the end that is asked ------------------------------------------------------------------------------------

    def accept(self, request: Request, response: Response) -> None:
        """A request that passes `refuses`, and the 2xx to it, which says how often and who refreshes (section 9)."""
        asked = _asked(request)
        if asked is None:
            self._run(None, ours=False)
            return
        refresher = (asked.refresher or "uac") if _knows_timers(request) else "uas"
        interval_s = min(max(asked.seconds, self._around.settings.min_se_s), MAX_INTERVAL_S)
        response.headers.set("Session-Expires", str(SessionExpires(interval_s, "uac" if refresher == "uac" else "uas")))
        if refresher == "uac":
            response.headers.add("Require", "timer")
        self._run(interval_s, ours=refresher == "uas")

    # ---- as the end that asks ----------------------------------------------------------------------------------------

    def headers(self) -> list[tuple[str, str]]:
        """For a re-INVITE or UPDATE of ours."""
        headers = [("Supported", "timer")]
        if self._interval_s is not None:
            refresher = "uac" if self._ours else "uas"
            headers.append(("Session-Expires", f"{self._interval_s};refresher={refresher}"))
        if self._min_se_s is not None:
            headers.append(("Min-SE", str(self._min_se_s)))
        return headers

    def confirmed(self, response: Response) -> None:
        """A 2xx to an INVITE or UPDATE of ours (section 7.2). What is malformed in it is passed over."""
        try:
            answer = _asked(response)
        except ValueError:
            return
        if answer is None:
            self._run(None, ours=False)
        else:
            self._run(min(max(answer.seconds, 1), MAX_INTERVAL_S), ours=answer.refresher != "uas")

    def lengthen(self, response: Response) -> bool:
        """A 422 says how long the interval must be at least. False, where it says nothing new."""
        minimum = min_se(response)
        if minimum is None or minimum <= (self._min_se_s or 0):
            return False
        self._min_se_s = minimum
        self._interval_s = max(minimum, self._interval_s or 0)
        return True

    def _run(self, interval_s: int | None, *, ours: bool) -> None:
        """Begin to count, from now on (section 10)."""
        self.stop()
        self._interval_s, self._ours = interval_s, ours
        if interval_s is None:
            return
        timers = self._around.timers
        # Who refreshes does so half way through; both give up a little before the end.
        if ours:
            self._timers.append(timers.after(interval_s / 2, partial(self._guard, self._ask)))
        last_s = interval_s - min(LAST_MOMENT_S, interval_s / 3)
        self._timers.append(timers.after(last_s, partial(self._guard, self._on_expired)))


def min_se(response: Response) -> int | None:
    """Of a 422; None where it says nothing that can be done."""
    try:
        seconds = delta_seconds(response.headers.get("Min-SE") or "")
    except ValueError:
        return None
    return seconds if seconds <= MAX_INTERVAL_S else None


def _asked(message: Request | Response) -> SessionExpires | None:
    value = message.headers.get("Session-Expires")
    return None if value is None else SessionExpires.parse(value)


def _knows_timers(request: Request) -> bool:
    return any(name.lower() == "timer" for name in (*request.headers.all("Supported"), *request.headers.all("Require")))
