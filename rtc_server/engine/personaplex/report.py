"""What ``rtc-server check`` says about this engine: no tensor is loaded and nothing is fetched for it."""

from __future__ import annotations

from pathlib import Path

from rtc_server.engine.personaplex.checkpoint import is_repository, locate
from rtc_server.engine.personaplex.config import MOSHIKO, PERSONAPLEX_7B
from rtc_server.engine.personaplex.device import parse_device, parse_dtype
from rtc_server.engine.personaplex.load import check_fits, plan_for
from rtc_server.engine.personaplex.presence import DEFAULT_MODEL, is_downloaded
from rtc_server.engine.registry import EngineOptions

PUBLISHED = {DEFAULT_MODEL: PERSONAPLEX_7B, "kyutai/moshiko-pytorch-bf16": MOSHIKO}


def report(options: EngineOptions) -> str:
    """Model, device and memory, in two sentences.

    Raises: ConfigError and EngineError, as loading would, for what can be known before it.
    """
    device = parse_device(options.device)
    dtype = parse_dtype(options.dtype, device)
    name = options.model or DEFAULT_MODEL
    place = "to be fetched at the first start"
    config = PUBLISHED.get(name)
    if is_downloaded(name) or not is_repository(name) or Path(name).exists():
        config, place = locate(name, options.revision).config, "on this machine"
    if config is None:
        return f"{name} on {device}, {place}."
    plan = plan_for(config, options.slots, options, device, dtype)
    check_fits(plan, device)
    return f"{name} on {device}, {place}. Memory: {plan.describe()}."
