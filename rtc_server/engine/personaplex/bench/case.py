"""One number of slots at one age: the engine, its bounds and its peers, measured by turns as often as one likes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import torch

from rtc_server.engine.personaplex.bench.clock import Subject, by_turns
from rtc_server.engine.personaplex.bench.machine import Machine
from rtc_server.engine.personaplex.bench.peer import Peer, language_settings
from rtc_server.engine.personaplex.bench.products import (
    Bare,
    InForm,
    Product,
    lm_products,
    mimi_products,
    weight_bytes,
)
from rtc_server.engine.personaplex.bench.rounding import Error, call_errors, product_errors
from rtc_server.engine.personaplex.bench.spec import EngineBench
from rtc_server.engine.personaplex.bench.subjects import CodecPart, LanguagePart, Timed, TimedProducts, WholePart
from rtc_server.engine.personaplex.device import free_bytes, parse_device, parse_dtype
from rtc_server.engine.personaplex.footprint import FLOAT_BYTES
from rtc_server.engine.personaplex.lm import LanguageModel
from rtc_server.engine.personaplex.matrix import activation_dtype
from rtc_server.engine.personaplex.memory import plan_memory
from rtc_server.engine.personaplex.mimi.codec import Mimi
from rtc_server.engine.personaplex.rows import batch_size

Figures = dict[str, float | int | str | bool | None]

PEER_STEPS = (8, 16)
"""Depformer steps of the two published models."""


def cases(spec: EngineBench) -> Iterator[Case]:
    """Each number of slots at each age, ready to be measured until the next one is asked for.

    Raises: ConfigError for memory that does not suffice, a device that is not there, and a peer that cannot be run.
    """
    machine = Machine(spec)
    for slots in spec.slots:
        machine.check_memory(slots)
        lm = machine.language_model(slots) if spec.part in ("lm", "all") else None
        mimi = machine.codec(slots) if spec.part in ("mimi", "all") else None
        for fill in spec.fill:
            with Case(machine, lm, mimi, slots=slots, fill=fill) as case:
                yield case
        del lm, mimi  # two models at a time might not fit


def rounding_errors(spec: EngineBench) -> Iterator[Error]:
    """Of int8 weights, shape by shape, and of a whole call; nothing where nothing is rounded.

    The whole call is left out where a model in float32 does not fit.
    """
    if (spec.weight_bits, spec.kv_bits) == (16, 16) or spec.part == "mimi":
        return
    device = parse_device(spec.device)
    dtype, config = parse_dtype(spec.dtype, device), spec.config.lm
    with torch.inference_mode():
        if spec.weight_bits == 8:
            yield from product_errors(config, steps=spec.depformer_steps, device=device, dtype=dtype)
        plan = plan_memory(spec.config, slots=1, dtype="f32", device_type=device.type)
        free = free_bytes(device)
        if free is None or plan.total_bytes <= free:
            yield from call_errors(
                config, weight_bits=spec.weight_bits, kv_bits=spec.kv_bits, device=device, dtype=dtype
            )


class Case:
    """A context manager: leaving it ends the peers and lets go of the model."""

    def __init__(self, machine: Machine, lm: LanguageModel | None, mimi: Mimi | None, *, slots: int, fill: int) -> None:
        self._machine, self._spec = machine, machine.spec
        self.slots, self.fill = slots, fill
        self._live = machine.spec.live or slots
        self._stack = ExitStack()
        self._weight_bytes = self._key_bytes = 0
        with torch.inference_mode():
            self._subjects = self._build(lm, mimi)

    def __enter__(self) -> Self:
        try:
            self._start_peers()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self._subjects.clear()

    def measure(self) -> Figures:
        """Everything once, by turns. Times in ms, per call."""
        with torch.inference_mode():
            one_thread = self._machine.clock.one_thread
            timings = by_turns(list(self._subjects.values()), self._spec.ticks, one_thread=one_thread)
        ms = {name: timing.ms for name, timing in zip(self._subjects, timings, strict=True)}
        tick_ms, read_bytes = ms["tick"], self._weight_bytes + self._live * self._key_bytes
        limit_ms = read_bytes / self._machine.bytes_per_s * 1e3
        figures: Figures = {
            "part": self._spec.part,
            "preset": self._spec.preset,
            "device": self._machine.name,
            "dtype": self._machine.dtype_name,
            "weight_bits": self._spec.weight_bits,
            "kv_bits": self._spec.kv_bits,
            "depformer_steps": self._spec.depformer_steps,
            "threads": torch.get_num_threads() if self._machine.device.type == "cpu" else None,
            "slots": self.slots,
            "live": self._live,
            "fill": self.fill,
            "tick_ms": _rounded(tick_ms),
            "best_ms": _rounded(timings[0].best_ms),
            "bytes": read_bytes,
            "key_bytes_per_slot": self._key_bytes,
            "gb_per_s": _rounded(self._machine.bytes_per_s / 1e9),
            "limit_ms": _rounded(limit_ms),
            "of_limit": _rounded(tick_ms / limit_ms),
        }
        for name, other_ms in ms.items():
            if name != "tick":
                figures[f"{name}_ms"] = _rounded(other_ms)
                figures[f"of_{name}"] = _rounded(tick_ms / other_ms)
        return figures

    # ---- what is measured --------------------------------------------------------------------------------------------

    def _build(self, lm: LanguageModel | None, mimi: Mimi | None) -> dict[str, Subject]:
        machine, device, clock = self._machine, self._machine.device, self._machine.clock
        n = batch_size(self._live, self.slots)
        language = LanguagePart(lm, live=self._live, fill=self.fill, device=device) if lm is not None else None
        codec = (
            CodecPart(mimi, slots=self.slots, live=self._live, fill=self.fill, device=device)
            if mimi is not None
            else None
        )
        bare, formed = [], []
        if language is not None:
            products = lm_products(machine.config.lm, self._spec.depformer_steps)
            self._count_language(products, language.keys)
            bare.append(Bare(products, n, device, machine.dtype))
            formed.append(InForm(products, n, self.slots, device, machine.dtype, self._spec.weight_bits))
        if codec is not None:
            products = mimi_products(machine.config.mimi)
            self._count_codec(products, codec.keys)
            bare.append(Bare(products, n, device, torch.float32))
            formed.append(InForm(products, n, self.slots, device, torch.float32, bits=16))
        part = (
            WholePart(language, codec, slots=self.slots, live=self._live, device=device)
            if language is not None and codec is not None
            else language or codec
        )
        assert part is not None
        return {
            "tick": Timed(part, clock, device),
            "floor": TimedProducts(bare, clock, device),
            "best_form": TimedProducts(formed, clock, device),
        }

    def _count_language(self, products: list[Product], keys: int) -> None:
        config, dtype, bits = self._machine.config.lm, self._machine.dtype, self._spec.kv_bits
        self._weight_bytes += weight_bytes(products, item_bytes=dtype.itemsize, bits=self._spec.weight_bits)
        item_bytes = activation_dtype(self._machine.device, dtype).itemsize
        head_bytes = config.dim // config.heads + FLOAT_BYTES if bits == 8 else config.dim // config.heads * item_bytes
        self._key_bytes += 2 * config.layers * config.heads * keys * head_bytes

    def _count_codec(self, products: list[Product], keys: int) -> None:
        config = self._machine.config.mimi
        self._weight_bytes += weight_bytes(products, item_bytes=FLOAT_BYTES)
        self._key_bytes += 2 * 2 * config.layers * keys * config.dim * FLOAT_BYTES

    def _start_peers(self) -> None:
        if self._spec.peer is None:
            return
        if self._spec.part == "mimi":
            models: dict[str, dict[str, object]] = {"moshi": {}}
        else:
            config = self._machine.config.lm
            models = {f"moshi{steps}": language_settings(config, steps) for steps in PEER_STEPS}
        for name, model in models.items():
            peer = Peer(self._spec.peer, model, self.slots, self._spec.threads, str(self._machine.device))
            self._subjects[name] = self._stack.enter_context(peer)


def _rounded(value: float) -> float:
    return round(value, 3)
