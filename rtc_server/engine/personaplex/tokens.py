"""The 17 token rows of every conversation: delays, initial tokens, what is given and what is sampled. No network in it.

Row r of the frame of call c stands at position c + delay[r]. A call runs position c of the model and samples position
c + 1, and no delay is longer than one call, so two positions are all there is to know. A row holds its initial token at
positions 0..delay[r], whatever was written there.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from rtc_server.engine.personaplex.config import DELAYS, TOKEN_ROWS, USER_ROWS, LmConfig

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
    """What a call knows before the model has run; all [n, 17]."""

    now: Tensor
    """Input of the model."""
    target: Tensor
    """Tokens of the next position; they count where `given`."""
    given: Tensor
    """bool."""


class TokenRows:
    """current [rows, 17]: the next call's position as far as it is known; offset [rows]: the number of that call."""

    def __init__(self, rows: int, config: LmConfig, device: torch.device | str) -> None:
        self.current = torch.zeros(rows, TOKEN_ROWS, dtype=torch.int64, device=device)
        self.offset = torch.zeros(rows, dtype=torch.int64, device=device)
        self._force_initial = config.force_initial
        self._initial = torch.tensor(config.initial_tokens, device=device)
        self._delays = torch.tensor(DELAYS, device=device)
        self._late = self._delays > 0
        self._users = torch.zeros(TOKEN_ROWS, dtype=torch.bool, device=device)
        self._users[USER_ROWS] = True
        self.bytes_per_row = (TOKEN_ROWS + 1) * self.current.element_size()

    def reset(self, row: int) -> None:
        """The next call is the first of a conversation."""
        self.load(row, 0, self._initial)

    def load(self, row: int, offset: int, tokens: Tensor) -> None:
        """The next call of a row is `offset`, and tokens [17] stand at its position."""
        self.current[row] = tokens
        self.offset[row] = offset

    def copy_row(self, source: int, target: int) -> None:
        self.current[target] = self.current[source]
        self.offset[target] = self.offset[source]

    def call(self, user: Tensor, forced: Forced | None = None) -> CallTokens:
        """user [n, 8]: the codes of this call's frame, for the first n rows."""
        n = user.shape[0]
        call, given = pad(user, (USER_ROWS.start, 0)), self._users
        if forced is not None:
            call = torch.where(given, call, forced.tokens)
            given = given | forced.mask
        position = self.offset[:n, None]
        now = torch.where(given & ~self._late, call, self.current[:n])
        now = torch.where(position <= self._delays, self._initial, now)
        given = given & self._late
        if self._force_initial:
            early = position < self._delays
            return CallTokens(now, torch.where(early, self._initial, call), given | early)
        return CallTokens(now, call, given.expand(n, -1))

    def finish(self, call: CallTokens, chosen: Tensor, active: Tensor) -> Tensor:
        """chosen [n, 9]: text and agent tokens of the next position, given ones included. Active rows go on to it.

        Returns the call's frame [n, 17]. It means something from call 1 on.
        """
        n = len(active)
        after = torch.cat([chosen, call.target[:, USER_ROWS]], 1)
        current = self.current[:n]
        current.copy_(torch.where(active[:, None], after, current))
        self.offset[:n].add_(active)
        return torch.where(self._late, after, call.now)
