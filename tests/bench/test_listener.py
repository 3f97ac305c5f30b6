import time
from pathlib import Path

import numpy as np
import pytest

from rtc_server.bench.listener import ENGINE, FOLDER_VARIABLE, Listener, Recording, recording_path
from rtc_server.engine import registry
from rtc_server.engine.conformance import check_stepper
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import FRAME_SAMPLES, SessionPrompt
from rtc_server.errors import ConfigError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def test_it_is_an_engine_like_any_other(folder: Path) -> None:
    assert isinstance(registry.create(ENGINE, EngineOptions(slots=2))(), Listener)
    check_stepper(lambda slots: Listener(slots, EngineOptions(slots=slots)))


def test_it_keeps_what_each_conversation_hears_with_the_time_of_each_step(folder: Path) -> None:
    listener = Listener(2, EngineOptions(slots=2))
    random = np.random.default_rng(1)
    pcm = random.uniform(-1, 1, (3, 2, FRAME_SAMPLES)).astype(np.float32)
    begin_s = time.monotonic()
    listener.open(0, SessionPrompt(seed=7))
    listener.open(1, SessionPrompt())
    listener.step(pcm[0], np.array([True, False]))
    listener.step(pcm[1], np.array([True, True]))
    listener.close(0)
    output = listener.step(pcm[2], np.array([False, True]))
    assert np.array_equal(output.pcm[1], pcm[2, 1])
    listener.close(1)
    seeded, other = (Recording.read(recording_path(folder, name)) for name in (7, "slot1-1"))
    assert np.abs(seeded.pcm / 32768 - pcm[:2, 0]).max() < 1e-4
    assert np.abs(other.sound().reshape(2, -1) - pcm[1:, 1]).max() < 1e-4
    assert begin_s <= seeded.at_s[0] < seeded.at_s[1] == other.at_s[0] < other.at_s[1] <= time.monotonic()


def test_a_frame_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = recording_path(tmp_path, "cut")
    path.write_bytes(bytes(3848 + 100))
    assert Recording.read(path).pcm.shape == (1, FRAME_SAMPLES)


@pytest.mark.parametrize("folder_name", ["", "missing"])
def test_without_a_folder_it_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_name: str) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, folder_name and str(tmp_path / folder_name))
    with pytest.raises(ConfigError, match=FOLDER_VARIABLE):
        Listener(1, EngineOptions(slots=1))
