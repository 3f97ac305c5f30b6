"""The reference implementation of Moshi and Mimi, timed call by call. A script: it runs in an interpreter that has the
package `moshi`, and imports nothing of ours.

The one argument is JSON {slots, threads, device, model}, the model empty for the codec. Once that is warm a line
{version} is printed. Then, for each line on standard input, one call is made and a line {cpu_ms, wall_ms} printed.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

WARM_UP_CALLS = 8
FRAME_SAMPLES = 1920
FIXED = {
    "norm": "rms_norm_f32",
    "gating": "silu",
    "positional_embedding": "rope",
    "causal": True,
    "depformer_multi_linear": True,
    "depformer_weights_per_step": True,
    "depformer_pos_emb": "none",
    "depformer_gating": "silu",
    "existing_text_padding_id": 3,
}
"""Settings that all published models share."""


def language(torch: Any, settings: dict[str, Any]) -> Callable[[], object]:
    """One step of generation, sampling as by default."""
    models = importlib.import_module("moshi.models.lm")
    device, slots, sizes = settings["device"], settings["slots"], settings["model"]
    model = models.LMModel(**FIXED, **sizes, device=device, dtype=torch.float32).eval()
    generation = models.LMGen(model)
    generation.streaming_forever(slots)
    heard = sizes["n_q"] - sizes["dep_q"]
    codes = torch.randint(sizes["card"], (slots, heard, 1), device=device)
    return lambda: generation.step(codes)


def codec(torch: Any, settings: dict[str, Any]) -> Callable[[], object]:
    """One frame in and one out."""
    device, slots = settings["device"], settings["slots"]
    mimi = importlib.import_module("moshi.models.loaders").get_mimi(None, device=device)
    for name, buffer in mimi.named_buffers():
        if name.endswith("embedding_sum"):
            buffer.normal_()
        elif name.endswith("cluster_usage"):
            buffer.fill_(1.0)
    mimi.streaming_forever(slots)
    pcm = torch.randn(slots, 1, FRAME_SAMPLES, device=device) * 0.1
    return lambda: mimi.decode(mimi.encode(pcm))


def main() -> None:
    torch = importlib.import_module("torch")
    settings = json.loads(sys.argv[1])
    if settings["threads"] is not None:
        torch.set_num_threads(settings["threads"])
    torch.manual_seed(0)
    on_gpu = str(settings["device"]).startswith("cuda")
    if not on_gpu:  # compiling a few small functions of it takes a minute and makes nothing faster there
        os.environ["NO_TORCH_COMPILE"] = "1"
    synchronize = torch.cuda.synchronize if on_gpu else lambda: None
    call = (language if settings["model"] else codec)(torch, settings)
    with torch.no_grad():
        for _ in range(WARM_UP_CALLS):
            call()
        synchronize()
        print(json.dumps({"version": version("moshi")}), flush=True)
        for _ in sys.stdin:
            cpu_s, wall_s = time.process_time(), time.perf_counter()
            call()
            synchronize()
            cpu_ms, wall_ms = (time.process_time() - cpu_s) * 1e3, (time.perf_counter() - wall_s) * 1e3
            print(json.dumps({"cpu_ms": cpu_ms, "wall_ms": wall_ms}), flush=True)


if __name__ == "__main__":
    main()
