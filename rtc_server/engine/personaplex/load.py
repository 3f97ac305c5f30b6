"""From what the operator said to a model on its device: checkpoint, voices, tokenizer, both networks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from rtc_server.engine.personaplex.checkpoint import locate
from rtc_server.engine.personaplex.config import ModelConfig
from rtc_server.engine.personaplex.device import dtype_name, free_bytes, parse_device, parse_dtype
from rtc_server.engine.personaplex.files import lm_weights, mimi_weights
from rtc_server.engine.personaplex.lm import LanguageModel
from rtc_server.engine.personaplex.memory import MemoryPlan, plan_memory
from rtc_server.engine.personaplex.mimi.codec import Mimi
from rtc_server.engine.personaplex.presence import DEFAULT_MODEL
from rtc_server.engine.personaplex.progress import meter_for
from rtc_server.engine.personaplex.prompt import FIXED_CALLS
from rtc_server.engine.personaplex.tokenizer import Tokenizer
from rtc_server.engine.personaplex.voices import VoiceShelf, shelf_of
from rtc_server.engine.registry import EngineOptions
from rtc_server.errors import EngineError
from rtc_server.log import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Model:
    """Everything that a stepper needs, ready to use."""

    name: str
    config: ModelConfig
    lm: LanguageModel
    mimi: Mimi
    tokenizer: Tokenizer
    shelf: VoiceShelf
    device: torch.device
    plan: MemoryPlan


def load_model(slots: int, options: EngineOptions) -> Model:
    """Takes minutes for a large model, more if it has to be fetched.

    Raises: ConfigError for an option that cannot be; CheckpointError for a checkpoint that is not whole or cannot be
    had; EngineError for memory that does not suffice, with the figures.
    """
    device = parse_device(options.device)
    dtype = parse_dtype(options.dtype, device)
    if device.type == "cuda":
        torch.cuda.set_device(device)  # of this thread; streams and graphs are made on it
    if device.type == "cpu":
        # One core is left to the packets: a tick that has to wait for it is late as a whole.
        torch.set_num_threads(options.threads or max(1, (os.cpu_count() or 1) - 1))
    meter = meter_for()
    checkpoint = locate(options.model or DEFAULT_MODEL, options.revision, meter)
    plan = plan_for(checkpoint.config, slots, options, device, dtype)
    config = plan.config
    check_fits(plan, device)
    with memory_explained(plan, device):
        with lm_weights(
            checkpoint, device=device, dtype=dtype, depformer_steps=options.depformer_steps, meter=meter
        ) as weights:
            lm = LanguageModel(
                weights,
                config.lm,
                rows=slots,
                device=device,
                dtype=dtype,
                depformer_steps=options.depformer_steps,
                weight_bits=options.weight_bits,
                kv_bits=options.kv_bits,
                pin_prompt=options.pin_prompt,
            )
        with mimi_weights(checkpoint, device=device, meter=meter) as weights:
            mimi = Mimi(weights, config.mimi, rows=slots, device=device)
    log.info("model loaded", model=checkpoint.name, device=str(device), dtype=str(dtype).removeprefix("torch."))
    most_calls = lm.kv.pin_limit - FIXED_CALLS if options.pin_prompt else None
    shelf = shelf_of(replace(checkpoint, config=config), options.voices, most_calls=most_calls)
    shelf.log_problems()
    tokenizer = Tokenizer(checkpoint.tokenizer_file, config.lm.text_card)
    return Model(checkpoint.name, config, lm, mimi, tokenizer, shelf, device, plan)


def plan_for(
    config: ModelConfig, slots: int, options: EngineOptions, device: torch.device, dtype: torch.dtype
) -> MemoryPlan:
    """What the options come to in bytes."""
    return plan_memory(
        config,
        slots=slots,
        dtype=dtype_name(dtype),
        depformer_steps=options.depformer_steps,
        weight_bits=options.weight_bits,
        kv_bits=options.kv_bits,
        max_context=options.max_context,
        device_type=device.type,
        pin_prompt=options.pin_prompt,
    )


@contextlib.contextmanager
def memory_explained(plan: MemoryPlan, device: torch.device) -> Iterator[None]:
    """Turns a lack of memory into an EngineError with the figures: somebody else on the device may have taken what was
    free a moment ago."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise EngineError(
            f"out of memory on {device} while the model was loading: {plan.describe()}",
            hint=plan.advice(free_bytes(device) or 0),
        ) from error


def check_fits(plan: MemoryPlan, device: torch.device) -> None:
    """Before a byte is loaded. Raises: EngineError with the figures, and which of them to lower."""
    free = free_bytes(device)
    if free is not None and (shortage := plan.shortage(free)) is not None:
        raise EngineError(f"{device} has too little memory: {shortage}", hint=plan.advice(free))
