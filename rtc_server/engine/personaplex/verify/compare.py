"""Tensors against what they should be."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rtc_server.engine.personaplex.verify.report import Report

HIDDEN_LIMIT = 1e-4
"""Of hidden states, and of what lies between the layers of the codec, where values reach ten."""
TEXT_LOGITS_LIMIT = 1e-4
CODE_LOGITS_LIMIT = 2e-4
"""Another order of additions alone makes half of it."""
PCM_LIMIT = 1e-5


@dataclass(frozen=True, slots=True)
class Comparison:
    """Notes in a report what it is shown."""

    report: Report

    def near(self, group: str, got: Tensor, want: Tensor, limit: float) -> None:
        """Both of one shape, any device and float type."""
        line = self.report.group(group, limit)
        if got.shape != want.shape:
            line.problems.append(f"shape {list(got.shape)} instead of {list(want.shape)}")
        elif got.numel():
            error = (got.detach().cpu().double() - want.cpu().double()).abs()
            line.add_error(error.max().item(), got.numel())

    def same(self, group: str, got: Tensor, want: Tensor, place: str) -> bool:
        """Tokens. `place` says where they come from, as ``call 13``. True when they are equal."""
        line = self.report.group(group)
        if got.shape != want.shape:
            line.problems.append(f"{place}: shape {list(got.shape)} instead of {list(want.shape)}")
            return False
        got, want = got.detach().cpu(), want.cpu()
        wrong = (got != want).nonzero()
        first = ""
        if len(wrong):
            index = tuple(wrong[0].tolist())
            at = f", index {', '.join(map(str, index))}" if index else ""
            first = f"{place}{at}: {int(got[index])} instead of {int(want[index])}"
        line.add_tokens(got.numel(), len(wrong), first)
        return not len(wrong)

    def true(self, group: str, holds: bool, otherwise: str) -> None:
        """A fact that is no number."""
        line = self.report.group(group)
        if not holds:
            line.problems.append(otherwise)
