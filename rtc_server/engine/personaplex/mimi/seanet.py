"""SEANet: the convolutional halves of the codec, between samples and steps of 40 ms."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from rtc_server.engine.personaplex.config import MimiConfig
from rtc_server.engine.personaplex.mimi.convolution import Convolution, convolution_weights, transposed_weights
from rtc_server.engine.personaplex.mimi.state import Batch, RowState
from rtc_server.engine.personaplex.weights import Weights
from rtc_server.engine.stepper import FRAME_SAMPLES


class Residual:
    """x + conv(elu(conv(elu(x)))), [n, steps, channels] both ways."""

    def __init__(self, weights: Weights, prefix: str, state: RowState, *, steps: int) -> None:
        def convolution(index: int) -> Convolution:
            weight, bias = convolution_weights(weights, f"{prefix}.block.{index}.conv.conv")
            return Convolution(weight, bias, state, steps=steps, elu=True)

        self._narrow, self._wide = convolution(1), convolution(3)

    @property
    def nbytes(self) -> int:
        return self._narrow.nbytes + self._wide.nbytes

    def __call__(self, x: Tensor, batch: Batch) -> Tensor:
        return self._wide(self._narrow(x, batch), batch).add_(x)


class Chain:
    """Layers one after the other."""

    def __init__(self, layers: Sequence[Convolution | Residual]) -> None:
        self._layers = layers

    @property
    def nbytes(self) -> int:
        return sum(layer.nbytes for layer in self._layers)

    def __call__(self, x: Tensor, batch: Batch) -> Tensor:
        for layer in self._layers:
            x = layer(x, batch)
        return x


def encoder(weights: Weights, config: MimiConfig, state: RowState) -> Chain:
    """[n, 1920, 1] -> [n, 2, dim]."""

    def convolution(index: int, steps: int, stride: int = 1, *, elu: bool = True) -> Convolution:
        weight, bias = convolution_weights(weights, f"encoder.model.{index}.conv.conv")
        return Convolution(weight, bias, state, steps=steps, stride=stride, elu=elu)

    index, steps = 0, FRAME_SAMPLES
    layers: list[Convolution | Residual] = [convolution(index, steps, elu=False)]
    for ratio in reversed(config.ratios):
        layers.append(Residual(weights, f"encoder.model.{index + 1}", state, steps=steps))
        layers.append(convolution(index + 3, steps, ratio))
        index, steps = index + 3, steps // ratio
    layers.append(convolution(index + 2, steps))
    return Chain(layers)


def decoder(weights: Weights, config: MimiConfig, state: RowState, *, steps: int) -> Chain:
    """[n, steps, dim] -> [n, 1920, 1]."""

    def convolution(index: int, *, elu: bool = True) -> Convolution:
        weight, bias = convolution_weights(weights, f"decoder.model.{index}.conv.conv")
        return Convolution(weight, bias, state, steps=steps, elu=elu)

    index = 0
    layers: list[Convolution | Residual] = [convolution(index, elu=False)]
    for ratio in config.ratios:
        weight, bias = transposed_weights(weights, f"decoder.model.{index + 2}.convtr.convtr")
        layers.append(Convolution(weight, bias, state, steps=steps, upsampling=ratio, elu=True))
        steps *= ratio
        layers.append(Residual(weights, f"decoder.model.{index + 3}", state, steps=steps))
        index += 3
    layers.append(convolution(index + 2))
    return Chain(layers)
