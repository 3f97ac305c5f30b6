from __future__ import annotations

import contextlib
import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyloudnorm
import pytest
import torch
from hypothesis import example, given

from rtc_server.engine.personaplex.convert import from_pt, from_wav, voice_from
from rtc_server.engine.personaplex.voicefiles import StoredVoice, VoiceAudio, VoiceUnusable, write_voice

from .goldens import GOLDEN, golden
from .wavs import speech, wav

PT = (GOLDEN / "voice_tiny.pt").read_bytes()


def saved(content: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(content, file, **options)
    return file.getvalue()


def whole(**changes: Any) -> dict[str, Any]:
    return {"embeddings": torch.ones(4, 1, 1, 8), "cache": torch.ones(1, 17, 4, dtype=torch.int64), **changes}


def test_a_published_voice() -> None:
    voice = from_pt(PT)
    session = golden("session_golden")
    assert torch.equal(voice.embeddings, session["voice.embeddings"][:, 0, 0])
    assert torch.equal(voice.cache, session["voice.cache"][0])
    assert voice.calls == 12


def test_bfloat16_stays_bfloat16() -> None:
    assert from_pt(saved(whole(embeddings=torch.ones(4, 1, 1, 8).bfloat16()))).embeddings.dtype == torch.bfloat16


def test_what_else_lies_in_the_file_does_not_matter() -> None:
    from_pt(saved(whole(comment="made by hand", rate=24_000)))


@pytest.mark.parametrize(
    "content",
    [
        [],
        torch.ones(3),
        {},
        {"embeddings": torch.ones(4, 1, 1, 8)},
        whole(cache=[1, 2, 3]),
        whole(embeddings=None),
        whole(embeddings=torch.ones(4, 1, 1, 8) / 0),
        whole(embeddings=torch.ones(4, 1, 1, 8).to("meta")),
        whole(embeddings=torch.ones(4, 8).to_sparse()),
        whole(embeddings=torch.ones(1).expand(700, 1 << 28)),
        whole(cache=torch.full((1, 17, 4), -2)),
    ],
)
def test_other_contents_are_refused(content: Any) -> None:
    with pytest.raises(VoiceUnusable):
        from_pt(saved(content))


class Trap:
    """Unpickling it would make a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    trap = Trap(tmp_path / "sprung")
    for raw in (
        saved(whole(more=trap)),
        saved(whole(more=trap), _use_new_zipfile_serialization=False),
        pickle.dumps(trap),
    ):
        with pytest.raises(VoiceUnusable):
            from_pt(raw)
    assert not trap.path.exists()


@pytest.mark.parametrize("raw", [b"", b"PK\x03\x04", PT[:100], PT[:2000], PT[:-30], b"\0" * 500, pickle.dumps(whole())])
def test_a_truncated_or_foreign_file_is_refused(raw: bytes) -> None:
    with pytest.raises(VoiceUnusable):
        from_pt(raw)


def test_a_file_that_grows_when_it_is_read_is_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("v/data/0", "w") as member:
        for _ in range(80):
            member.write(bytes(1 << 20))
    with pytest.raises(VoiceUnusable, match="80 MiB"):
        from_pt(file.getvalue())


def repacked(**changed: bytes) -> bytes:
    """The published voice with other contents of some members, and the right checksums."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(PT)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            new.writestr(name, changed.get(name.rpartition("/")[2].partition(".")[0], old.read(name)))
    return file.getvalue()


PICKLE = zipfile.ZipFile(io.BytesIO(PT)).read("voice_tiny/data.pkl")


@given(st.lists(st.tuples(st.integers(0, len(PICKLE) - 1), st.integers(0, 255)), min_size=1, max_size=4))
@example([(PICKLE.index(b"Q"), ord("."))])
def test_a_spoilt_pickle_is_read_or_refused(changes: list[tuple[int, int]]) -> None:
    spoilt = bytearray(PICKLE)
    for at, value in changes:
        spoilt[at] = value
    with contextlib.suppress(VoiceUnusable):
        from_pt(repacked(data=bytes(spoilt)))


def test_a_recording_is_brought_to_one_rate_channel_and_loudness() -> None:
    pcm = np.stack([speech(2.0, 44_100), -speech(2.0, 44_100)])
    voice = from_wav(wav(pcm, 44_100))
    assert voice.seconds == pytest.approx(2.0, abs=0.001)
    assert pyloudnorm.Meter(24_000).integrated_loudness(voice.pcm.astype(np.float64)) == pytest.approx(-24, abs=0.01)


@pytest.mark.parametrize("pcm", [speech(0.0), speech(0.3), np.zeros(24_000, np.float32)])
def test_a_recording_without_a_voice_in_it_is_refused(pcm: np.ndarray) -> None:
    with pytest.raises(VoiceUnusable):
        from_wav(wav(pcm))


def test_the_suffix_says_what_a_file_holds(tmp_path: Path) -> None:
    (tmp_path / "a.PT").write_bytes(PT)
    (tmp_path / "b.Wav").write_bytes(wav(speech(1.0)))
    stored, audio = voice_from(tmp_path / "a.PT"), voice_from(tmp_path / "b.Wav")
    assert isinstance(stored, StoredVoice) and isinstance(audio, VoiceAudio)
    write_voice(tmp_path / "c.safetensors", stored)
    assert isinstance(voice_from(tmp_path / "c.safetensors"), StoredVoice)
    with pytest.raises(VoiceUnusable, match=r"'\.mp3'"):
        voice_from(tmp_path / "d.mp3")
