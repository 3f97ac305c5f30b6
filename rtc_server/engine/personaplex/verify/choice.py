"""The choice of a token: greedy, and with noise that is given."""

from __future__ import annotations

import torch

from rtc_server.engine.personaplex.config import CODEBOOKS, MAX_TOP_K
from rtc_server.engine.personaplex.sampling import GREEDY, Race, Sampler
from rtc_server.engine.personaplex.verify.compare import Comparison
from rtc_server.engine.personaplex.verify.folder import GoldenFolder, Models
from rtc_server.engine.stepper import Sampling

FILES = ("sampling_golden.safetensors",)


def check(folder: GoldenFolder, models: Models, compare: Comparison) -> None:
    golden = folder.tensors(FILES[0])
    for kind in ("text", "audio"):
        logits = golden[f"{kind}.logits"].to(models.device)
        noise = golden[f"{kind}.noise"]
        temperature, top_k = golden[f"{kind}.temp_topk"].tolist()
        if round(top_k) > MAX_TOP_K:
            compare.report.skip(f"sampling {kind}", f"top-k {round(top_k)}; this engine goes to {MAX_TOP_K}")
            continue
        sampling = Sampling(temperature, round(top_k), temperature, round(top_k))
        sampler = Sampler(len(logits), CODEBOOKS, models.device)
        part = 0 if kind == "text" else 1
        sampler.noise.view(len(logits), -1, MAX_TOP_K)[:, part, : noise.shape[1]] = noise.to(models.device)
        for name, settings, want in (("", sampling, "tokens"), (", greedy", GREEDY, "argmax")):
            for row in range(len(logits)):
                sampler.set(row, settings, seed=row)
            chosen = _choose(sampler.race(slice(0, len(logits))), kind, logits)
            compare.same(f"sampling {kind}{name}: tokens", chosen, golden[f"{kind}.{want}"], "row")


def _choose(race: Race, kind: str, logits: torch.Tensor) -> torch.Tensor:
    return race.text(logits) if kind == "text" else race.code(0, logits)
