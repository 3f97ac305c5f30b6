"""Every tensor of a checkpoint: its name, its shape, and the other names that it goes by. No torch.

The names that the engine asks for are those of the published checkpoints. Newer releases of the reference keep each
block of a stacked projection as a tensor of its own (``in_projs.3.weight``), and older codecs name the buffers of a
codebook differently: `find` knows both.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from rtc_server.engine.personaplex.config import CODEBOOKS, LmConfig, MimiConfig

Shape = tuple[int, ...]

AUDIO_TABLES = 2 * CODEBOOKS
"""The agent's codebooks and the user's."""
MAX_STEP_SETS = 2 * CODEBOOKS
OUTER_KERNEL, RESIDUAL_KERNEL, LAST_KERNEL = 7, 3, 3
FRAME_RATE_KERNEL = 4
"""Of the convolutions between 25 and 12.5 steps a second."""

_STACKED = {"in_proj_weight": ("in_proj.weight", "in_projs"), "out_proj.weight": ("out_proj", "out_projs")}
_OTHER_NAMES = {
    "_initialized": ("inited",),
    "cluster_usage": ("cluster_size",),
    "embedding_sum": ("embed_sum", "embed_avg"),
}
_STEP_SET = re.compile(r"(?:linears|depformer_in)\.(\d+)\.weight")
_CODEBOOK = re.compile(r"quantizer\.rvq_rest\.vq\.layers\.(\d+)\..*")


def lm_shapes(config: LmConfig) -> dict[str, Shape]:
    """The language model's tensors, with `config.depformer_steps` step sets.

    The depformer's projections hold one block of rows a step: ``in_proj_weight`` is [steps * 3 * dim, dim].
    """
    dim, small, steps = config.dim, config.depformer_dim, config.depformer_steps
    shapes: dict[str, Shape] = {f"emb.{index}.weight": (config.card + 1, dim) for index in range(AUDIO_TABLES)}
    shapes["text_emb.weight"] = (config.text_card + 1, dim)
    shapes["text_linear.weight"] = (config.text_card, dim)
    for layer in range(config.layers):
        prefix = f"transformer.layers.{layer}"
        shapes |= _attention(prefix, dim, blocks=1)
        shapes |= _gating(f"{prefix}.gating", dim, config.gating)
    shapes["out_norm.alpha"] = (1, 1, dim)
    shapes["depformer_text_emb.weight"] = (config.text_card + 1, small)
    shapes |= {f"depformer_emb.{step}.weight": (config.card + 1, small) for step in range(steps - 1)}
    for step in range(steps):
        shapes[f"depformer_in.{step}.weight"] = (small, dim)
        shapes[f"linears.{step}.weight"] = (config.card, small)
    for layer in range(config.depformer_layers):
        prefix = f"depformer.layers.{layer}"
        shapes |= _attention(prefix, small, blocks=steps)
        for step in range(steps):
            shapes |= _gating(f"{prefix}.gating.{step}", small, config.depformer_gating)
    return shapes


def _attention(layer: str, dim: int, blocks: int) -> dict[str, Shape]:
    return {
        f"{layer}.self_attn.in_proj_weight": (blocks * 3 * dim, dim),
        f"{layer}.self_attn.out_proj.weight": (blocks * dim, dim),
        f"{layer}.norm1.alpha": (1, 1, dim),
        f"{layer}.norm2.alpha": (1, 1, dim),
    }


def _gating(prefix: str, dim: int, width: int) -> dict[str, Shape]:
    return {f"{prefix}.linear_in.weight": (2 * width, dim), f"{prefix}.linear_out.weight": (dim, width)}


def mimi_shapes(config: MimiConfig) -> dict[str, Shape]:
    """The codec's tensors, with `config.stored_codebooks` codebooks."""
    shapes = _encoder(config) | _decoder(config)
    for side in ("encoder", "decoder"):
        for layer in range(config.layers):
            shapes |= _codec_layer(f"{side}_transformer.transformer.layers.{layer}", config)
    for part, codebooks in (("rvq_first", 1), ("rvq_rest", config.stored_codebooks - 1)):
        shapes |= _quantizer(f"quantizer.{part}", config, codebooks)
    shapes["downsample.conv.conv.conv.weight"] = (config.dim, config.dim, FRAME_RATE_KERNEL)
    shapes["upsample.convtr.convtr.convtr.weight"] = (config.dim, 1, FRAME_RATE_KERNEL)
    return shapes


def _encoder(config: MimiConfig) -> dict[str, Shape]:
    """Modules of a sequence: a convolution, then per ratio a residual block, an ELU and a strided convolution."""
    channels = config.filters
    shapes = _convolution("encoder.model.0.conv.conv", (channels, 1, OUTER_KERNEL))
    for index, ratio in enumerate(reversed(config.ratios)):
        shapes |= _residual_block(f"encoder.model.{3 * index + 1}", channels)
        shapes |= _convolution(f"encoder.model.{3 * index + 3}.conv.conv", (2 * channels, channels, 2 * ratio))
        channels *= 2
    last = 3 * len(config.ratios) + 2
    return shapes | _convolution(f"encoder.model.{last}.conv.conv", (config.dim, channels, LAST_KERNEL))


def _decoder(config: MimiConfig) -> dict[str, Shape]:
    """A convolution, then per ratio an ELU, a transposed convolution and a residual block."""
    channels = config.filters << len(config.ratios)
    shapes = _convolution("decoder.model.0.conv.conv", (channels, config.dim, OUTER_KERNEL))
    for index, ratio in enumerate(config.ratios):
        convtr = f"decoder.model.{3 * index + 2}.convtr.convtr"
        channels //= 2
        shapes[f"{convtr}.weight"] = (2 * channels, channels, 2 * ratio)
        shapes[f"{convtr}.bias"] = (channels,)
        shapes |= _residual_block(f"decoder.model.{3 * index + 3}", channels)
    last = 3 * len(config.ratios) + 2
    return shapes | _convolution(f"decoder.model.{last}.conv.conv", (1, channels, LAST_KERNEL))


def _convolution(prefix: str, weight: Shape) -> dict[str, Shape]:
    return {f"{prefix}.weight": weight, f"{prefix}.bias": weight[:1]}


def _residual_block(prefix: str, channels: int) -> dict[str, Shape]:
    narrow = channels // 2
    return _convolution(f"{prefix}.block.1.conv.conv", (narrow, channels, RESIDUAL_KERNEL)) | _convolution(
        f"{prefix}.block.3.conv.conv", (channels, narrow, 1)
    )


def _codec_layer(prefix: str, config: MimiConfig) -> dict[str, Shape]:
    dim = config.dim
    shapes: dict[str, Shape] = {
        f"{prefix}.self_attn.in_proj_weight": (3 * dim, dim),
        f"{prefix}.self_attn.out_proj.weight": (dim, dim),
        f"{prefix}.linear1.weight": (config.feed_forward, dim),
        f"{prefix}.linear2.weight": (dim, config.feed_forward),
    }
    for vector in (
        "norm1.weight",
        "norm1.bias",
        "norm2.weight",
        "norm2.bias",
        "layer_scale_1.scale",
        "layer_scale_2.scale",
    ):
        shapes[f"{prefix}.{vector}"] = (dim,)
    return shapes


def _quantizer(prefix: str, config: MimiConfig, codebooks: int) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {
        f"{prefix}.input_proj.weight": (config.code_dim, config.dim, 1),
        f"{prefix}.output_proj.weight": (config.dim, config.code_dim, 1),
    }
    for layer in range(codebooks):
        codebook = f"{prefix}.vq.layers.{layer}._codebook"
        shapes[f"{codebook}._initialized"] = (1,)
        shapes[f"{codebook}.cluster_usage"] = (config.bins,)
        shapes[f"{codebook}.embedding_sum"] = (config.bins, config.code_dim)
    return shapes


def find(name: str, stored: Collection[str]) -> tuple[str, ...]:
    """The stored tensors that make up `name`: itself, another name of it, or a series to be stacked along its rows.

    Empty when there is none. A series ends at its first gap.
    """
    if name in stored:
        return (name,)
    for published, (other, series) in _STACKED.items():
        if name.endswith(f".{published}"):
            prefix = name.removesuffix(published)
            return (prefix + other,) if prefix + other in stored else tuple(_run(prefix + series, stored))
    prefix, _, last = name.rpartition(".")
    others = (f"{prefix}.{other}" for other in _OTHER_NAMES.get(last, ()))
    return next(((other,) for other in others if other in stored), ())


def _run(series: str, stored: Collection[str]) -> Iterator[str]:
    block = 0
    while (name := f"{series}.{block}.weight") in stored:
        yield name
        block += 1


def stored_step_sets(stored: Collection[str]) -> int:
    """Depformer step sets that a checkpoint holds: 16 for PersonaPlex, 8 for Moshi as published."""
    return min(_count(_STEP_SET, stored), MAX_STEP_SETS)


def stored_codebooks(stored: Collection[str]) -> int:
    """Codebooks that a codec holds, the semantic one included."""
    return 1 + _count(_CODEBOOK, stored)


def _count(pattern: re.Pattern[str], stored: Collection[str]) -> int:
    """One more than the highest number that the pattern finds, so that a gap shows as a missing tensor."""
    return 1 + max((int(match[1]) for name in stored if (match := pattern.fullmatch(name))), default=-1)
