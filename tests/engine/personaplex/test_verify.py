"""A whole folder holds; whatever is damaged in it is found, and where it is."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rtc_server.engine.personaplex.config import LmConfig, MimiConfig
from rtc_server.engine.personaplex.verify import batch, choice, codec, language, moshi, session
from rtc_server.engine.personaplex.verify.compare import Comparison
from rtc_server.engine.personaplex.verify.report import Report
from rtc_server.engine.personaplex.verify.run import verify
from rtc_server.errors import ConfigError

from .goldens import GOLDEN

PARTS = {
    "mimi": codec.FILES,
    "lm": language.FILES,
    "lm_batch": batch.FILES,
    "session": session.FILES,
    "moshi": moshi.FILES,
    "sampling": choice.FILES,
}


@pytest.fixture(scope="module")
def report() -> Report:
    return verify(GOLDEN, device="cpu")


CALLS = 30
"""Of the traces in a copy of the folder: enough for the ring to be full."""


def folder_of(place: Path, *parts: str) -> Path:
    """A copy of the golden folder with the files of these parts only, and short traces."""
    for name in {"README.json", *(name for part in parts for name in PARTS[part])}:
        if name == language.FILES[0]:
            save_file(_shortened(load_file(GOLDEN / name)), place / name)
        else:
            shutil.copy(GOLDEN / name, place / name)
    return place


def _shortened(trace: dict[str, Tensor]) -> dict[str, Tensor]:
    for name, tensor in trace.items():
        calls = CALLS if "." in name else CALLS + 1
        axis = 0 if tensor.ndim == 1 else 1
        trace[name] = tensor.narrow(axis, 0, calls).contiguous()
    return trace


def damage(folder: Path, file: str, tensor: str, change: Callable[[Tensor], None]) -> None:
    tensors = load_file(folder / file)
    change(tensors[tensor])
    save_file(tensors, folder / file)


def edit_readme(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    readme = json.loads((folder / "README.json").read_text())
    change(readme)
    (folder / "README.json").write_text(json.dumps(readme))


def missed(folder: Path) -> set[str]:
    return {group.name for group in verify(folder, device="cpu").missed}


# ---- what holds ------------------------------------------------------------------------------------------------------


def test_every_group_holds(report: Report) -> None:
    assert report.ok, [group.to_json() for group in report.missed]
    assert not report.notes


@pytest.mark.parametrize(
    "group",
    [
        "mimi encode: codes",
        "mimi decode: pcm",
        "mimi rows, late, reset, moved: pcm",
        "lm greedy: hidden",
        "lm greedy: tokens",
        "lm greedy: code logits",
        "lm forced: text logits",
        "lm mixed20: tokens",
        "lm greedy, 16 steps: code logits",
        "lm forced, prefill, whole: hidden",
        "lm mixed20, prefill, chunks: hidden",
        "lm mixed20, prefill, cache, moved: tokens",
        "lm_batch, given calls: tokens",
        "lm_batch, prefill: tokens",
        "session: text",
        "session, voice stored: tokens",
        "session, voice spoken: pcm",
        "engine, slots: tokens",
        "engine, slots: pcm",
        "moshi: tokens",
        "moshi rows, one reset: tokens",
        "sampling text: tokens",
        "sampling audio, greedy: tokens",
    ],
)
def test_a_group_compares_something(group: str, report: Report) -> None:
    found = next(one for one in report.groups if one.name == group)
    assert found.values or found.tokens or group == "session: text"


def test_every_token_of_the_traces_is_compared(report: Report) -> None:
    """59 calls: one text token, 8 codes and, from the second call on, a frame of 17."""
    tokens = {group.name: group.tokens for group in report.groups}
    assert tokens["lm greedy: tokens"] == 59 * 9 + 58 * 17


def test_shorter_traces_are_compared_as_far_as_they_go(tmp_path: Path) -> None:
    found = verify(folder_of(tmp_path, "lm"), device="cpu")
    assert found.ok
    tokens = {group.name: group.tokens for group in found.groups}
    assert tokens["lm greedy: tokens"] == CALLS * 9 + (CALLS - 1) * 17


def test_a_folder_with_one_part_is_compared_as_far_as_it_goes(tmp_path: Path) -> None:
    found = verify(folder_of(tmp_path, "sampling"), device="cpu")
    assert found.ok
    assert {group.name for group in found.groups if group.skipped} == {
        "mimi", "lm", "openings", "lm_batch", "session", "moshi",
    }  # fmt: skip
    assert "not in this folder: mimi_golden.safetensors" in found.groups[0].skipped


def test_other_types_tell_their_errors_and_bind_nothing(tmp_path: Path) -> None:
    found = verify(folder_of(tmp_path, "lm"), device="cpu", dtype="bf16", weight_bits=8, kv_bits=8)
    assert found.ok
    errors = {group.name: group.max_error for group in found.groups}
    assert 1e-3 < errors["lm forced: hidden"] < 0.5
    assert all(group.to_json().get("limit") is None for group in found.groups)


# ---- what is damaged -------------------------------------------------------------------------------------------------


def first(value: float) -> Callable[[Tensor], None]:
    def change(tensor: Tensor) -> None:
        tensor.view(-1)[0] += value

    return change


def test_one_changed_weight_of_the_language_model_shows_in_its_parts_alone(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "lm", "lm_batch", "moshi", "sampling")
    damage(folder, language.WEIGHTS, "transformer.layers.1.gating.linear_out.weight", first(0.1))
    found = missed(folder)
    assert {"lm greedy: hidden", "lm forced: hidden", "lm_batch, given calls: hidden"} <= found
    assert all(name.startswith("lm") for name in found)


def test_one_changed_weight_of_the_depformer_shows_in_its_logits_alone(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "lm")
    damage(folder, language.WEIGHTS, "linears.3.weight", first(0.01))
    found = missed(folder)
    assert "lm greedy: code logits" in found
    assert all(" code logits" in name or "tokens" in name for name in found)


def test_one_changed_weight_of_a_step_that_nobody_hears_shows_where_all_steps_are_compared(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "lm")
    damage(folder, language.WEIGHTS, "linears.12.weight", first(0.01))
    assert {name.rpartition(":")[0].rpartition(", ")[2] for name in missed(folder)} == {"16 steps"}


def test_one_changed_weight_of_the_codec_shows_from_where_it_stands(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "mimi")
    damage(folder, codec.MIMI_WEIGHTS, "decoder.model.14.conv.conv.bias", first(1e-3))
    found = missed(folder)
    assert found == {"mimi decode: pcm", "mimi rows, late, reset, moved: pcm", "mimi decode, given codes: pcm"}


def test_one_changed_token_is_named_with_its_place(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "lm")

    def change(emitted: Tensor) -> None:
        emitted[0, 7, 2] += 1

    damage(folder, language.FILES[0], "greedy.emitted", change)
    found = verify(folder, device="cpu")
    (group,) = found.missed
    assert group.name == "lm greedy: tokens"
    assert group.tokens_wrong == 1
    assert group.first_wrong.startswith("frame, call 7, index 2: ")
    assert "sha256" in found.notes[0] and language.FILES[0] in found.notes[0]


def test_one_changed_sample_of_a_session_shows_in_its_sound(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "session")
    damage(folder, session.FILES[0], "eager.emitted_pcm", first(1e-3))
    assert missed(folder) == {"session, voice stored: pcm", "session, voice spoken: pcm", "engine, slots: pcm"}


def test_another_voice_shows_in_the_session_of_that_voice(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "session")
    voice = torch.load(folder / session.VOICE, weights_only=True)
    voice["embeddings"][3] += 0.5
    torch.save(voice, folder / session.VOICE)
    found = missed(folder)
    assert "session, voice stored: prefill hidden" in found
    assert not any(name.startswith("session, voice spoken") for name in found)


def test_another_window_shows_once_the_ring_is_full(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "lm", "moshi")
    edit_readme(folder, lambda readme: readme["configs"]["lm"].update(context=25))
    found = missed(folder)
    assert {"lm forced: hidden", "lm forced, prefill, whole: hidden"} <= found
    assert not any(name.startswith("moshi") for name in found)


@pytest.mark.parametrize(
    ("rule", "part", "group"),
    [
        ({"drop_oldest": False}, "lm", "lm forced: hidden"),
        ({"force_initial": False}, "lm", "lm greedy: tokens"),
        ({"drop_oldest": True}, "moshi", "moshi: tokens"),
        ({"force_initial": True}, "moshi", "moshi: tokens"),
    ],
)
def test_an_engine_with_another_rule_is_found_out(
    rule: dict[str, bool], part: str, group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = LmConfig.from_json

    def misread(raw: dict[str, Any], *, personaplex: bool) -> LmConfig:
        return dataclasses.replace(read(raw, personaplex=personaplex), **rule)

    monkeypatch.setattr(LmConfig, "from_json", misread)
    assert group in missed(folder_of(tmp_path, part))


def test_a_codec_with_another_window_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = MimiConfig.from_json

    def misread(raw: dict[str, Any], *, personaplex: bool) -> MimiConfig:
        return dataclasses.replace(read(raw, personaplex=personaplex), drop_oldest=False)

    monkeypatch.setattr(MimiConfig, "from_json", misread)
    assert "mimi encode: enc_transformer" in missed(folder_of(tmp_path, "mimi"))


def test_another_schedule_shows_in_the_batch(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "lm_batch")

    def change(readme: dict[str, Any]) -> None:
        readme["info"]["lm"]["sessions"][3]["prompt"] -= 1

    edit_readme(folder, change)
    found = missed(folder)
    assert "lm_batch, given calls: tokens" in found and "lm_batch, prefill: hidden" in found


def test_weights_that_are_not_finite_are_a_miss(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "lm")
    damage(folder, language.WEIGHTS, "out_norm.alpha", first(float("nan")))
    found = verify(folder, device="cpu", dtype="bf16")
    assert "lm forced: hidden" in {group.name for group in found.missed}
    json.dumps([group.to_json() for group in found.groups], allow_nan=False)


def test_a_part_that_raises_is_a_miss_and_hides_no_other(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "lm", "sampling")

    def change(codes: Tensor) -> None:
        codes[0, 5] = 10_000

    damage(folder, language.FILES[0], "user_codes", change)
    found = verify(folder, device="cpu")
    problems = {group.name: group.problems for group in found.missed}
    assert "Error in temporal.py, line " in problems["lm"][0]
    assert "openings" in problems
    assert any(group.name == "sampling text: tokens" and group.ok for group in found.groups)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delays": [0, 0, 1]}, "not those of 17 token rows"),
        ({"n_q": 32}, "n_q 32; this engine runs 16"),
        ({"gating": "gelu"}, "this engine runs 'silu'"),
    ],
)
def test_a_model_that_this_engine_cannot_be_is_a_miss_that_says_why(
    settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, "moshi", "sampling")
    edit_readme(folder, lambda readme: readme["configs"]["mk"].update(settings))
    (group,) = verify(folder, device="cpu").missed
    assert group.name == "moshi" and message in group.problems[0]


def test_other_delays_are_taken_from_the_folder(tmp_path: Path) -> None:
    """The traces are of the usual ones, so that they do not fit."""
    folder = folder_of(tmp_path, "moshi", "lm", "lm_batch", "session")

    def change(readme: dict[str, Any]) -> None:
        for name in ("lm", "slm", "mk"):
            readme["configs"][name]["delays"][4] = 2

    edit_readme(folder, change)
    found = verify(folder, device="cpu")
    assert {"lm greedy: tokens", "lm_batch, given calls: tokens", "moshi: tokens"} <= {
        group.name for group in found.missed
    }
    skipped = {group.name: group.skipped for group in found.groups if group.skipped}
    for name in ("openings", "lm_batch, prefill", "session"):
        assert "delays of at most one call" in skipped[name]


# ---- folders that cannot be used -------------------------------------------------------------------------------------


def _remove_readme(folder: Path) -> None:
    (folder / "README.json").unlink()


def _garble_readme(folder: Path) -> None:
    (folder / "README.json").write_text("{")


def _no_configs(folder: Path) -> None:
    edit_readme(folder, lambda readme: readme.pop("configs"))


def _no_width(folder: Path) -> None:
    edit_readme(folder, lambda readme: readme["configs"]["mk"].pop("dim"))


def _cut_weights(folder: Path) -> None:
    raw = (folder / moshi.WEIGHTS).read_bytes()
    (folder / moshi.WEIGHTS).write_bytes(raw[: len(raw) // 2])


def _cut_tensors(folder: Path) -> None:
    (folder / moshi.FILES[0]).write_bytes(b"no tensors")


def _lose_a_weight(folder: Path) -> None:
    tensors = load_file(folder / moshi.WEIGHTS)
    del tensors["out_norm.alpha"]
    save_file(tensors, folder / moshi.WEIGHTS)


def _lose_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / moshi.FILES[0])
    del tensors["sampled_text"]
    save_file(tensors, folder / moshi.FILES[0])


def _other_width(folder: Path) -> None:
    edit_readme(folder, lambda readme: readme["configs"]["mk"].update(dim=64))


def _nothing_but_readme(folder: Path) -> None:
    for name in moshi.FILES:
        (folder / name).unlink()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_remove_readme, "README.json"),
        (_garble_readme, "not JSON"),
        (_no_configs, "no object 'configs'"),
        (_no_width, "configs.mk does not tell 'dim'"),
        (_cut_weights, moshi.WEIGHTS),
        (_cut_tensors, moshi.FILES[0]),
        (_lose_a_weight, "out_norm.alpha"),
        (_lose_a_tensor, "sampled_text"),
        (_other_width, "of another shape"),
        (_nothing_but_readme, "no golden tensors"),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused_with_its_fault(
    spoil: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, "moshi")
    spoil(folder)
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        verify(folder, device="cpu")


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        verify(tmp_path / "nowhere", device="cpu")


# ---- comparing -------------------------------------------------------------------------------------------------------


@pytest.fixture
def compare() -> Iterator[Comparison]:
    yield Comparison(Report())


def test_the_largest_error_of_a_group_counts(compare: Comparison) -> None:
    compare.near("a", torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.00005]), 1e-4)
    compare.near("a", torch.tensor([1.0]), torch.tensor([1.00001]), 1e-4)
    (group,) = compare.report.groups
    assert group.max_error == pytest.approx(5e-5, rel=0.01)
    assert group.ok and group.values == 3
    compare.near("a", torch.tensor([1.0]), torch.tensor([1.001]), 1e-4)
    assert not group.ok


def test_an_error_that_is_no_number_is_never_forgotten(compare: Comparison) -> None:
    compare.near("a", torch.tensor([float("nan")]), torch.tensor([0.0]), 1.0)
    compare.near("a", torch.tensor([0.0]), torch.tensor([0.0]), 1.0)
    assert not compare.report.ok


def test_another_shape_is_a_miss(compare: Comparison) -> None:
    compare.near("a", torch.zeros(2), torch.zeros(3), 1.0)
    assert not compare.same("b", torch.zeros(2), torch.zeros(3), "here")
    assert [group.ok for group in compare.report.groups] == [False, False]


def test_wrong_tokens_are_counted_and_the_first_is_kept(compare: Comparison) -> None:
    assert compare.same("a", torch.tensor([1, 2]), torch.tensor([1, 2]), "call 0")
    assert not compare.same("a", torch.tensor([[1, 2], [5, 6]]), torch.tensor([[1, 2], [3, 4]]), "call 1")
    assert not compare.same("a", torch.tensor(9), torch.tensor(8), "call 2")
    (group,) = compare.report.groups
    assert (group.tokens, group.tokens_wrong) == (7, 3)
    assert group.first_wrong == "call 1, index 1, 0: 5 instead of 3"


def test_a_report_without_any_group_does_not_hold(compare: Comparison) -> None:
    assert not compare.report.ok
    compare.report.skip("a", "not there")
    assert not compare.report.ok
