"""The session timer of a call (RFC 4028): its refusals as responses, its refreshes as work of the call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rtc_server.transports.sip.call.answers import Refusal, refuse
from rtc_server.transports.sip.call.requests import Guard
from rtc_server.transports.sip.call.surroundings import CallSettings, Surroundings
from rtc_server.transports.sip.dialog.sessiontimer import LONGEST_S, RefreshMethod, SessionTimer, refusal_of
from rtc_server.transports.sip.message.headers import delta_seconds
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.transaction.base import ServerTransaction

MAX_LENGTHENINGS = 2
"""Of one request of ours: each 422 asks for a longer interval than the last one."""


def refuse_interval(settings: CallSettings, transaction: ServerTransaction, request: Request) -> Refusal | None:
    """Refuse a request whose interval is too short (422), or no number (400)."""
    refusal = refusal_of(request, settings.min_se_s)
    if refusal is None:
        return None
    refuse(transaction, refusal.status, **{name.replace("-", "_"): value for name, value in refusal.headers})
    return Refusal(refusal.status, f"its session timer is no number, or shorter than {settings.min_se_s} s")


class SessionRefresh:
    """The session timer of one call.

    Args:
        ask: refreshes the session, and gives the 2xx to `confirmed`. Ignored while it is under way.
        on_expired: nobody has refreshed it: the call is to be ended.
    """

    def __init__(
        self, around: Surroundings, guard: Guard, ask: Callable[[RefreshMethod], None], on_expired: Callable[[], None]
    ) -> None:
        self._settings = around.settings
        self._timer = SessionTimer(
            around.timers,
            lambda method: guard(partial(ask, method)),
            partial(guard, on_expired),
            session_expires_s=around.settings.session_expires_s,
            min_se_s=around.settings.min_se_s,
        )

    def stop(self) -> None:
        self._timer.stop()

    def refuses(self, transaction: ServerTransaction, request: Request) -> bool:
        return refuse_interval(self._settings, transaction, request) is not None

    def accept(self, request: Request, response: Response) -> None:
        """A request that passes `refuses`, and the 2xx to it, which says how often and who refreshes."""
        for name, value in self._timer.answer_headers(request):
            response.headers.add(name, value)

    def headers(self) -> list[tuple[str, str]]:
        """For a re-INVITE or UPDATE of ours."""
        return [("Supported", "timer"), *self._timer.request_headers()]

    def confirmed(self, response: Response) -> None:
        """A 2xx to an INVITE or UPDATE of ours."""
        self._timer.on_answer(response)

    def lengthen(self, response: Response) -> bool:
        """A 422 says how long the interval must be at least. False, where it says nothing new."""
        return self._timer.on_too_small(response)


def min_se(response: Response) -> int | None:
    """Of a 422; None where it says nothing that can be done."""
    try:
        seconds = delta_seconds(response.headers.get("Min-SE") or "")
    except ValueError:
        return None
    return seconds if seconds <= LONGEST_S else None
