import pytest
import torch

from rtc_server.engine.personaplex.config import TINY_LM, MimiConfig
from rtc_server.engine.personaplex.names import lm_shapes, mimi_shapes
from rtc_server.engine.personaplex.randomweights import RandomWeights

SHAPES = lm_shapes(TINY_LM)
LINEAR = "transformer.layers.0.gating.linear_in.weight"


def test_every_tensor_has_the_shape_that_its_name_says() -> None:
    weights = RandomWeights(SHAPES, "cpu", torch.float32)
    assert all(weights.take(name).shape == shape for name, shape in SHAPES.items())


def test_seed_and_name_decide_and_the_order_does_not() -> None:
    first, again = (RandomWeights(SHAPES, "cpu", torch.float32, seed=3) for _ in range(2))
    again.take("text_emb.weight")
    assert torch.equal(first.take(LINEAR), again.take(LINEAR))
    assert torch.equal(first.take(LINEAR), first.take(LINEAR))
    other = RandomWeights(SHAPES, "cpu", torch.float32, seed=4)
    assert not torch.equal(first.take(LINEAR), other.take(LINEAR))
    assert not torch.equal(first.take("emb.0.weight"), first.take("emb.1.weight"))


def test_what_is_taken_belongs_to_the_taker() -> None:
    weights = RandomWeights(SHAPES, "cpu", torch.float32)
    weights.take(LINEAR).zero_()
    assert weights.take(LINEAR).abs().sum() > 0


def test_another_type_holds_the_same_values_rounded() -> None:
    exact = RandomWeights(SHAPES, "cpu", torch.float32).take(LINEAR)
    rounded = RandomWeights(SHAPES, "cpu", torch.bfloat16).take(LINEAR)
    assert rounded.dtype == torch.bfloat16
    assert torch.equal(exact.bfloat16(), rounded)


def test_a_run_of_rows_is_as_long_as_asked_for_and_repeats() -> None:
    weights = RandomWeights(SHAPES, "cpu", torch.float32)
    part = weights.take(LINEAR, slice(16, 48))
    assert part.shape == (32, TINY_LM.dim)
    assert torch.equal(part, weights.take(LINEAR, slice(16, 48)))
    assert not torch.equal(part, weights.take(LINEAR, slice(0, 32)))


def test_signals_keep_their_size() -> None:
    weights = RandomWeights(SHAPES, "cpu", torch.float32)
    x = torch.randn(64, TINY_LM.dim, generator=torch.Generator().manual_seed(0))
    assert (x @ weights.take(LINEAR).t()).std() == pytest.approx(1, rel=0.1)
    assert weights.take("out_norm.alpha").mean() == pytest.approx(1, abs=0.05)


def test_codebooks_can_be_divided_by_their_usage() -> None:
    config = MimiConfig(filters=4, dim=32, heads=4, layers=1, feed_forward=64, code_dim=16, stored_codebooks=8)
    weights = RandomWeights(mimi_shapes(config), "cpu", torch.float32)
    assert weights.take("quantizer.rvq_first.vq.layers.0._codebook.cluster_usage").min() >= 1


def test_a_name_that_the_model_does_not_have_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="nothing"):
        RandomWeights(SHAPES, "cpu", torch.float32).take("nothing")
