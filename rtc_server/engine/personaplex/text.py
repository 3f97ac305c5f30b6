"""From text tokens to characters, one conversation at a time.

A character that is no piece of its own comes as its UTF-8 bytes, a token each, with padding in between at times. Each
string that leaves here is whole: an unfinished character waits, and is dropped when something else follows it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

SPACE = "\u2581"
"""How SentencePiece writes a space."""
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def shown(piece: str) -> str | bytes:
    """What a piece of the vocabulary adds to the text: characters, or one byte of a character."""
    if byte := _BYTE.fullmatch(piece):
        return bytes.fromhex(byte[1])
    return piece.replace(SPACE, " ")


class TextAssembler:
    """Joins what the tokens of one conversation add. Not shared between conversations."""

    def __init__(self, pieces: Sequence[str | bytes]) -> None:
        """`pieces`: what each id adds, as `Tokenizer.pieces` has it; empty for ids that are never shown."""
        self._pieces = pieces
        self._bytes = codecs.getincrementaldecoder("utf-8")("ignore")

    def feed(self, token: int) -> str:
        """The characters that are complete with this token; often none. An id out of range adds nothing."""
        piece = self._pieces[token] if 0 <= token < len(self._pieces) else ""
        if isinstance(piece, bytes):
            return self._bytes.decode(piece)
        if piece:
            self._bytes.reset()
        return piece
