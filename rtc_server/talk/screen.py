"""What a person at the terminal sees: the agent's words as they come, everything else beside them."""

from __future__ import annotations

import unicodedata

from rich.console import Console
from rich.text import Text


class Screen:
    """Words go to standard output, and nothing else does; remarks go to standard error.

    Control characters of a server's are not passed on: they could do anything to a terminal.
    """

    def __init__(self, words: Console | None = None, remarks: Console | None = None) -> None:
        self._words = words or Console(highlight=False)
        self._remarks = remarks or Console(stderr=True, highlight=False)
        self._within_line = False

    def words(self, text: str) -> None:
        """A piece of what the agent says."""
        text = _harmless(text, self._words.encoding)
        if text:
            self._words.print(Text(text), end="", soft_wrap=True)
            self._within_line = not text.endswith("\n")

    def remark(self, text: str, style: str = "dim") -> None:
        """A line about the call."""
        self.end_line()
        self._remarks.print(Text(_harmless(text, self._remarks.encoding), style=style), soft_wrap=True)

    def end_line(self) -> None:
        if self._within_line:
            self._words.print()
            self._within_line = False


def _harmless(text: str, encoding: str) -> str:
    plain = "".join(letter for letter in text if letter == "\n" or unicodedata.category(letter) != "Cc")
    return plain.encode(encoding, "replace").decode(encoding)
