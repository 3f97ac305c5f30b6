"""The right to take a conversation over with a new call.

One secret per session, for its whole life: a caller whose answer got lost tries again with the same token. It is other
than the session's id, which stands in paths and logs. It is looked up by its digest, so that the time of an answer says
nothing about how much of a guess was right.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import deque

from rtc_server.errors import TooManyResumes

RESUMES = 5
RESUMES_WITHIN_S = 10.0
"""A client that loops gets 429 from here on; each attempt sets up a leg and ends the one that the last attempt made."""


class ResumeToken:
    """256 random bits, and how often they were used lately. Its text never stands in a representation or a log."""

    def __init__(self) -> None:
        self.secret = secrets.token_urlsafe(32)
        self._used_s: deque[float] = deque(maxlen=RESUMES)

    @property
    def digest(self) -> bytes:
        return digest_of(self.secret)

    def use(self, now: float) -> None:
        """Count one attempt at `now`, monotonic seconds. Raises: TooManyResumes."""
        if len(self._used_s) == RESUMES and now - self._used_s[0] < RESUMES_WITHIN_S:
            raise TooManyResumes(
                f"{RESUMES} new calls for this conversation within {RESUMES_WITHIN_S:g} s",
                hint="wait until the call that was set up last is connected, or has failed",
            )
        self._used_s.append(now)


def digest_of(secret: str) -> bytes:
    """SHA-256 of what a caller gave as token, whatever it is."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()
