"""How much memory a model and its slots take, and what to lower when that is too much. No torch, no file.

Device memory on a GPU, ordinary memory on a CPU. Everything is allocated at start: what fits then fits for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from rtc_server.engine.personaplex.config import ModelConfig
from rtc_server.engine.personaplex.footprint import (
    FLOAT_BYTES,
    TICK_BYTES,
    lm_row_bytes,
    lm_weights_bytes,
    mimi_row_bytes,
    mimi_weights_bytes,
    ring_bytes,
)
from rtc_server.engine.personaplex.header import ITEM_BYTES
from rtc_server.engine.stepper import FRAME_S

WORK_BYTES = {"cpu": 1 << 28, "cuda": 1 << 30}
"""Room for what a call makes on its way and for the libraries: an estimate, where all else is counted."""
PINNED_POSITIONS = 300
"""Of a pinned prompt, which is kept a second time: a voice of ten seconds and a persona of 150 words. An estimate."""
LEAST_CONTEXT = 256
"""Positions; a shorter memory than these twenty seconds is not worth advising."""


@dataclass(frozen=True)
class MemoryPlan:
    """What a model takes with so many slots; the fields are what was asked for."""

    config: ModelConfig
    """With the context that a slot is to have."""
    slots: int
    dtype: str
    """Of the weights: ``f32``, ``f16`` or ``bf16``."""
    depformer_steps: int
    weight_bits: int
    kv_bits: int
    device_type: str
    pin_prompt: bool = False

    @cached_property
    def load_bytes(self) -> int:
        """The weights of both networks, in the form in which they are kept."""
        return mimi_weights_bytes(self.config.mimi) + lm_weights_bytes(
            self.config.lm,
            steps=self.depformer_steps,
            item_bytes=self._item_bytes,
            activation_bytes=self._activation_bytes,
            bits=self.weight_bits,
        )

    @cached_property
    def ring_bytes_per_slot(self) -> int:
        """What a slot remembers: the part of it that grows with the context."""
        return ring_bytes(self.config.lm, item_bytes=self._activation_bytes, bits=self.kv_bits)

    @cached_property
    def bytes_per_slot(self) -> int:
        state = lm_row_bytes(self.config.lm, steps=self.depformer_steps, activation_bytes=self._activation_bytes)
        return self.ring_bytes_per_slot + self._pinned_bytes + state + mimi_row_bytes(self.config.mimi) + TICK_BYTES

    @property
    def _pinned_bytes(self) -> int:
        return self.ring_bytes_per_slot * min(PINNED_POSITIONS, self.context) // self.context if self.pin_prompt else 0

    @property
    def prompt_cache_bytes(self) -> int:
        """Prompts that were worked through, for the next who asks for the same: as much as one slot remembers."""
        return self.ring_bytes_per_slot

    @property
    def fixed_bytes(self) -> int:
        """What does not depend on the number of slots."""
        return self.load_bytes + self.prompt_cache_bytes + WORK_BYTES[self.device_type]

    @property
    def total_bytes(self) -> int:
        return self.fixed_bytes + self.slots * self.bytes_per_slot

    @property
    def context(self) -> int:
        return self.config.lm.context

    @property
    def _item_bytes(self) -> int:
        return ITEM_BYTES[self.dtype.upper()]

    @property
    def _activation_bytes(self) -> int:
        return FLOAT_BYTES if self.device_type == "cpu" else self._item_bytes

    def slots_in(self, free_bytes: int) -> int:
        """The largest number of slots that fits, with all else as planned."""
        return max(0, (free_bytes - self.fixed_bytes) // self.bytes_per_slot)

    def context_in(self, free_bytes: int) -> int:
        """The longest context with which the slots fit, at most the planned one; 0 when none does."""
        per_position = self.ring_bytes_per_slot / (self.context + 1) * (self.slots + 1)  # one more: the prompts
        missing_bytes = max(0, self.total_bytes - free_bytes)
        return max(0, int(self.context - missing_bytes / per_position))

    def describe(self) -> str:
        """One line for people: ``load 15.3 GB + 4 slots of 1.62 GB + prompts 1.57 GB + work 1.1 GB = 24.4 GB``."""
        parts = (
            f"load {_size(self.load_bytes)}",
            f"{self.slots} slot{'s' * (self.slots != 1)} of {_size(self.bytes_per_slot)}"
            f" ({self.context} positions, {self.context * FRAME_S:.0f} s)",
            f"prompts {_size(self.prompt_cache_bytes)}",
            f"work about {_size(WORK_BYTES[self.device_type])}",
        )
        return f"{' + '.join(parts)} = {_size(self.total_bytes)}"

    def shortage(self, free_bytes: int) -> str | None:
        """A sentence with the figures when the plan does not fit into what is free."""
        if self.total_bytes <= free_bytes:
            return None
        return f"{_size(self.total_bytes)} of memory are needed, {_size(free_bytes)} are free: {self.describe()}"

    def advice(self, free_bytes: int) -> str:
        """What to lower so that it fits: each thing that is enough by itself, or else several together."""
        if enough := list(self._single_remedies(free_bytes)):
            return f"any of these is enough: {', '.join(enough)}"
        for change in self._combined_remedies(free_bytes):
            if change.total_bytes <= free_bytes:
                return f"only together are these enough: {change._flags_against(self)} ({_size(change.total_bytes)})"
        least = replace(self._in_small_forms()._with_context(LEAST_CONTEXT), slots=1)
        flags = least._flags_against(self)
        return f"even {flags} takes {_size(least.total_bytes)}: a device with more memory is needed"

    def _single_remedies(self, free_bytes: int) -> Iterator[str]:
        if (slots := self.slots_in(free_bytes)) > 0:
            yield f"--slots {slots}"
        if (context := self.context_in(free_bytes)) >= LEAST_CONTEXT:
            yield f"--max-context {context} ({context * FRAME_S:.0f} s)"
        for change in (replace(self, dtype=self._small_dtype), replace(self, weight_bits=8), replace(self, kv_bits=8)):
            if change.total_bytes <= free_bytes:
                yield f"{change._flags_against(self)} ({_size(change.total_bytes)})"

    def _combined_remedies(self, free_bytes: int) -> Iterator[MemoryPlan]:
        """From the mildest to the hardest; not all of them fit."""
        small = self._in_small_forms()
        yield small
        if (context := small.context_in(free_bytes)) >= LEAST_CONTEXT:
            yield small._with_context(context)
        for least in (small, small._with_context(LEAST_CONTEXT)):
            if (slots := least.slots_in(free_bytes)) > 0:
                yield replace(least, slots=slots)

    @property
    def _small_dtype(self) -> str:
        return "bf16" if self.dtype == "f32" else self.dtype

    def _in_small_forms(self) -> MemoryPlan:
        return replace(self, dtype=self._small_dtype, weight_bits=8, kv_bits=8)

    def _with_context(self, context: int) -> MemoryPlan:
        lm = replace(self.config.lm, context=min(context, self.context))
        return replace(self, config=replace(self.config, lm=lm))

    def _flags_against(self, other: MemoryPlan) -> str:
        """What an operator adds to get from the other plan to this one."""
        flags = (
            (self.slots, other.slots, f"--slots {self.slots}"),
            (self.context, other.context, f"--max-context {self.context}"),
            (self.dtype, other.dtype, f"--dtype {self.dtype}"),
            (self.weight_bits, other.weight_bits, "--weights int8"),
            (self.kv_bits, other.kv_bits, "--kv int8"),
        )
        return " ".join(flag for mine, its, flag in flags if mine != its)


def plan_memory(
    config: ModelConfig,
    *,
    slots: int,
    dtype: str,
    depformer_steps: int = 8,
    weight_bits: int = 16,
    kv_bits: int = 16,
    max_context: int | None = None,
    device_type: str = "cuda",
    pin_prompt: bool = False,
) -> MemoryPlan:
    """`max_context` None: what the model was made for, which is also the most."""
    plan = MemoryPlan(config, slots, dtype, depformer_steps, weight_bits, kv_bits, device_type, pin_prompt)
    return plan if max_context is None else plan._with_context(max_context)


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
