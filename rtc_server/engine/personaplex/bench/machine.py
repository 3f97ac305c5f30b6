"""The machine that is measured: device, type of the weights, clock, memory; and models for it out of random weights."""

from __future__ import annotations

import torch

from rtc_server.engine.personaplex.bench.clock import bytes_per_second, clock_of
from rtc_server.engine.personaplex.bench.products import MOST_BYTES
from rtc_server.engine.personaplex.bench.spec import EngineBench
from rtc_server.engine.personaplex.device import device_name, dtype_name, free_bytes, parse_device, parse_dtype
from rtc_server.engine.personaplex.lm import LanguageModel
from rtc_server.engine.personaplex.memory import plan_memory
from rtc_server.engine.personaplex.mimi.codec import Mimi
from rtc_server.engine.personaplex.names import lm_shapes, mimi_shapes
from rtc_server.engine.personaplex.randomweights import RandomWeights
from rtc_server.errors import ConfigError

PRODUCT_SETS = 2
"""Bare products keep weights of their own: as stored, and in the engine's form."""


class Machine:
    """Raises: ConfigError for a device that is not there.

    Attributes:
        bytes_per_s: what the memory gives to a reader.
    """

    def __init__(self, spec: EngineBench) -> None:
        if spec.threads is not None:
            torch.set_num_threads(spec.threads)
        self.spec, self.config = spec, spec.config
        self.device = parse_device(spec.device)
        self.dtype = parse_dtype(spec.dtype, self.device)
        self.clock = clock_of(self.device)
        self.bytes_per_s = bytes_per_second(self.clock, self.device, spec.buffer_bytes)

    @property
    def dtype_name(self) -> str:
        return dtype_name(self.dtype)

    @property
    def name(self) -> str:
        return device_name(self.device)

    def check_memory(self, slots: int) -> None:
        """Raises: ConfigError with the figures when it does not suffice, as far as that can be told."""
        plan = plan_memory(
            self.config,
            slots=slots,
            dtype=self.dtype_name,
            depformer_steps=self.spec.depformer_steps,
            weight_bits=self.spec.weight_bits,
            kv_bits=self.spec.kv_bits,
            device_type=self.device.type,
        )
        bounds_bytes = PRODUCT_SETS * min(plan.load_bytes, MOST_BYTES)
        free = free_bytes(self.device)
        if free is not None and plan.total_bytes + bounds_bytes > free:
            raise ConfigError(
                f"the model of {slots} slots takes {plan.describe()}, its bounds {bounds_bytes / 1e9:.1f} GB more;"
                f" {free / 1e9:.1f} GB are free on {self.device}",
                hint=plan.advice(free - bounds_bytes),
            )

    def language_model(self, slots: int) -> LanguageModel:
        config = self.config.lm
        return LanguageModel(
            RandomWeights(lm_shapes(config), self.device, self.dtype),
            config,
            rows=slots,
            device=self.device,
            dtype=self.dtype,
            depformer_steps=self.spec.depformer_steps,
            weight_bits=self.spec.weight_bits,
            kv_bits=self.spec.kv_bits,
        )

    def codec(self, slots: int) -> Mimi:
        config = self.config.mimi
        weights = RandomWeights(mimi_shapes(config), self.device, torch.float32)
        return Mimi(weights, config, rows=slots, device=self.device)
