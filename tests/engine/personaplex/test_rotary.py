from __future__ import annotations

import math

import pytest
import torch

from rtc_server.engine.personaplex.rotary import Rotary, pairs_of, rotate


def test_neighbouring_numbers_turn_as_pairs() -> None:
    rotary = Rotary(4, 10_000.0, "cpu")
    x = torch.tensor([[1.0, 0.0, 0.0, 2.0]])
    rotate(pairs_of(x), rotary.at(torch.tensor([3])))
    slow = 3 / 100
    want = [math.cos(3), math.sin(3), -2 * math.sin(slow), 2 * math.cos(slow)]
    torch.testing.assert_close(x, torch.tensor([want]))


@pytest.mark.parametrize("position", [0, 2_999, 45_000, 10_000_000])
def test_a_score_depends_on_the_distance_alone_however_long_the_call(position: int) -> None:
    """Ten million positions are more than nine days."""
    torch.manual_seed(0)
    rotary = Rotary(64, 10_000.0, "cpu")
    query, key = torch.randn(64), torch.randn(64)

    def score(at: int, distance: int) -> float:
        q, k = query.clone(), key.clone()
        rotate(pairs_of(q), rotary.at(torch.tensor(at)))
        rotate(pairs_of(k), rotary.at(torch.tensor(at - distance)))
        return float(q @ k)

    assert score(position + 1_000, 700) == pytest.approx(score(1_000, 700), abs=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bit_numbers_are_turned_in_float32(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    rotation = Rotary(8, 10_000.0, "cpu").at(torch.arange(5))[:, None]
    x = torch.randn(5, 3, 8).to(dtype)
    want = x.float()
    rotate(pairs_of(want), rotation)
    rotate(pairs_of(x), rotation)
    assert torch.equal(x, want.to(dtype))


def test_a_part_of_something_larger_is_turned_in_place() -> None:
    qkv = torch.ones(2, 3, 8)
    rotate(pairs_of(qkv[:, :2]), Rotary(8, 10_000.0, "cpu").at(torch.tensor([1, 2]))[:, None])
    assert (qkv[:, 2] == 1).all()
    assert not (qkv[:, :2] == 1).all()
