from __future__ import annotations

import torch

from rtc_server.engine.personaplex.temporal import Temporal
from rtc_server.engine.personaplex.tokens import ZERO
from rtc_server.engine.personaplex.weights import StateDict
from tests.engine.personaplex.goldens import golden, largest_error, lm_config


def temporal(dtype: torch.dtype = torch.float32) -> Temporal:
    return Temporal(StateDict(golden("lm_tiny"), dtype=dtype), lm_config("lm"), rows=1)


def test_embeddings_are_those_of_the_reference() -> None:
    want = golden("lm_golden")
    got = temporal().embed(want["forced.input_tokens"][0])
    assert largest_error(got, want["forced.embedding"][0, :, 0]) < 1e-6


def test_no_token_adds_nothing() -> None:
    tokens = golden("lm_golden")["forced.input_tokens"][0, :1]
    model, weights = temporal(), golden("lm_tiny")
    without = tokens.clone()
    without[0, 3] = ZERO
    missing = weights["emb.2.weight"][tokens[0, 3]]
    torch.testing.assert_close(model.embed(tokens)[0] - model.embed(without)[0], missing)
    assert (model.embed(torch.full((2, 17), ZERO)) == 0).all()


def test_text_logits_are_one_product_of_the_hidden_state() -> None:
    want = golden("lm_golden")
    assert largest_error(temporal().text_logits(want["forced.hidden"][0]), want["forced.text_logits"][0]) < 1e-4
