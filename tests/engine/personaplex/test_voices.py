from __future__ import annotations

import dataclasses
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from rtc_server.engine.personaplex import convert
from rtc_server.engine.personaplex.checkpoint import in_folder
from rtc_server.engine.personaplex.config import TINY_LM
from rtc_server.engine.personaplex.voicefiles import StoredVoice, VoiceAudio, VoiceUnusable, write_voice
from rtc_server.engine.personaplex.voices import VoiceShelf, check_model, default_cache, shelf_of
from rtc_server.errors import ConfigError, UnknownVoice
from tests.logs import captured_logs

from .goldens import GOLDEN, lm_config
from .test_voicearchive import archive, member
from .tiny import tiny_checkpoint
from .wavs import speech, wav

PT = (GOLDEN / "voice_tiny.pt").read_bytes()
SLM = lm_config("slm")


def stored(frames: int = 5, dim: int = 32, token: int = 7) -> StoredVoice:
    return StoredVoice(torch.ones(frames, dim), torch.full((17, 4), token))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One voice of each kind."""
    path = tmp_path / "voices"
    path.mkdir()
    (path / "PUBLISHED.pt").write_bytes(PT)
    (path / "Recorded.wav").write_bytes(wav(speech(1.0)))
    write_voice(path / "prepared.safetensors", stored())
    return path


def test_voices_of_all_kinds_are_found_by_name(folder: Path, tmp_path: Path) -> None:
    shelf = VoiceShelf([folder], SLM, tmp_path / "cache")
    assert shelf.names == ("PUBLISHED", "Recorded", "prepared")
    assert [voice.kind for voice in shelf.listed] == ["pt", "wav", "prepared"]
    assert [shelf.frames(name) for name in shelf.names] == [12, 13, 6]
    assert [voice.seconds for voice in shelf.listed] == pytest.approx([0.96, 1.0, 0.48])
    assert shelf.recorded == ("Recorded",)
    kinds = [type(shelf.load(name)) for name in shelf.names]
    assert kinds == [StoredVoice, VoiceAudio, StoredVoice]


def test_the_default_voice_is_natf0_or_else_the_first(folder: Path, tmp_path: Path) -> None:
    (folder / "NATF0.pt").write_bytes(PT)
    assert VoiceShelf([folder], SLM, tmp_path / "cache").names[0] == "NATF0"


def test_what_operators_bring(tmp_path: Path) -> None:
    """Odd formats are taken, broken files are told apart, and the others still speak."""
    (tmp_path / "mono.wav").write_bytes(wav(speech(10.0)))
    (tmp_path / "stereo.wav").write_bytes(wav(np.stack([speech(2.0, 44_100)] * 2), 44_100))
    (tmp_path / "phone.wav").write_bytes(wav(speech(2.0, 8_000), 8_000, "mulaw"))
    (tmp_path / "empty.wav").write_bytes(wav(speech(0.0)))
    (tmp_path / "long.wav").write_bytes(wav(np.tile(speech(10.0, 8_000), 60), 8_000))
    (tmp_path / "renamed.wav").write_bytes(b"ID3\x04\0\0\0\0\0\x21" + b"\xff\xfb\x90\x00" * 2_000)
    (tmp_path / "truncated.pt").write_bytes(PT[: len(PT) // 2])
    (tmp_path / "no file.wav").write_bytes(wav(speech(1.0)))
    (tmp_path / "folder.pt").mkdir()
    (tmp_path / "broken.safetensors").write_bytes(b"{}")
    (tmp_path / "notes.txt").write_text("not a voice")
    shelf = VoiceShelf([tmp_path])
    assert shelf.names == ("mono", "phone", "stereo")
    problems = {voice.name: voice.problem for voice in shelf.listed if voice.problem}
    assert problems.keys() == {"empty", "long", "renamed", "truncated", "no file.wav", "folder", "broken"}
    assert "0.00 s" in problems["empty"] and "60 s" in problems["long"] and "WAV" in problems["renamed"]
    assert "PyTorch" in problems["truncated"] and "letters" in problems["no file.wav"]
    for name, seconds in (("mono", 10), ("phone", 2), ("stereo", 2)):
        voice = shelf.load(name)
        assert isinstance(voice, VoiceAudio) and voice.seconds == pytest.approx(seconds, abs=0.01)


def test_the_problems_are_logged_with_their_files(tmp_path: Path) -> None:
    (tmp_path / "empty.wav").write_bytes(b"")
    (tmp_path / "good.wav").write_bytes(wav(speech(1.0)))
    with captured_logs() as records:
        VoiceShelf([tmp_path]).log_problems()
    assert [record["file"] for record in records] == [str(tmp_path / "empty.wav")]


@given(st.text())
def test_only_names_on_the_shelf_are_voices(name: str) -> None:
    shelf = VoiceShelf([])
    for ask in (shelf.load, shelf.frames):
        with pytest.raises(UnknownVoice):
            ask(name)


@pytest.mark.parametrize(
    "name",
    ["../voices/prepared", "prepared.safetensors", "PREPARED", "", ".", "/etc/passwd", "prepared\0", "prepared/"],
)
def test_a_name_is_compared_and_never_opened(folder: Path, name: str) -> None:
    with pytest.raises(UnknownVoice, match="there are: PUBLISHED, Recorded, prepared"):
        VoiceShelf([folder]).load(name)


def test_published_voices_and_recordings_are_prepared_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = VoiceShelf([folder], SLM, tmp_path / "cache")
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("unpickled again"))
    monkeypatch.setattr(convert, "read_wav", lambda *_: pytest.fail("decoded again"))
    again = VoiceShelf([folder], SLM, tmp_path / "cache")
    assert again.listed == first.listed
    one, other = first.load("PUBLISHED"), again.load("PUBLISHED")
    assert isinstance(one, StoredVoice) and isinstance(other, StoredVoice)
    assert torch.equal(one.embeddings, other.embeddings)
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_changed_file_is_prepared_anew(folder: Path, tmp_path: Path) -> None:
    VoiceShelf([folder], SLM, tmp_path / "cache")
    (folder / "Recorded.wav").write_bytes(wav(speech(1.5)))
    assert VoiceShelf([folder], SLM, tmp_path / "cache").frames("Recorded") == 19


def test_a_damaged_prepared_file_is_made_anew(folder: Path, tmp_path: Path) -> None:
    VoiceShelf([folder], SLM, tmp_path / "cache")
    for file in (tmp_path / "cache").iterdir():
        file.write_bytes(b"spoilt")
    assert len(VoiceShelf([folder], SLM, tmp_path / "cache").names) == 3


@pytest.mark.parametrize("cache", [None, "file"])
def test_where_nothing_can_be_written_prepared_voices_stay_in_memory(
    folder: Path, tmp_path: Path, cache: str | None
) -> None:
    (tmp_path / "file").write_bytes(b"")
    shelf = VoiceShelf([folder], SLM, tmp_path / cache if cache else None)
    assert shelf.load("PUBLISHED") is shelf.load("PUBLISHED")
    assert shelf.load("Recorded").calls == 13


def test_the_earlier_folder_and_the_prepared_kind_come_first(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    write_voice(own / "PUBLISHED.safetensors", stored(frames=3))
    write_voice(folder / "Recorded.safetensors", stored(frames=2))
    shelf = VoiceShelf([own, folder])
    assert shelf.frames("PUBLISHED") == 4 and shelf.frames("Recorded") == 3
    assert len(shelf.listed) == len(shelf.names) == 3


def test_a_file_that_cannot_be_used_hides_no_other_of_its_name(folder: Path) -> None:
    (folder / "PUBLISHED.safetensors").write_bytes(b"spoilt")
    shelf = VoiceShelf([folder])
    assert shelf.frames("PUBLISHED") == 12
    assert [voice.file.name for voice in shelf.listed if voice.problem] == ["PUBLISHED.safetensors"]


def test_a_voice_that_vanished_or_changed_meanwhile_is_refused(folder: Path) -> None:
    shelf = VoiceShelf([folder], SLM)
    write_voice(folder / "prepared.safetensors", stored(frames=6))
    with pytest.raises(VoiceUnusable, match="has changed"):
        shelf.load("prepared")
    write_voice(folder / "prepared.safetensors", StoredVoice(torch.full((5, 32), 2.0), stored().cache))
    with pytest.raises(VoiceUnusable, match="has changed"):
        shelf.load("prepared")
    write_voice(folder / "prepared.safetensors", stored())
    shelf.load("prepared")
    (folder / "prepared.safetensors").unlink()
    with pytest.raises(VoiceUnusable, match="any more"):
        shelf.load("prepared")
    shelf.load("PUBLISHED")


@pytest.mark.parametrize(
    ("voice", "problem"),
    [
        (stored(dim=64), "width 64, and this one has 32"),
        (stored(frames=28), "29 frames, and this model remembers at most 26"),
        (VoiceAudio(speech(2.3)), "29 frames, and this model remembers at most 26"),
        (stored(token=2049), "does not know"),
    ],
)
def test_a_voice_has_to_fit_the_model(voice: StoredVoice | VoiceAudio, problem: str) -> None:
    with pytest.raises(VoiceUnusable, match=problem):
        check_model(voice, SLM)
    check_model(voice, None)


def test_a_voice_that_is_too_long_to_be_pinned_is_left_off_with_a_reason(folder: Path, tmp_path: Path) -> None:
    shelf = VoiceShelf([folder], SLM, tmp_path / "cache", most_calls=12)
    assert shelf.names == ("PUBLISHED", "prepared")
    (problem,) = [voice.problem for voice in shelf.listed if voice.problem]
    assert "it lasts 13 frames, and at most 12 of a voice can be pinned" in problem and "--pin-prompt" in problem
    assert shelf_of(None, folder, tmp_path / "cache", most_calls=11).names == ("prepared",)


def test_text_and_audio_tokens_have_limits_of_their_own() -> None:
    voice = stored(dim=TINY_LM.dim, token=TINY_LM.card)
    voice.cache[0] = TINY_LM.text_card
    check_model(voice, TINY_LM)
    with pytest.raises(VoiceUnusable):
        check_model(voice, dataclasses.replace(TINY_LM, text_card=TINY_LM.text_card - 1))


def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path) -> None:
    with pytest.raises(VoiceUnusable, match="missing"):
        VoiceShelf([tmp_path / "missing"])
    with pytest.raises(ConfigError, match="--voices .*missing is no folder"):
        shelf_of(None, tmp_path / "missing", tmp_path / "cache")


def test_ones_own_voices_come_before_those_of_the_checkpoint(folder: Path, tmp_path: Path) -> None:
    checkpoint = in_folder(tiny_checkpoint(tmp_path / "checkpoint"))
    write_voice(folder / "ALTO.safetensors", stored(frames=3))
    shelf = shelf_of(checkpoint, folder, tmp_path / "cache")
    assert shelf.names == ("ALTO", "BASS", "PUBLISHED", "Recorded", "prepared")
    assert shelf.frames("ALTO") == 4


def test_the_archive_of_a_checkpoint_is_unpacked(tmp_path: Path) -> None:
    checkpoint = in_folder(tiny_checkpoint(tmp_path / "checkpoint"))
    path = archive(tmp_path / "voices.tgz", [member("voices/NATF0.pt", PT), member("voices/NATM1.pt", PT)])
    checkpoint = dataclasses.replace(checkpoint, voices=path)
    for _ in range(2):
        shelf = shelf_of(checkpoint, None, tmp_path / "cache")
        assert shelf.names == ("NATF0", "NATM1")
        assert isinstance(shelf.load("NATM1"), StoredVoice)


def test_without_any_folder_the_shelf_is_empty(tmp_path: Path) -> None:
    checkpoint = dataclasses.replace(in_folder(tiny_checkpoint(tmp_path / "checkpoint")), voices=None)
    assert shelf_of(checkpoint, None, tmp_path / "cache").names == ()


def test_where_prepared_voices_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CACHE_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "rtc-server" / "voices"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert default_cache() == tmp_path / ".cache" / "rtc-server" / "voices"
    monkeypatch.setattr(Path, "home", _homeless)
    with pytest.raises(VoiceUnusable, match="XDG_CACHE_HOME"):
        default_cache()
    monkeypatch.setenv("CACHE_DIRECTORY", "/var/cache/rtc-server:/var/cache/other")
    assert default_cache() == Path("/var/cache/rtc-server/voices")


def _homeless() -> Path:
    raise RuntimeError("Could not determine home directory.")
