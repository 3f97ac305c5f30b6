"""The 17 token rows of every conversation: delays, initial tokens, what is given and what is sampled. No network in it.

Row r of the frame of call c stands at position c + delay[r]. A call runs position c of the model and samples position
c + 1. With delays of at most D calls it can then emit frame c + 1 - D, whose last rows have just come, and is given
tokens as far ahead as position c + D: a window of 2 D positions is all there is to know. PersonaPlex and Moshi have
D = 1. A row holds its initial token at positions 0..delay[r], whatever was written there.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from rtc_server.engine.personaplex.config import TOKEN_ROWS, USER_ROWS, LmConfig

FREE = -2
"""A token that is not known yet: it will be sampled, or come with the next call."""
ZERO = -1
"""A token whose embedding is exactly zero."""


@dataclass(frozen=True, slots=True)
class Forced:
    """Text and agent tokens that a call is given instead of sampling them. User rows are given always.

    A given text or first code also replaces what the call before has sampled for this position.
    """

    tokens: Tensor
    """[n, 17] int64."""
    mask: Tensor
    """[n, 17] bool."""


@dataclass(frozen=True, slots=True)
class CallTokens:
    """What a call knows before the model has run."""

    window: Tensor
    """[n, 2 D, 17]: positions c + 1 - D to c + D of call c, FREE where nothing is known."""
    now: Tensor
    """[n, 17]: input of the model."""
    target: Tensor
    """[n, 17]: tokens of the next position; they count where `given`."""
    given: Tensor
    """[n, 17] bool."""


class TokenRows:
    """window [rows, 2 D, 17]: what the next call knows as yet; offset [rows]: the number of that call.

    Attributes:
        first: the first call of a conversation that emits a frame.
    """

    def __init__(self, rows: int, config: LmConfig, device: torch.device | str) -> None:
        self.first = max(config.delays)
        reach = max(1, self.first)
        self._now, self._target = reach - 1, reach
        self.window = torch.full((rows, 2 * reach, TOKEN_ROWS), FREE, device=device)
        self.offset = torch.zeros(rows, dtype=torch.int64, device=device)
        self._initial = torch.tensor(config.initial_tokens, device=device)
        delays = torch.tensor(config.delays, device=device)
        column = torch.arange(2 * reach, device=device)[:, None]
        self._comes = column == self._now + delays  # [2 D, 17]: where the tokens of a call's own frame go
        self._leaves = (reach - self.first + delays)[None, None]  # and where those of the frame come from that is whole
        # The last call that sees an initial token here. Moshi does not know of those that are still to come.
        ruled = column >= self._now if config.force_initial else column == self._now
        self._initial_until = torch.where(ruled, delays - (column - self._now), -1)
        self._users = torch.zeros(TOKEN_ROWS, dtype=torch.bool, device=device)
        self._users[USER_ROWS] = True
        self.bytes_per_row = (2 * reach * TOKEN_ROWS + 1) * self.window.element_size()

    def reset(self, row: int) -> None:
        """The next call is the first of a conversation."""
        self.load(row, 0, self._initial)

    def load(self, row: int, offset: int, tokens: Tensor) -> None:
        """The next call of a row is `offset`, and tokens [17] stand at its position; of the others nothing is known,
        which after an opening is true only of delays of at most one call."""
        self.window[row] = FREE
        self.window[row, self._now] = tokens
        self.offset[row] = offset

    def copy_row(self, source: int, target: int) -> None:
        self.window[target] = self.window[source]
        self.offset[target] = self.offset[source]

    def call(self, user: Tensor, forced: Forced | None = None) -> CallTokens:
        """user [n, 8]: the codes of this call's frame, for the first n rows."""
        n = user.shape[0]
        frame, given = pad(user, (USER_ROWS.start, 0)), self._users
        if forced is not None:
            frame = torch.where(given, frame, forced.tokens)
            given = given | forced.mask
        window = torch.where(self._comes & given[..., None, :], frame[:, None], self.window[:n])
        window = torch.where(self.offset[:n, None, None] <= self._initial_until, self._initial, window)
        target = window[:, self._target]
        return CallTokens(window, window[:, self._now], target, target != FREE)

    def finish(self, call: CallTokens, chosen: Tensor, active: Tensor) -> Tensor:
        """chosen [n, 9]: text and agent tokens of the next position, given ones included. Active rows go on to it.

        Returns the frame [n, 17] that is whole now. It means something from call `first` on.
        """
        n = len(active)
        after = torch.cat([chosen, call.target[:, USER_ROWS]], 1)[:, None]
        known = torch.cat([call.window[:, : self._target], after], 1)  # [n, D + 1, 17]: up to the next position
        ahead = call.window[:, self._target + 1 :]
        moved = torch.cat([known[:, 1:], ahead, torch.full_like(after, FREE)], 1)
        window = self.window[:n]
        window.copy_(torch.where(active[:, None, None], moved, window))
        self.offset[:n].add_(active)
        return known.gather(1, self._leaves.expand(n, 1, -1))[:, 0]
