from __future__ import annotations

import pytest

from rtc_server.engine.stepper import SessionPrompt
from rtc_server.errors import (
    BadRequest,
    ConfigError,
    EngineDraining,
    EngineFull,
    EngineUnavailable,
    TooLarge,
    TooManyHalfOpen,
)
from rtc_server.errors import UnknownVoice as UnknownVoiceError
from rtc_server.session.admission import Admission, Defaults
from tests.session.conftest import House
from tests.session.fakes import FakeEngine


async def test_full_engine_refuses_with_a_time_to_come_back(house: House) -> None:
    await house.call()
    await house.call()
    with pytest.raises(EngineFull) as refusal:
        house.admission.check()
    assert refusal.value.http_status == 503
    assert refusal.value.retry_after_s
    assert "2 conversation slots" in str(refusal.value)


async def test_slot_is_free_again_as_soon_as_a_session_closed(house: House) -> None:
    first, _ = await house.call()
    await house.call()
    first.close("test")
    await first.wait_closed()
    house.admission.check()


async def test_a_slot_that_the_engine_still_counts_for_a_closed_session_is_left_to_the_engine(house: House) -> None:
    house.engine.slots = 1
    first, _ = await house.call()
    with pytest.raises(EngineFull):
        house.admission.check()
    first.close("test")
    assert house.engine.capacity().in_use == 1
    house.admission.check()
    second = await house.admission.admit(SessionPrompt())
    assert house.engine.leases == [second.lease]


async def test_draining_server_refuses(house: House) -> None:
    house.admission.draining = True
    with pytest.raises(EngineDraining):
        house.admission.check()


async def test_engine_that_does_not_tick_refuses(house: House) -> None:
    house.engine.ready = False
    with pytest.raises(EngineUnavailable):
        house.admission.check()


async def test_half_open_calls_are_capped() -> None:
    house = House(engine=FakeEngine(slots=100))
    admission = Admission(house.engine, house.registry, house.rules, max_half_open=3, clock=house.clock)
    for _ in range(3):
        await admission.admit(SessionPrompt())
    with pytest.raises(TooManyHalfOpen):
        await admission.admit(SessionPrompt())


@pytest.mark.parametrize("name", ["bass", "bass.pt", "bass.wav", "bass.safetensors"])
async def test_a_voice_may_be_named_by_the_file_that_other_servers_read_it_from(house: House, name: str) -> None:
    await house.admission.admit(SessionPrompt(voice=name))
    assert house.engine.prompts[-1].voice == "bass"


async def test_unknown_voice_lists_the_known_ones(house: House) -> None:
    with pytest.raises(UnknownVoiceError, match="alto, bass"):
        await house.admission.admit(SessionPrompt(voice="../../etc/passwd"))
    assert house.engine.leases == []


async def test_too_long_persona_is_refused_with_the_limit(house: House) -> None:
    with pytest.raises(BadRequest, match="4000"):
        await house.admission.admit(SessionPrompt(persona="x" * 4001))


async def test_defaults_fill_what_was_not_asked_for(house: House) -> None:
    admission = Admission(
        house.engine, house.registry, house.rules, Defaults("You are kind.", "bass"), clock=house.clock
    )
    await admission.admit(SessionPrompt(seed=3))
    await admission.admit(SessionPrompt(persona="", voice="alto"))
    assert house.engine.prompts == [
        SessionPrompt(persona="You are kind.", voice="bass", seed=3),
        SessionPrompt(persona="", voice="alto"),
    ]


async def test_default_that_would_fail_is_found_at_the_start(house: House) -> None:
    admission = Admission(house.engine, house.registry, house.rules, Defaults(None, "tenor"), clock=house.clock)
    with pytest.raises(ConfigError, match="tenor"):
        await admission.check_defaults()


async def test_default_that_the_engine_would_refuse_is_found_at_the_start(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(prompt: SessionPrompt) -> None:
        raise TooLarge("the persona is 86 tokens long", hint="shorten it")

    monkeypatch.setattr(house.engine, "reserve", refuse)
    with pytest.raises(ConfigError, match="the default persona is 86 tokens long; shorten it"):
        await house.admission.check_defaults()


async def test_checking_the_defaults_takes_no_slot(house: House) -> None:
    await house.admission.check_defaults()
    assert house.engine.capacity().in_use == 0


async def test_a_persona_that_is_no_text_is_refused(house: House) -> None:
    with pytest.raises(BadRequest, match="no text"):
        await house.admission.admit(SessionPrompt(persona="a\ud800"))


async def test_session_ids_are_random(house: House) -> None:
    first, _ = await house.call()
    second, _ = await house.call()
    assert len(first.id) >= 22 and first.id[:8] != second.id[:8]
