from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from rtc_server.engine.personaplex.load import Model, load_model
from rtc_server.engine.personaplex.sampling import GREEDY, Mode
from rtc_server.engine.personaplex.tick import Extent, PlainRunner, Tick, _key_buckets, batches
from rtc_server.engine.registry import EngineOptions
from tests.engine.personaplex.tiny import GOLDEN

ROWS = 4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Model:
    return load_model(ROWS, EngineOptions(slots=ROWS, device="cpu", model=str(checkpoint)))


def fresh(model: Model) -> Tick:
    for row in range(ROWS):
        model.lm.reset(row)
        model.mimi.reset(row)
        model.lm.sampler.set(row, GREEDY, 1)
    return Tick(model.lm, model.mimi, rows=ROWS, device=torch.device("cpu"))


def run(tick: Tick, rows: list[int], calls: int) -> list[torch.Tensor]:
    """What the first of `rows` says in so many calls."""
    runner = PlainRunner(tick)
    sound = load_file(GOLDEN / "mimi_golden.safetensors")["pcm_in"].view(-1, 1920)
    heard = []
    for call in range(calls):
        tick.active.zero_()
        tick.active[rows] = True
        tick.pcm[rows[0]] = sound[call]  # its codes are clear, whatever the last bits are
        runner.run(Extent(rows=1 + max(rows), keys=tick.lm.keys_for([call]), mode=Mode(0, 0)))
        heard.append(tick.out_frame[rows[0]].clone())
    return heard


def test_a_row_without_a_prompt_says_nothing_in_its_first_call(model: Model) -> None:
    tick = fresh(model)
    first, second = run(tick, [0], 2)
    assert (first == -1).all()
    assert (second >= 0).all()
    assert tick.out_finite[0]
    assert tick.out_pcm.abs().max() <= 1.0


def test_the_size_of_the_batch_does_not_show_in_a_row(model: Model) -> None:
    alone = run(fresh(model), [0], 6)
    among = run(fresh(model), [0, 3], 6)
    assert torch.stack(alone).equal(torch.stack(among))


def test_rows_that_are_not_active_stand_still(model: Model) -> None:
    tick = fresh(model)
    run(tick, [0], 3)
    before = tick.lm.kv.length.clone()
    run(tick, [3], 2)
    assert tick.lm.kv.length.tolist() == [before[0], before[1], before[2], before[3] + 2]


def test_sound_that_is_no_number_is_reported_for_its_row_alone(model: Model) -> None:
    tick = fresh(model)
    tick.active[:2] = True
    tick.pcm[0] = float("nan")
    tick.body(Extent(rows=2, keys=1))
    model.mimi.reset(0)
    assert tick.out_finite[1]
    assert torch.isfinite(tick.out_pcm[1]).all()


def test_graphs_cover_every_batch_and_every_filling() -> None:
    assert batches(6) == [1, 2, 4, 6]
    assert batches(1) == [1]
    assert _key_buckets(2999) == [256, 512, 1024, 2048, 2999]
    assert _key_buckets(100) == [100]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: CUDA graphs cannot be captured")
def test_a_replayed_graph_says_what_plain_calls_say(checkpoint: Path) -> None:
    from rtc_server.engine.personaplex.tick import GraphRunner

    model = load_model(ROWS, EngineOptions(slots=ROWS, device="cuda", dtype="f32", model=str(checkpoint)))
    device = torch.device("cuda")
    tick = Tick(model.lm, model.mimi, rows=ROWS, device=device)
    plain, graph = PlainRunner(tick), GraphRunner(tick)
    heard = []
    for runner in (plain, graph):
        for row in range(ROWS):
            model.lm.reset(row)
            model.mimi.reset(row)
            model.lm.sampler.set(row, GREEDY, 1)
        noise = torch.Generator().manual_seed(1)
        tick.active.zero_()
        tick.active[0] = True
        said = []
        for call in range(8):
            tick.pcm[0] = (torch.randn(1920, generator=noise) * 0.1).to(device)
            runner.run(Extent(rows=1, keys=tick.lm.keys_for([call])))
            said.append(tick.out_frame[0].clone())
        heard.append(torch.stack(said).cpu())
    assert heard[0].equal(heard[1])
