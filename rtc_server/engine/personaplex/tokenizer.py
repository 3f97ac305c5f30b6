"""The model's own SentencePiece vocabulary: personas in, pieces out."""

from __future__ import annotations

from pathlib import Path

import sentencepiece

from rtc_server.engine.personaplex.text import shown
from rtc_server.errors import CheckpointError, TooLarge

SYSTEM = "<system>"
"""Stands before the persona and after it; there is no closing form. Plain text to the tokenizer."""
SILENT_IDS = frozenset(range(4))
"""End of padding (or unknown), begin, end, padding: never shown, whatever the vocabulary says about them."""


def wrap_persona(text: str) -> str:
    """The persona as the model was trained to read it. Nothing but white space is no persona: the empty string."""
    text = text.strip()
    if not text or (text.startswith(SYSTEM) and text.endswith(SYSTEM)):
        return text
    return f"{SYSTEM} {text} {SYSTEM}"


class Tokenizer:
    """A vocabulary file. Read-only after construction, so any thread may use it."""

    def __init__(self, path: Path, text_card: int | None = None) -> None:
        """`text_card`: how many text tokens the language model knows; a larger vocabulary is another model's.

        Raises: CheckpointError for a file that is no SentencePiece model, or does not belong to the language model.
        """
        try:
            self._vocabulary = sentencepiece.SentencePieceProcessor(model_file=str(path))
        except (RuntimeError, OSError, ValueError) as error:
            raise CheckpointError(
                f"the tokenizer {path.name} cannot be read: {error}", hint="it must be a SentencePiece model"
            ) from error
        self.size: int = self._vocabulary.get_piece_size()
        if text_card is not None and self.size > text_card:
            raise CheckpointError(
                f"the tokenizer {path.name} has {self.size} pieces, but the language model knows {text_card}",
                hint="take the tokenizer of the same checkpoint",
            )
        self.pieces: tuple[str | bytes, ...] = tuple(self._shown(token) for token in range(self.size))
        """What each id adds to the text, for `TextAssembler`; empty for those that are never shown."""

    def encode(self, text: str) -> list[int]:
        """Ids of a text, with no marks around it. Lone surrogates, which no encoding has, become question marks."""
        ids: list[int] = self._vocabulary.encode(text.encode("utf-8", "replace").decode())
        return ids

    def persona(self, text: str | None, most: int) -> tuple[int, ...]:
        """Ids of a persona, wrapped; none at all for an empty one. It is never cut.

        Raises: TooLarge for more than `most`.
        """
        ids = tuple(self.encode(wrap_persona(text or "")))
        if len(ids) > most:
            raise TooLarge(
                f"the persona is {len(ids)} tokens long, and the model takes at most {most} beside this voice",
                hint="shorten it",
            )
        return ids

    def piece(self, token: int) -> str:
        """How the vocabulary writes a token. Raises: IndexError for one that it does not have."""
        piece: str = self._vocabulary.id_to_piece(token)
        return piece

    def _shown(self, token: int) -> str | bytes:
        vocabulary = self._vocabulary
        if token in SILENT_IDS or vocabulary.is_control(token) or vocabulary.is_unknown(token):
            return ""
        return "" if vocabulary.is_unused(token) else shown(self.piece(token))
