"""How a socket is closed for each reason that a conversation ends for: a code for programs, a sentence for people.

Codes are those of RFC 6455 section 7.4.1 and of its registry (1012). A client that connects again by itself does not do
so after 1000, so that is the code wherever it must not, whoever closed.
"""

from __future__ import annotations

from typing import NamedTuple

NORMAL = 1000
GOING_AWAY = 1001
POLICY_VIOLATION = 1008
INTERNAL_ERROR = 1011
SERVICE_RESTART = 1012


class Goodbye(NamedTuple):
    code: int
    sentence: str
    """Under 123 bytes, which is what a close frame takes (section 5.5)."""


NOT_READING = "not_reading"
"""The reason for which a leg ends by itself when its peer takes nothing any more."""

ENDED_ELSEWHERE = "ended_elsewhere"
"""The reason that a caller is told whose conversation ended before its audio did, although nothing went wrong: somebody
used the API."""

_GOODBYES = {
    "client_closed": Goodbye(NORMAL, "the conversation has ended"),
    ENDED_ELSEWHERE: Goodbye(NORMAL, "the conversation was ended from elsewhere"),
    "session_ended": Goodbye(NORMAL, "the conversation has ended"),
    "replaced": Goodbye(NORMAL, "the conversation goes on over another connection"),
    "peer_closed": Goodbye(NORMAL, "the connection was closed by the client"),
    "peer_silent": Goodbye(GOING_AWAY, "the client has not shown a sign of life for half a minute"),
    "server_stopping": Goodbye(SERVICE_RESTART, "the server is shutting down"),
    "idle": Goodbye(POLICY_VIOLATION, "no audio came for minutes"),
    NOT_READING: Goodbye(POLICY_VIOLATION, "the client does not read what it is sent"),
    "engine_failed": Goodbye(INTERNAL_ERROR, "the engine could not go on with this conversation"),
    "engine_lost": Goodbye(INTERNAL_ERROR, "the engine has stopped"),
    "internal_error": Goodbye(INTERNAL_ERROR, "the server made a mistake"),
}


def goodbye(reason: str) -> Goodbye:
    """Code and sentence for the reason of `Session.close`, or of a leg that ends by itself."""
    return _GOODBYES.get(reason) or Goodbye(INTERNAL_ERROR, f"the conversation has ended: {reason.replace('_', ' ')}")
