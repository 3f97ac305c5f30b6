"""What ``rtc-server check`` says about this engine: no tensor is loaded and nothing is fetched for it."""

from __future__ import annotations

from rtc_server.engine.personaplex.checkpoint import at_hand
from rtc_server.engine.personaplex.config import MOSHIKO, PERSONAPLEX_7B
from rtc_server.engine.personaplex.device import parse_device, parse_dtype
from rtc_server.engine.personaplex.load import check_fits, plan_for
from rtc_server.engine.personaplex.presence import DEFAULT_MODEL
from rtc_server.engine.registry import EngineOptions

PUBLISHED = {DEFAULT_MODEL: PERSONAPLEX_7B, "kyutai/moshiko-pytorch-bf16": MOSHIKO}


def report(options: EngineOptions) -> str:
    """Model, device and memory, in two sentences.

    Raises: ConfigError and EngineError, as loading would, for what can be known before it.
    """
    device = parse_device(options.device)
    dtype = parse_dtype(options.dtype, device)
    name = options.model or DEFAULT_MODEL
    checkpoint = at_hand(name, options.revision)
    place = "to be fetched at the first start" if checkpoint is None else "on this machine"
    config = PUBLISHED.get(name) if checkpoint is None else checkpoint.config
    if config is None:
        return f"{name} on {device}, {place}."
    plan = plan_for(config, options.slots, options, device, dtype)
    check_fits(plan, device)
    return f"{name} on {device}, {place}. Memory: {plan.describe()}."
