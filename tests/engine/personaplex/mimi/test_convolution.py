"""Against torch's own convolutions over the whole signal, padded as the stream is."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from rtc_server.engine.personaplex.mimi.convolution import (
    GATHERED_STEPS,
    Convolution,
    DepthwiseUpsampling,
    ReplicatingConvolution,
    convolution_weights,
    elu,
    transposed_weights,
)
from rtc_server.engine.personaplex.mimi.state import Batch, RowState
from rtc_server.engine.personaplex.weights import StateDict
from tests.engine.personaplex.goldens import largest_error

CALLS, ROWS = 3, 2
TOLERANCE = 1e-5
ALL = Batch(slice(0, ROWS), torch.ones(ROWS, dtype=torch.bool))


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def stream(layer: Convolution | DepthwiseUpsampling, signal: Tensor) -> Tensor:
    """signal [rows, steps, channels], cut into calls."""
    return torch.cat([layer(part, ALL) for part in signal.chunk(CALLS, 1)], 1)


@pytest.mark.parametrize(
    ("kernel", "stride", "steps"),
    [(7, 1, 12), (7, 1, 2), (3, 1, 2), (1, 1, 5), (8, 4, 8), (16, 8, 16), (4, 2, 2), (3, 1, 70), (8, 4, 280)],
)
@pytest.mark.parametrize("activated", [False, True])
def test_a_stream_of_frames_is_the_convolution_of_the_whole(
    kernel: int, stride: int, steps: int, activated: bool
) -> None:
    channels = 64 if steps > GATHERED_STEPS else 3
    weight, bias = torch.randn(5, channels, kernel) / channels**0.5, torch.randn(5)
    layer = Convolution(
        *convolution_weights(StateDict({"c.weight": weight, "c.bias": bias}), "c"),
        RowState(ROWS, "cpu"),
        steps=steps,
        stride=stride,
        elu=activated,
    )
    signal = torch.randn(ROWS, CALLS * steps, channels)
    padded = functional.pad((functional.elu(signal) if activated else signal).transpose(1, 2), (kernel - stride, 0))
    want = functional.conv1d(padded, weight, bias, stride).transpose(1, 2)
    assert largest_error(stream(layer, signal), want) < TOLERANCE


@pytest.mark.parametrize(("stride", "steps"), [(8, 2), (6, 16), (4, 5), (2, 1), (4, 70)])
def test_a_stream_of_frames_is_the_transposed_convolution_of_the_whole_without_its_tail(
    stride: int, steps: int
) -> None:
    channels = 64 if steps > GATHERED_STEPS else 3
    weight, bias = torch.randn(channels, 5, 2 * stride) / channels**0.5, torch.randn(5)
    layer = Convolution(
        *transposed_weights(StateDict({"c.weight": weight, "c.bias": bias}), "c"),
        RowState(ROWS, "cpu"),
        steps=steps,
        upsampling=stride,
    )
    signal = torch.randn(ROWS, CALLS * steps, channels)
    want = functional.conv_transpose1d(signal.transpose(1, 2), weight, bias, stride)[..., :-stride].transpose(1, 2)
    assert largest_error(stream(layer, signal), want) < TOLERANCE


def test_depthwise_upsampling_is_a_transposed_convolution_of_each_channel() -> None:
    weight, signal = torch.randn(6, 1, 4), torch.randn(ROWS, CALLS, 6)
    got = stream(DepthwiseUpsampling(weight, RowState(ROWS, "cpu")), signal)
    want = functional.conv_transpose1d(signal.transpose(1, 2), weight, None, 2, groups=6)[..., :-2].transpose(1, 2)
    assert largest_error(got, want) < TOLERANCE


def test_a_replicating_stream_starts_with_copies_of_its_own_first_step() -> None:
    weight, signal = torch.randn(5, 3, 4), torch.randn(ROWS, CALLS * 2, 3)
    state = RowState(ROWS, "cpu")
    layer = ReplicatingConvolution(weight.transpose(1, 2), None, state, steps=2, stride=2)
    want = functional.conv1d(functional.pad(signal.transpose(1, 2), (2, 0), "replicate"), weight, None, 2)
    assert largest_error(stream(layer, signal), want.transpose(1, 2)) < TOLERANCE
    state.reset(1)
    again = layer(signal[:, :2], ALL)
    assert largest_error(again[1], want[1, :, :1].t()) < TOLERANCE
    assert largest_error(again[0], want[0, :, :1].t()) > 0.1


def test_a_row_that_waits_still_replicates_its_own_first_step() -> None:
    weight, signal = torch.randn(5, 3, 4), torch.randn(ROWS, 2, 3)
    layer = ReplicatingConvolution(weight.transpose(1, 2), None, RowState(ROWS, "cpu"), steps=2, stride=2)
    first = layer(signal, ALL)
    waiting = ReplicatingConvolution(weight.transpose(1, 2), None, RowState(ROWS, "cpu"), steps=2, stride=2)
    waiting(torch.randn(ROWS, 2, 3), Batch(ALL.rows, torch.zeros(ROWS, dtype=torch.bool)))
    assert torch.equal(waiting(signal, ALL), first)


@pytest.mark.parametrize("steps", [4, GATHERED_STEPS + 1])
def test_nan_stays_in_its_row(steps: int) -> None:
    layer = Convolution(torch.randn(5, 3, 64), torch.randn(5), RowState(ROWS, "cpu"), steps=steps)
    for broken in range(ROWS):
        signal = torch.randn(ROWS, steps, 64)
        signal[broken] = float("nan")
        assert layer(signal, ALL).isnan().all(2).all(1).tolist() == [row == broken for row in range(ROWS)]
        layer = Convolution(torch.randn(5, 3, 64), torch.randn(5), RowState(ROWS, "cpu"), steps=steps)


def test_elu_is_exact_to_the_rounding_of_one() -> None:
    x = torch.cat([torch.linspace(-90.0, 90.0, 10_001), torch.tensor([-0.0, 1e-30, -1e-30, float("-inf")])])
    want = functional.elu(x.double()).float()
    assert ((elu(x, torch.empty_like(x)) - want).abs() <= 1.2e-7).all()
    assert elu(torch.tensor([float("nan")]), torch.empty(1)).isnan()
