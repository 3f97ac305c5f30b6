"""The agent's own voice, come back through a microphone next to a loudspeaker."""

from __future__ import annotations

import difflib
import re
from collections import deque

_WINDOW_FRAMES = 40
"""3.2 s before the utterance began: the echo is late by the network both ways, and words are timed roughly."""
_MAX_WORDS = 400
_ECHO_SHARE = 0.7


def plain_words(text: str) -> list[str]:
    """Lower-case words without punctuation."""
    return re.findall(r"[a-z0-9']+", text.lower().replace("’", "'"))


class OwnWords:
    """The words the agent said lately, with their frames; at most 400."""

    def __init__(self) -> None:
        self._said: deque[tuple[int, str]] = deque(maxlen=_MAX_WORDS)

    def said(self, words: list[str], frame: int) -> None:
        for word in words:
            self._said.extend((frame, plain) for plain in plain_words(word))

    def is_echo(self, text: str, start_frame: int, end_frame: int) -> bool:
        """Are 70 % of the characters of `text` words that the agent said at the time, in that order?"""
        heard = plain_words(text)
        said = [word for frame, word in self._said if start_frame - _WINDOW_FRAMES <= frame <= end_frame]
        total = sum(map(len, heard))
        if not said or not total:
            return False
        matcher = difflib.SequenceMatcher(None, heard, said, autojunk=False)
        matched = sum(len(word) for a, _, n in matcher.get_matching_blocks() for word in heard[a : a + n])
        return matched >= _ECHO_SHARE * total
