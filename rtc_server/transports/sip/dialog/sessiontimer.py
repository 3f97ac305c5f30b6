"""The session timer: a call that nobody refreshes from time to time is given up by both ends (RFC 4028). Sans-IO.

Every INVITE and UPDATE, and its 2xx, says how long the session lives from then on and which end refreshes it: "uac" is
the end that has sent this request, "uas" the one that answers, so the words change their meaning with each request.
Half way through, that end sends the next one. Both give up a little before the session expires.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from rtc_server.transports.sip.message.headers import SessionExpires, delta_seconds
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.transaction.timers import Timer, Timers

SESSION_EXPIRES_S = 1800
MIN_SE_S = 90
"""Least that RFC 4028 allows; what a message without Min-SE means."""
SHORTEST_S = 30
"""Least that we go along with where the other end has the last word: each refresh costs both something."""
LONGEST_S = 86_400
MARGIN_S = 32.0
"""Both ends give up so long before the session expires, or a third of it, whichever is less (section 10)."""
RETRY_S = 5.0

HeaderLines = list[tuple[str, str]]
RefreshMethod = Literal["UPDATE", "INVITE"]


class Refusal(NamedTuple):
    status: int
    headers: HeaderLines


def refusal_of(request: Request, min_se_s: int = MIN_SE_S) -> Refusal | None:
    """How an INVITE or UPDATE must be refused: with 422 where its session is too short, 400 where that is no number.

    None: it need not be. A client that does not know session timers could do nothing about a 422: the interval was put
    in by a proxy on the way, and is lengthened instead (section 9, and erratum 1687).
    """
    least_s = max(min_se_s, MIN_SE_S)
    try:
        asked = _session_expires(request)
        _min_se(request)
    except ValueError:
        return Refusal(400, [])
    if asked is None or asked.seconds >= least_s or not knows_timers(request):
        return None
    return Refusal(422, [("Min-SE", str(least_s))])


def knows_timers(request: Request) -> bool:
    options = (*request.headers.all("Supported"), *request.headers.all("Require"))
    return any(option.lower() == "timer" for option in options)


class SessionTimer:
    """The session timer of one dialog.

    Put `request_headers` into each INVITE and UPDATE of ours, with ``timer`` in its Supported, and give its 2xx to
    `on_answer` and its 422 to `on_too_small`. Check each of the other end's with `refusal`, and put `answer_headers`
    into the 2xx to it.

    Args:
        on_refresh: send an UPDATE without a body, or a re-INVITE that changes nothing where the other end's Allow does
            not name UPDATE. Called again while there is time, until `on_answer` is called; to be ignored while one is
            under way.
        on_expired: end the call: nobody has refreshed it.
        session_expires_s: what we ask for, and the most that we agree to.
        min_se_s: the least that we agree to; not less than `MIN_SE_S`.
    """

    def __init__(
        self,
        timers: Timers,
        on_refresh: Callable[[RefreshMethod], None],
        on_expired: Callable[[], None],
        *,
        session_expires_s: int = SESSION_EXPIRES_S,
        min_se_s: int = MIN_SE_S,
    ) -> None:
        self.interval_s: int | None = None
        """How long the session lives after each refresh. None: for ever."""
        self.refreshing = False
        """It is up to us to refresh it."""
        self._timers = timers
        self._on_refresh = on_refresh
        self._on_expired = on_expired
        self._own_min_se_s = max(min_se_s, MIN_SE_S)
        self._min_se_s = self._own_min_se_s  # and the other end's, as far as it is known
        self._session_expires_s = max(session_expires_s, self._own_min_se_s)
        self._peer_updates = False
        self._refresh: Timer | None = None
        self._expiry: Timer | None = None

    def stop(self) -> None:
        """The call is over. May be called twice."""
        for timer in (self._refresh, self._expiry):
            if timer is not None:
                timer.cancel()
        self._refresh = self._expiry = None

    # ---- requests of ours --------------------------------------------------------------------------------------------

    def request_headers(self) -> HeaderLines:
        """For the next INVITE or UPDATE of ours: each end keeps doing what it does (section 7.4)."""
        refresher: Literal["uac", "uas"] | None = None
        if self.interval_s is not None:
            refresher = "uac" if self.refreshing else "uas"
        asked = SessionExpires(self._wanted_s, refresher)
        return [("Session-Expires", str(asked)), ("Min-SE", str(self._min_se_s))]

    def on_answer(self, response: Response) -> None:
        """A 2xx to one of them (section 7.2). Whatever it says the session was refreshed; what is malformed is passed
        over."""
        self._learn_methods(response)
        try:
            answer = _session_expires(response)
        except ValueError:
            answer = None
        if answer is None:
            self._go_on_alone()
        else:
            interval_s = min(max(answer.seconds, SHORTEST_S), LONGEST_S)
            self._run(interval_s, refreshing=answer.refresher != "uas")

    def on_too_small(self, response: Response) -> bool:
        """A 422 (section 7.3). True: send the request again, with a new CSeq and new `request_headers`."""
        try:
            minimum_s = _min_se(response)
        except ValueError:
            return False
        if not self._wanted_s < minimum_s <= LONGEST_S:
            return False
        self._min_se_s = minimum_s
        return True

    # ---- requests of the other end -----------------------------------------------------------------------------------

    def answer_headers(self, request: Request) -> HeaderLines:
        """For the 2xx to an INVITE or UPDATE that needs no refusal; the session is refreshed with it (section 9).

        Raises: ValueError for a request that needs one.
        """
        asked, minimum_s = _session_expires(request), _min_se(request)
        self._learn_methods(request)
        self._min_se_s = max(self._min_se_s, min(minimum_s, LONGEST_S))
        known = knows_timers(request)
        if asked is None and not known:
            self._go_on_alone()
            return []
        interval_s = self._wanted_s
        if asked is not None:
            interval_s = max(min(asked.seconds, max(self._session_expires_s, minimum_s), LONGEST_S), self._own_min_se_s)
        refresher = self._refresher(asked, known)
        self._run(interval_s, refreshing=refresher == "uas")
        lines = [("Session-Expires", str(SessionExpires(interval_s, refresher)))]
        return [*lines, ("Require", "timer")] if known else lines

    def _refresher(self, asked: SessionExpires | None, known: bool) -> Literal["uac", "uas"]:
        """By the answer to a request of the other end (section 9, table 2)."""
        if not known:
            return "uas"
        if asked is not None and asked.refresher is not None:
            return asked.refresher
        if self.interval_s is not None:
            return "uas" if self.refreshing else "uac"
        # Who has asked for a timer is able to refresh; who has not is not troubled with it.
        return "uas" if asked is None else "uac"

    # ---- time --------------------------------------------------------------------------------------------------------

    @property
    def _wanted_s(self) -> int:
        return max(self._session_expires_s if self.interval_s is None else self.interval_s, self._min_se_s)

    def _run(self, interval_s: int, *, refreshing: bool) -> None:
        self.stop()
        self.interval_s, self.refreshing = interval_s, refreshing
        left_s = interval_s - min(MARGIN_S, interval_s / 3)
        self._expiry = self._timers.after(left_s, self._expire)
        if refreshing:
            self._refresh = self._timers.after(interval_s / 2, self._ask)

    def _go_on_alone(self) -> None:
        """The other end knows no session timer, so nothing expires. We look after it all the same, where that is no
        more than an UPDATE: a re-INVITE is not risked for it."""
        self.stop()
        self.interval_s, self.refreshing = None, self._peer_updates
        if self._peer_updates:
            self._refresh = self._timers.after(self._wanted_s / 2, self._ask)

    def _ask(self) -> None:
        if self._expiry is None:
            self._refresh = self._timers.after(self._wanted_s / 2, self._ask)
        elif (pause_s := (self._expiry.at_s - self._timers.now_s) / 2) >= RETRY_S:
            self._refresh = self._timers.after(pause_s, self._ask)
        self._on_refresh("UPDATE" if self._peer_updates else "INVITE")

    def _expire(self) -> None:
        self.stop()
        self._on_expired()

    def _learn_methods(self, message: Request | Response) -> None:
        allowed = message.headers.all("Allow")
        if allowed:
            self._peer_updates = "UPDATE" in allowed


def _session_expires(message: Request | Response) -> SessionExpires | None:
    """Raises: ValueError."""
    value = message.headers.get("Session-Expires")
    return None if value is None else SessionExpires.parse(value)


def _min_se(message: Request | Response) -> int:
    """Raises: ValueError."""
    value = message.headers.get("Min-SE")
    return MIN_SE_S if value is None else delta_seconds(value)
