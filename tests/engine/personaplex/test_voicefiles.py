from __future__ import annotations

import contextlib
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from torch import Tensor

from rtc_server.engine.personaplex.voicefiles import (
    MAX_CALLS,
    MAX_FILE_BYTES,
    StoredVoice,
    VoiceAudio,
    VoiceUnusable,
    check_audio,
    check_stored,
    from_safetensors,
    name_of,
    read_bytes,
    write_voice,
)

from .wavs import speech


def embeddings(frames: int = 5, dim: int = 8, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(frames, dim, generator=torch.Generator().manual_seed(3)).to(dtype)


def cache() -> Tensor:
    return torch.arange(17 * 4).view(17, 4)


@given(st.text(max_size=80), st.sampled_from([".wav", ".pt", ".safetensors", ".WAV", ".Pt"]))
def test_a_name_has_nothing_in_it_that_could_mean_something_to_a_file_system(stem: str, suffix: str) -> None:
    name = name_of(stem + suffix)
    assert name is None or name == stem
    if name is not None:
        assert 1 <= len(name) <= 64
        assert all(character.isascii() and (character.isalnum() or character in "_-") for character in name)


@pytest.mark.parametrize(
    "file",
    ["", ".wav", "wav", "a b.wav", "../a.wav", "a/b.wav", "a\\b.wav", "a.b.wav", "a\n.wav", "é.wav", "a.wav\n", "a.mp3",
     "a.wav.txt", "x" * 65 + ".wav", "a\0.wav", "\u0661.wav"],
)  # fmt: skip
def test_other_file_names_name_no_voice(file: str) -> None:
    assert name_of(file) is None


@given(st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True))
def test_every_name_of_letters_digits_and_dashes_names_one(name: str) -> None:
    assert name_of(f"{name}.pt") == name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_stored_voice_comes_back_as_it_was_written(tmp_path: Path, dtype: torch.dtype) -> None:
    voice = check_stored(embeddings(dtype=dtype), cache())
    write_voice(tmp_path / "A.safetensors", voice)
    got = from_safetensors(read_bytes(tmp_path / "A.safetensors"))
    assert isinstance(got, StoredVoice)
    assert got.embeddings.dtype == dtype
    assert torch.equal(got.embeddings, voice.embeddings) and torch.equal(got.cache, voice.cache)
    assert got.calls == 6 and got.seconds == pytest.approx(0.48)
    assert [file.name for file in tmp_path.iterdir()] == ["A.safetensors"]


def test_audio_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write_voice(tmp_path / "A.safetensors", VoiceAudio(speech(1.0)))
    got = from_safetensors(read_bytes(tmp_path / "A.safetensors"))
    assert isinstance(got, VoiceAudio)
    assert np.array_equal(got.pcm, speech(1.0))
    assert got.calls == 13 and got.seconds == 1.0


def test_a_voice_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "A.safetensors").mkdir()
    with pytest.raises(OSError):
        write_voice(tmp_path / "A.safetensors", check_stored(embeddings(), cache()))
    assert [file.name for file in tmp_path.iterdir()] == ["A.safetensors"]


def test_the_columns_of_the_token_ring_that_count() -> None:
    voice = check_stored(embeddings(5), cache())  # position 5 is column 1, position 6 column 2
    assert torch.equal(voice.newest, cache()[:, 1])
    assert torch.equal(voice.carry, cache()[:, 2])


def test_only_what_the_model_reads_of_the_ring_has_to_be_there() -> None:
    ring = cache()
    ring[:, [0, 3]] = -2
    ring[[0, 1, 9], 2] = -2
    check_stored(embeddings(5), ring)
    for row, column in ((0, 1), (16, 1), (2, 2), (16, 2)):
        spoilt = ring.clone()
        spoilt[row, column] = -2
        with pytest.raises(VoiceUnusable, match="no token"):
            check_stored(embeddings(5), spoilt)


def test_the_shapes_of_the_published_files_are_taken_too() -> None:
    voice = check_stored(embeddings()[:, None, None], cache()[None])
    assert voice.embeddings.shape == (5, 8) and voice.cache.shape == (17, 4)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (embeddings()[0], cache()),
        (embeddings()[None], cache()),
        (embeddings().expand(2, 5, 8).reshape(5, 1, 2, 8), cache()),
        (embeddings(0), cache()),
        (embeddings(MAX_CALLS, 1), cache()),
        (embeddings(5, 0), cache()),
        (embeddings(dtype=torch.float64), cache()),
        (torch.ones(5, 8, dtype=torch.int64), cache()),
        (torch.ones(5, 8, dtype=torch.complex64), cache()),
        (embeddings(dtype=torch.float32) / 0, cache()),
        (embeddings().to_sparse(), cache()),
        (embeddings().to("meta"), cache()),
        (torch.nn.Parameter(embeddings()), cache()),
        (torch.ones(1).expand(700, 1 << 28), cache()),
        (embeddings(), cache().int()),
        (embeddings(), cache()[:16]),
        (embeddings(), cache()[:, :3]),
        (embeddings(), cache()[None, None]),
    ],
)
def test_other_tensors_are_no_voice(first: Tensor, second: Tensor) -> None:
    with pytest.raises(VoiceUnusable):
        check_stored(first, second)


def test_a_view_of_something_larger_does_not_keep_it_alive() -> None:
    voice = check_stored(torch.randn(1000, 8)[:5], cache())
    assert voice.embeddings.untyped_storage().nbytes() == 5 * 8 * 4


@pytest.mark.parametrize("raw", [b"", b"\0" * 100, b"\xff" * 100, safetensors.torch.save({"x": torch.ones(3)})])
def test_other_files_are_no_prepared_voice(raw: bytes) -> None:
    with pytest.raises(VoiceUnusable):
        from_safetensors(raw)


@given(st.integers(0, 2000), st.binary(max_size=20))
def test_a_spoilt_file_is_read_or_refused(at: int, noise: bytes) -> None:
    raw = safetensors.torch.save({"embeddings": embeddings(), "cache": cache()})
    with contextlib.suppress(VoiceUnusable):
        from_safetensors(raw[:at] + noise + raw[at + len(noise) :])


@pytest.mark.parametrize("seconds", [0.0, 0.39, 60.01])
def test_a_recording_has_a_sensible_length(seconds: float) -> None:
    with pytest.raises(VoiceUnusable, match="0.4 to 60 s"):
        check_audio(np.zeros(round(seconds * 24_000), np.float32))


def test_a_recording_is_finite() -> None:
    pcm = speech(1.0)
    pcm[5] = np.nan
    with pytest.raises(VoiceUnusable, match="not finite"):
        check_audio(pcm)


def test_what_is_no_file_or_far_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "large.wav").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    (tmp_path / "folder.wav").mkdir()
    for name, problem in (("large", "64 MiB"), ("folder", "no file"), ("missing", "no file")):
        with pytest.raises(VoiceUnusable, match=problem):
            read_bytes(tmp_path / f"{name}.wav")
