from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from rtc_server.engine import registry
from rtc_server.engine.echo import EchoStepper
from rtc_server.engine.personaplex import presence
from rtc_server.engine.registry import EngineChoice, EngineOptions, choose, create, known_engines
from rtc_server.errors import ConfigError, UnknownEngine


def _without(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Everything can be imported, except these."""
    monkeypatch.setattr(registry, "_importable", lambda module: module not in modules)


def test_echo_by_its_name() -> None:
    stepper = create("echo", EngineOptions(slots=3))()
    assert isinstance(stepper, EchoStepper)
    assert stepper.slots == 3


def test_an_engine_of_your_own_by_module_and_class() -> None:
    assert isinstance(create("rtc_server.engine.echo:EchoStepper", EngineOptions())(), EchoStepper)


def test_an_engine_is_not_imported_before_its_factory_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "heavy_engine.py").write_text("from rtc_server.engine.echo import EchoStepper as Heavy\n")
    monkeypatch.syspath_prepend(tmp_path)
    factory = create("heavy_engine:Heavy", EngineOptions())
    assert "heavy_engine" not in sys.modules
    factory()
    assert "heavy_engine" in sys.modules


def test_an_entry_point_adds_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("mine", "rtc_server.engine.echo:EchoStepper", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == "rtc_server.engines" else [])
    assert "mine" in known_engines()
    assert isinstance(create("mine", EngineOptions())(), EchoStepper)


def test_an_unknown_name_lists_the_known_ones_and_guesses() -> None:
    with pytest.raises(UnknownEngine, match=r"'ecoh'; did you mean 'echo'\? known: auto, personaplex, cascade, echo"):
        create("ecoh", EngineOptions())


@pytest.mark.parametrize("name", ["", "nothing-like-it", ":", "a:", ":B", "../x:Y", "a b:C", "x" * 10_000])
def test_a_malformed_name_is_an_unknown_engine(name: str) -> None:
    with pytest.raises(UnknownEngine) as caught:
        create(name, EngineOptions())
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module_here:Engine", "no module no_such_module_here"),
        ("rtc_server.no_such_module:Engine", "no module rtc_server.no_such_module"),
        ("rtc_server.engine.echo:Nothing", "has no Nothing"),
        ("rtc_server.engine.stepper:FRAME_MS", "is no class"),
    ],
)
def test_a_module_or_class_that_is_not_there_is_named(name: str, message: str) -> None:
    with pytest.raises(UnknownEngine, match=message):
        create(name, EngineOptions())()


def test_a_package_that_an_engine_needs_and_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "needy_engine.py").write_text("import no_such_package_here\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="needs the package no_such_package_here"):
        create("needy_engine:Engine", EngineOptions())()


def test_slots_must_hold_a_conversation() -> None:
    with pytest.raises(ConfigError, match="--slots"):
        create("echo", EngineOptions(slots=0))


def test_personaplex_without_its_packages_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, "torch")
    with pytest.raises(ConfigError, match=r"personaplex lacks the packages torch; pip install '\.\[personaplex"):
        create("personaplex", EngineOptions())


def test_cascade_without_its_packages_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, "earshot", "tokenizers")
    with pytest.raises(ConfigError, match=r"cascade lacks the packages earshot, tokenizers; pip install"):
        create("cascade", EngineOptions())


def test_auto_prefers_personaplex_where_there_is_a_gpu_and_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch)
    monkeypatch.setattr(presence, "nvidia_gpus", lambda: 1)
    monkeypatch.setattr(presence, "is_downloaded", lambda repository: True)
    assert choose() == EngineChoice("personaplex", "Engine personaplex.")


def test_auto_falls_back_to_cascade_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, "torch")
    choice = choose()
    assert choice.name == "cascade"
    assert "personaplex lacks the packages torch" in choice.reason


def test_auto_starts_no_model_of_seven_billion_parameters_on_a_laptop(monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch)
    monkeypatch.setattr(presence, "nvidia_gpus", lambda: 0)
    assert "personaplex wants an NVIDIA GPU" in choose().reason


def test_auto_downloads_nothing_unasked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _without(monkeypatch)
    monkeypatch.setattr(presence, "nvidia_gpus", lambda: 1)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert "is not on this machine" in choose().reason
    snapshot = tmp_path / "models--nvidia--personaplex-7b-v1" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").touch()
    assert choose().name == "personaplex"


def test_auto_falls_back_to_echo_and_says_what_brings_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, "torch", "hibari")
    choice = choose()
    assert choice.name == "echo"
    assert "lacks the packages hibari (pip install '.[demo]' in the folder of the source brings them)" in choice.reason
    assert isinstance(create("auto", EngineOptions())(), EchoStepper)
