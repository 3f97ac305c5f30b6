from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rtc_server.engine.personaplex.config import CODEBOOKS, MimiConfig
from rtc_server.engine.personaplex.mimi.quantizer import Quantizer
from rtc_server.engine.personaplex.weights import StateDict
from tests.engine.personaplex.goldens import largest_error

DIM, CODE_DIM, BINS = 12, 5, 64
CONFIG = MimiConfig(dim=DIM, code_dim=CODE_DIM, bins=BINS)
NAMES = ["rvq_first.vq.layers.0", *(f"rvq_rest.vq.layers.{index}" for index in range(CODEBOOKS - 1))]


@pytest.fixture
def stored() -> dict[str, Tensor]:
    torch.manual_seed(0)
    tensors = {}
    for half in ("rvq_first", "rvq_rest"):
        tensors[f"quantizer.{half}.input_proj.weight"] = torch.randn(CODE_DIM, DIM, 1)
        tensors[f"quantizer.{half}.output_proj.weight"] = torch.randn(DIM, CODE_DIM, 1)
    for name in NAMES:
        tensors[f"quantizer.{name}._codebook.cluster_usage"] = torch.rand(BINS) + 1
        tensors[f"quantizer.{name}._codebook.embedding_sum"] = torch.randn(BINS, CODE_DIM)
    return tensors


def books(stored: dict[str, Tensor]) -> list[Tensor]:
    return [
        stored[f"quantizer.{name}._codebook.embedding_sum"]
        / stored[f"quantizer.{name}._codebook.cluster_usage"][:, None]
        for name in NAMES
    ]


def test_codes_are_the_nearest_entries_of_a_chain_that_starts_from_the_whole_latent(stored: dict[str, Tensor]) -> None:
    latent = torch.randn(20, DIM)
    semantic = latent @ stored["quantizer.rvq_first.input_proj.weight"][..., 0].t()
    left = latent @ stored["quantizer.rvq_rest.input_proj.weight"][..., 0].t()
    first, *rest = books(stored)
    want = [torch.cdist(semantic, first).argmin(1)]
    for book in rest:
        want.append(torch.cdist(left, book).argmin(1))
        left = left - book[want[-1]]
    assert torch.equal(Quantizer(StateDict(stored), CONFIG, rows=20).encode(latent), torch.stack(want, 1))


def test_decoding_adds_the_acoustic_entries_and_projects_each_half(stored: dict[str, Tensor]) -> None:
    codes = torch.randint(BINS, (9, CODEBOOKS))
    entries = [book[codes[:, index]] for index, book in enumerate(books(stored))]
    want = entries[0] @ stored["quantizer.rvq_first.output_proj.weight"][..., 0].t()
    want = want + torch.stack(entries[1:]).sum(0) @ stored["quantizer.rvq_rest.output_proj.weight"][..., 0].t()
    assert largest_error(Quantizer(StateDict(stored), CONFIG, rows=9).decode(codes), want) < 1e-5


def test_of_equally_near_entries_the_first_one_counts(stored: dict[str, Tensor]) -> None:
    for name in NAMES:
        for part in ("cluster_usage", "embedding_sum"):
            tensor = stored[f"quantizer.{name}._codebook.{part}"]
            tensor[BINS // 2 :] = tensor[: BINS // 2]
    codes = Quantizer(StateDict(stored), CONFIG, rows=50).encode(torch.randn(50, DIM))
    assert (codes < BINS // 2).all() and len(set(codes.flatten().tolist())) > 10


def test_counts_below_the_limit_are_taken_as_the_limit(stored: dict[str, Tensor]) -> None:
    quantizer = Quantizer(StateDict(stored), CONFIG, rows=1)
    for name in NAMES:
        stored[f"quantizer.{name}._codebook.cluster_usage"][:2] = torch.tensor([0.0, 1e-7])
        stored[f"quantizer.{name}._codebook.embedding_sum"][:2] *= 1e-5
    codes = torch.tensor([[0] * CODEBOOKS, [1] * CODEBOOKS, [2] * CODEBOOKS])
    clamped = Quantizer(StateDict(stored), CONFIG, rows=1).decode(codes)
    for name in NAMES:
        stored[f"quantizer.{name}._codebook.cluster_usage"][:2] = 1.0
        stored[f"quantizer.{name}._codebook.embedding_sum"][:2] *= 1e5
    assert largest_error(clamped, Quantizer(StateDict(stored), CONFIG, rows=1).decode(codes)) < 1e-4
    assert torch.equal(clamped[2], quantizer.decode(codes)[2])
