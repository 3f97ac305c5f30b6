"""What every `EngineClient` does alike: each test runs against an engine in this process and one in its own."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray

from rtc_server.engine.client import EngineClient, Lease, Live, SlotOutput, SlotStatus
from rtc_server.engine.local import LocalEngine
from rtc_server.engine.registry import EngineOptions, create
from rtc_server.engine.remote import RemoteEngine
from rtc_server.engine.stepper import FRAME_SAMPLES, SessionPrompt
from rtc_server.errors import BadRequest, EngineDraining, EngineError, EngineFull, UnknownVoice
from tests.engine.steppers import OBEDIENT, SAMPLING, Command

pytestmark = pytest.mark.asyncio(loop_scope="module")

SLOTS = 2
KINDS = ("local", "remote")


def _engine(kind: str) -> LocalEngine | RemoteEngine:
    options = EngineOptions(slots=SLOTS)
    return LocalEngine(create(OBEDIENT, options)) if kind == "local" else RemoteEngine(OBEDIENT, options)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=KINDS)
async def running(request: pytest.FixtureRequest) -> AsyncIterator[LocalEngine | RemoteEngine]:
    engine = _engine(request.param)
    await engine.start()
    yield engine
    await engine.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def engine(running: LocalEngine | RemoteEngine) -> AsyncIterator[Caller]:
    """The same engine for each test, empty again after it."""
    caller = Caller(running)
    yield caller
    for lease in caller.leases:
        await running.release(lease)
    async with asyncio.timeout(10):
        while running.capacity().in_use:
            await asyncio.sleep(0.01)


class Caller:
    """An engine, and what a test does with it most."""

    def __init__(self, client: EngineClient) -> None:
        self.client = client
        self.leases: list[Lease] = []

    async def reserve(self, prompt: SessionPrompt | None = None) -> Lease:
        lease = await self.client.reserve(prompt or SessionPrompt())
        self.leases.append(lease)
        return lease

    async def go_live(self) -> Lease:
        lease = await self.reserve()
        for _ in range(10):
            if (await self.say(lease, 1)).status is SlotStatus.LIVE:
                return lease
        raise AssertionError("the slot does not go live")

    async def say(self, lease: Lease, value: int, live: int = Live.YES) -> SlotOutput:
        return (await self.client.exchange([lease], [live], 0, _frame(value))).outputs[0]


def _frame(value: int) -> NDArray[np.int16]:
    return np.full((1, FRAME_SAMPLES), value, np.int16)


async def test_the_spec_is_that_of_the_stepper(engine: Caller) -> None:
    spec = engine.client.spec
    assert (spec.name, spec.voices, spec.voice_samples) == (
        "obedient",
        ("default", "other", "hoarse"),
        ("other", "hoarse"),
    )
    assert spec.sampling == SAMPLING


async def test_every_sample_comes_back_as_it_went(engine: Caller) -> None:
    leases = [await engine.go_live(), await engine.go_live()]
    random = np.random.default_rng(1)
    for _ in range(5):
        pcm = random.integers(-32768, 29000, (2, FRAME_SAMPLES)).astype(np.int16)
        result = await engine.client.exchange(leases, [True, True], 0, pcm)
        for row, output in zip(pcm, result.outputs, strict=True):
            assert output.status is SlotStatus.LIVE and output.pcm is not None
            assert output.pcm.dtype == np.int16
            np.testing.assert_array_equal(output.pcm, row)


async def test_edges_lie_where_next_tick_in_s_says(engine: Caller) -> None:
    lease = await engine.go_live()
    edges = []
    for _ in range(10):
        result = await engine.client.exchange([lease], [True], 0, _frame(1))
        edges.append(time.monotonic() + result.next_tick_in_s - 0.080 * result.tick)
        assert 0 <= result.next_tick_in_s <= 0.160
    assert np.median(np.abs(np.array(edges) - np.median(edges))) < 0.005


async def test_two_conductors_exchange_in_the_same_tick(engine: Caller) -> None:
    one, other = await engine.go_live(), await engine.go_live()
    for _ in range(3):
        first, second = await asyncio.gather(
            engine.client.exchange([one], [True], 0, _frame(1)), engine.client.exchange([other], [True], 0, _frame(2))
        )
        assert first.tick == second.tick
    assert first.outputs[0].pcm is not None and first.outputs[0].pcm[0] == 1
    assert second.outputs[0].pcm is not None and second.outputs[0].pcm[0] == 2


async def test_exchanges_arrive_in_the_order_in_which_they_were_made(engine: Caller) -> None:
    lease = await engine.go_live()
    outputs = await asyncio.gather(*(engine.say(lease, value) for value in range(100, 120)))
    # Those that came in time for the same tick all get the sound of the latest.
    values = [int(output.pcm[0]) for output in outputs if output.pcm is not None]
    assert values == sorted(values) and values[-1] == 119


async def test_words_cross(engine: Caller) -> None:
    lease = await engine.go_live()
    output = await engine.say(lease, Command.SAY)
    assert output.text is not None and output.text.startswith("Grüße, ") and output.text.endswith(" 世界")
    assert [(heard.text, heard.start_frame, heard.final) for heard in output.heard] == [("hello", 3, True)]


async def test_progress_of_a_prompt_is_told(engine: Caller) -> None:
    lease = await engine.reserve(SessionPrompt(persona="slow"))
    seen = []
    for _ in range(8):
        output = await engine.say(lease, 0, live=False)
        seen.append((output.status, output.prefill))
    assert seen[-1][0] is SlotStatus.READY
    prefills = [progress for status, progress in seen if status is SlotStatus.PREFILL and progress != (0, 0)]
    assert prefills and all(total == 4 for _, total in prefills)


async def test_a_frozen_slot_is_kept_and_gets_no_sound(engine: Caller) -> None:
    lease = await engine.go_live()
    output = await engine.say(lease, 1, live=False)
    assert (output.status, output.pcm) == (SlotStatus.FROZEN, None)
    assert (await engine.say(lease, 2)).status is SlotStatus.LIVE


async def test_a_slot_that_is_live_once_is_stepped_with_its_frame_and_never_without(engine: Caller) -> None:
    lease = await engine.go_live()
    counts = []
    for _ in range(3):
        output = await engine.say(lease, Command.COUNT, Live.ONCE)
        assert output.pcm is not None
        counts.append(int(output.pcm[0]))
        await asyncio.sleep(0.2)  # edges go by
    assert np.diff(counts).tolist() == [1, 1]
    assert (await engine.say(lease, 0, Live.NO)).status is SlotStatus.FROZEN


async def test_a_full_engine_refuses(engine: Caller) -> None:
    for _ in range(SLOTS):
        await engine.go_live()
    with pytest.raises(EngineFull, match="all 2 slots") as refused:
        await engine.reserve()
    assert refused.value.hint and type(refused.value) is EngineFull


async def test_an_unknown_voice_is_refused_with_those_that_there_are(engine: Caller) -> None:
    with pytest.raises(UnknownVoice) as refused:
        await engine.reserve(SessionPrompt(voice="nobody"))
    assert "default, other, hoarse" in refused.value.hint
    assert engine.client.capacity().in_use == 0


async def test_a_voice_can_be_listened_to_while_a_call_goes_on_undisturbed(engine: Caller) -> None:
    lease = await engine.go_live()
    listening = asyncio.create_task(engine.client.voice_sample("other"))
    shed = 0
    while not listening.done():
        result = await engine.client.exchange([lease], [Live.YES], 0, _frame(1))
        shed += result.shed
    sample = await listening
    assert shed == 0
    assert sample is not None and sample.shape == (3, FRAME_SAMPLES) and sample.dtype == np.int16
    np.testing.assert_array_equal(sample.reshape(-1)[:5000], np.arange(5000))
    assert engine.client.capacity().in_use == 1


async def test_a_voice_without_a_sample_has_none_and_one_that_is_not_there_is_told(engine: Caller) -> None:
    assert await engine.client.voice_sample("default") is None
    for name in ("nobody", "../other", "\ud800"):
        with pytest.raises(UnknownVoice):
            await engine.client.voice_sample(name)


async def test_a_sample_that_cannot_be_had_says_why(engine: Caller) -> None:
    with pytest.raises(EngineError, match="the voice has gone"):
        await engine.client.voice_sample("hoarse")


async def test_what_the_stepper_says_of_a_prompt_reaches_the_caller(engine: Caller) -> None:
    with pytest.raises(BadRequest, match="is refused") as refused:
        await engine.reserve(SessionPrompt(persona="refuse"))
    assert refused.value.hint == "say anything else"


async def test_a_lease_that_is_not_held_is_revoked(engine: Caller) -> None:
    lease = await engine.go_live()
    strangers = [
        dataclasses.replace(lease, token="0" * 32),
        dataclasses.replace(lease, incarnation="another"),
        dataclasses.replace(lease, slot=99),
    ]
    result = await engine.client.exchange([*strangers, lease], [True] * 4, 0, np.repeat(_frame(7), 4, axis=0))
    assert [output.status.value for output in result.outputs] == ["revoked"] * 3 + ["live"]
    for stranger in strangers:
        await engine.client.release(stranger)
    assert (await engine.say(lease, 1)).status is SlotStatus.LIVE


async def test_a_released_slot_is_free_for_the_next_caller(engine: Caller) -> None:
    leases = [await engine.go_live() for _ in range(SLOTS)]
    await engine.client.release(leases[0])
    await engine.client.release(leases[0])
    new = await engine.reserve()
    assert new.slot == leases[0].slot and new.token != leases[0].token
    assert (await engine.say(leases[0], 1)).status is SlotStatus.REVOKED


async def test_a_slot_that_is_released_in_its_step_is_handed_on_after_it(engine: Caller) -> None:
    leases = [await engine.go_live() for _ in range(SLOTS)]
    pcm = np.concatenate([_frame(Command.TAKE_LONG), _frame(1)])
    waiting = asyncio.create_task(engine.client.exchange(leases, [True, True], 0, pcm))
    await asyncio.sleep(0.15)  # the step has begun, and takes as long again
    await engine.client.release(leases[0])
    new = await engine.reserve()
    assert new.slot == leases[0].slot and new.token != leases[0].token
    assert [output.status for output in (await waiting).outputs] == [SlotStatus.REVOKED, SlotStatus.LIVE]


async def test_a_cancelled_exchange_corrupts_nothing(engine: Caller) -> None:
    lease = await engine.go_live()
    for value in range(10, 13):
        cancelled = asyncio.create_task(engine.say(lease, 1))
        await asyncio.sleep(0.02 * (value % 2))
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        async with asyncio.timeout(5):
            while (output := await engine.say(lease, value)).pcm is None or output.pcm[0] != value:
                pass


async def test_a_step_that_raises_is_silence_and_the_next_one_is_sound(engine: Caller) -> None:
    lease = await engine.go_live()
    silent = await engine.say(lease, Command.RAISE)
    assert silent.status is SlotStatus.LIVE and silent.pcm is not None and not silent.pcm.any()
    again = await engine.say(lease, 5)
    assert again.pcm is not None and again.pcm[0] == 5


@pytest.mark.parametrize(
    ("live", "pcm"),
    [
        ([True], np.zeros((2, FRAME_SAMPLES), np.int16)),
        ([True, True], _frame(0)),
        ([True], np.zeros((1, FRAME_SAMPLES), np.float32)),
        ([True], np.zeros((1, 960), np.int16)),
    ],
)
async def test_what_does_not_fit_together_is_our_own_mistake(
    engine: Caller, live: list[bool], pcm: NDArray[np.int16]
) -> None:
    lease = await engine.reserve()
    with pytest.raises(ValueError, match="do not fit together"):
        await engine.client.exchange([lease], live, 0, pcm)


async def test_capacity_follows_the_slots(engine: Caller) -> None:
    capacity = engine.client.capacity()
    assert (capacity.total, capacity.in_use, capacity.draining, capacity.ready) == (SLOTS, 0, False, True)
    lease = await engine.reserve()
    assert engine.client.capacity().in_use == 1
    await engine.client.release(lease)
    await asyncio.sleep(0.5)
    assert engine.client.capacity().in_use == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_a_draining_engine_refuses_new_callers_and_keeps_the_others(kind: str) -> None:
    engine = _engine(kind)
    await engine.start()
    caller = Caller(engine)
    lease = await caller.go_live()
    engine.drain()
    with pytest.raises(EngineDraining):
        await caller.reserve()
    assert engine.capacity().draining
    assert (await caller.say(lease, 1)).status is SlotStatus.LIVE
    await engine.stop()
