"""What an event is worth to a caller who does not read fast enough: of the events that wait, the cheapest go first."""

from __future__ import annotations

import enum

from rtc_server.events import InputTranscript, ResponseDelta, ServerEvent, SessionStats


class Worth(enum.IntEnum):
    """Of equal worth, the oldest goes first."""

    FIGURES = 0
    """The next ones replace them."""
    WORDS = 1
    """Late words are of little use, and the audio has them too."""
    REST = 2
    """What a client cannot do without."""


def worth(event: ServerEvent) -> Worth:
    if isinstance(event, SessionStats):
        return Worth.FIGURES
    if isinstance(event, ResponseDelta) or (isinstance(event, InputTranscript) and not event.final):
        return Worth.WORDS
    return Worth.REST
