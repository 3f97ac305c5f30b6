"""Bytes of weights and of state, part by part, from nothing but a model's settings. No torch.

It counts what the modules of this package allocate; a test holds it against them.
"""

from __future__ import annotations

import math
from dataclasses import replace

from rtc_server.engine.personaplex.config import CODEBOOKS, CODEC_STEPS, MAX_TOP_K, TOKEN_ROWS, LmConfig, MimiConfig
from rtc_server.engine.personaplex.names import FRAME_RATE_KERNEL, Shape, lm_shapes, mimi_shapes
from rtc_server.engine.stepper import FRAME_SAMPLES

FLOAT_BYTES, INT_BYTES = 4, 8
TICK_BYTES = 2 * FRAME_SAMPLES * FLOAT_BYTES + TOKEN_ROWS * INT_BYTES
"""A row's frames and tokens on their way in and out."""
_TABLES = ("emb.", "text_emb.", "depformer_emb.", "depformer_text_emb.")


def lm_weights_bytes(config: LmConfig, *, steps: int, item_bytes: int, activation_bytes: int, bits: int) -> int:
    """`item_bytes` of a stored weight; with 8 bits matrices become int8 with a scale per output, tables stay."""

    def nbytes(name: str, shape: Shape) -> int:
        numbers = math.prod(shape)
        if name.endswith(".alpha"):
            return numbers * (item_bytes + FLOAT_BYTES)
        if bits == 8 and not name.startswith(_TABLES):
            return numbers + shape[0] * activation_bytes
        return numbers * item_bytes

    shapes = lm_shapes(replace(config, depformer_steps=steps))
    return sum(nbytes(name, shape) for name, shape in shapes.items())


def ring_bytes(config: LmConfig | MimiConfig, *, item_bytes: int, bits: int = 16) -> int:
    """Of one row's keys and values: a ring row for each position that is seen, and one that nobody reads.

    With 8 bits there is a float32 scale for each key and value of a head, and one layer's copy to compute with.
    """
    ring_rows = config.context if config.drop_oldest else config.context + 1
    pairs = 2 * config.heads * ring_rows
    head_dim = config.dim // config.heads
    index = (3 * config.heads + 2) * INT_BYTES
    if bits == 8:
        return config.layers * pairs * (head_dim + FLOAT_BYTES) + pairs * head_dim * item_bytes + index
    return config.layers * pairs * head_dim * item_bytes + index


def lm_row_bytes(config: LmConfig, *, steps: int, activation_bytes: int) -> int:
    """Of one row beside its ring: queries, keys and values of the depformer, and what lies between the matrices of its
    feed-forward layers; noise and settings of sampling; tokens."""
    depformer = 3 * config.depformer_layers * config.depformer_dim * steps + 2 * config.depformer_gating
    sampling = 2 * (1 + steps) * MAX_TOP_K * FLOAT_BYTES  # noise and handicaps
    return depformer * activation_bytes + sampling + (TOKEN_ROWS + 1) * INT_BYTES


def mimi_weights_bytes(config: MimiConfig) -> int:
    """float32. Codebooks are kept twice, as a table and as a matrix, with half the square of each entry's length."""
    shapes = mimi_shapes(replace(config, stored_codebooks=CODEBOOKS))
    unused = ("_initialized", "cluster_usage", "layer_scale_1.scale", "layer_scale_2.scale")
    numbers = sum(math.prod(shape) for name, shape in shapes.items() if not name.endswith(unused))
    return (numbers + CODEBOOKS * config.bins * (config.code_dim + 1)) * FLOAT_BYTES


def mimi_row_bytes(config: MimiConfig) -> int:
    """Of one row: both rings, and the past of every convolution: kernel - stride steps of its input."""
    past = config.dim * (FRAME_RATE_KERNEL - CODEC_STEPS) + config.dim  # down and up between 25 and 12.5 steps a second
    for name, shape in mimi_shapes(config).items():
        if name.startswith(("encoder.model", "decoder.model")) and name.endswith(".weight"):
            past += _past_numbers(name, shape)
    return past * FLOAT_BYTES + 2 * ring_bytes(config, item_bytes=FLOAT_BYTES)


def _past_numbers(name: str, shape: Shape) -> int:
    if ".convtr." in name:  # [in, out, 2 * stride]: one step of input
        return shape[0]
    _, channels, kernel = shape
    strided = kernel % 2 == 0  # 2 * stride; all others have an odd kernel and stride 1
    return channels * (kernel // 2 if strided else kernel - 1)
