"""One number of slots at one age: the model, its bounds and its peers, measured by turns as often as one likes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import torch

from rtc_server.engine.personaplex.bench import clock as clocks
from rtc_server.engine.personaplex.bench.clock import Clock, Subject, Timing, by_turns
from rtc_server.engine.personaplex.bench.peer import Peer
from rtc_server.engine.personaplex.bench.products import (
    MOST_BYTES,
    Bare,
    InForm,
    Product,
    lm_products,
    mimi_products,
    weight_bytes,
)
from rtc_server.engine.personaplex.bench.rounding import Error, call_errors, product_errors
from rtc_server.engine.personaplex.bench.spec import EngineBench
from rtc_server.engine.personaplex.bench.subjects import CodecPart, LanguagePart, Part, Timed, TimedProducts, WholePart
from rtc_server.engine.personaplex.config import LmConfig, MimiConfig
from rtc_server.engine.personaplex.device import dtype_name, free_bytes, parse_device, parse_dtype
from rtc_server.engine.personaplex.lm import LanguageModel
from rtc_server.engine.personaplex.matrix import activation_dtype
from rtc_server.engine.personaplex.memory import plan_memory
from rtc_server.engine.personaplex.mimi.codec import Mimi
from rtc_server.engine.personaplex.names import lm_shapes, mimi_shapes
from rtc_server.engine.personaplex.randomweights import RandomWeights
from rtc_server.errors import ConfigError

Figures = dict[str, float | int | str | bool | None]

PEER_STEPS = (8, 16)
FLOAT_BYTES = 4
