from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtc_server.archive import Limits
from rtc_server.engine.personaplex import voicearchive
from rtc_server.engine.personaplex.voicearchive import NOTE, unpack_voices, unpacked
from rtc_server.engine.personaplex.voicefiles import VoiceUnusable


def member(
    name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, to: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, len(content), to
    return info, content


def archive(path: Path, members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != NOTE}


PUBLISHED = [
    member("voices", kind=tarfile.DIRTYPE),
    member("voices/NATF0.pt", b"one"),
    member("voices/NATM0.pt", b"two"),
    member("voices/._NATM0.pt", b"of a file manager"),
    member("voices/README.md", b"words"),
    member("voices/mine.wav", b"three"),
]


def test_voices_are_written_under_their_bare_names_and_nothing_else(tmp_path: Path) -> None:
    unpack_voices(archive(tmp_path / "voices.tgz", PUBLISHED), tmp_path / "cache" / "voices")
    assert contents(tmp_path / "cache" / "voices") == {"NATF0.pt": b"one", "NATM0.pt": b"two", "mine.wav": b"three"}
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["voices"]


def test_the_same_archive_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path / "voices.tgz", PUBLISHED)
    unpack_voices(path, tmp_path / "voices")
    monkeypatch.setattr(voicearchive, "_extract", lambda *_: pytest.fail("again"))
    unpack_voices(path, tmp_path / "voices")


def test_another_archive_replaces_what_the_first_one_left(tmp_path: Path) -> None:
    unpack_voices(archive(tmp_path / "voices.tgz", PUBLISHED), tmp_path / "voices")
    unpack_voices(archive(tmp_path / "voices.tgz", [member("a/OTHER.pt", b"new")]), tmp_path / "voices")
    assert contents(tmp_path / "voices") == {"OTHER.pt": b"new"}


def test_somebody_elses_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "voices").mkdir()
    path = archive(tmp_path / "voices.tgz", PUBLISHED)
    (tmp_path / "voices" / "mine.wav").write_bytes(b"precious")
    with pytest.raises(VoiceUnusable, match="other files"):
        unpack_voices(path, tmp_path / "voices")
    assert contents(tmp_path / "voices") == {"mine.wav": b"precious"}


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "voices").mkdir()
    unpack_voices(archive(tmp_path / "voices.tgz", PUBLISHED), tmp_path / "voices")
    assert len(contents(tmp_path / "voices")) == 3


def test_in_a_cache_each_archive_has_a_folder_of_its_own(tmp_path: Path) -> None:
    one = unpacked(archive(tmp_path / "a.tgz", PUBLISHED), tmp_path / "cache")
    other = unpacked(archive(tmp_path / "b.tgz", PUBLISHED[:2]), tmp_path / "cache")
    assert one != other and one.parent == other.parent == tmp_path / "cache"
    assert set(contents(other)) == {"NATF0.pt"}


def test_several_processes_may_unpack_at_once(tmp_path: Path) -> None:
    path = archive(tmp_path / "voices.tgz", PUBLISHED)
    problems: list[Exception] = []

    def work() -> None:
        try:
            unpack_voices(path, tmp_path / "voices")
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert len(contents(tmp_path / "voices")) == 3
    assert {path.name for path in tmp_path.iterdir()} == {"voices", "voices.tgz"}


HOSTILE = {
    "up": [member("../evil.pt", b"x")],
    "up, deep": [member("voices/../../evil.pt", b"x")],
    "absolute": [member("/evil.pt", b"x")],
    "symlink": [member("voices/a.pt", kind=tarfile.SYMTYPE, to="/etc/passwd")],
    "symlink to a folder": [member("voices", kind=tarfile.SYMTYPE, to=".."), member("voices/evil.pt", b"x")],
    "hard link": [member("voices/a.pt", kind=tarfile.LNKTYPE, to="../voices.tgz")],
    "character device": [member("voices/a.pt", kind=tarfile.CHRTYPE)],
    "block device": [member("voices/a.pt", kind=tarfile.BLKTYPE)],
    "pipe": [member("voices/a.pt", kind=tarfile.FIFOTYPE)],
    "sparse": [member("voices/a.pt", kind=tarfile.GNUTYPE_SPARSE)],
}


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_member_condemns_the_archive(tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    (tmp_path / "deep").mkdir()
    path = archive(tmp_path / "deep" / "voices.tgz", members)
    with pytest.raises(VoiceUnusable):
        unpack_voices(path, tmp_path / "deep" / "voices")
    with pytest.raises(VoiceUnusable):  # nor does what was good before it stay
        unpack_voices(archive(path, [*PUBLISHED, *members]), tmp_path / "deep" / "voices")
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["voices.tgz"]
    assert [file.name for file in tmp_path.iterdir()] == ["deep"]


def test_the_mode_in_an_archive_does_not_matter(tmp_path: Path) -> None:
    info, content = member("voices/a.pt", b"x")
    info.mode, info.uid, info.gid = 0o6777, 0, 0
    unpack_voices(archive(tmp_path / "voices.tgz", [(info, content)]), tmp_path / "voices")
    assert os.stat(tmp_path / "voices" / "a.pt").st_mode & 0o7022 == 0


SMALL = Limits(members=50, file_bytes=100_000, total_bytes=1_000_000)


def test_too_many_members(tmp_path: Path) -> None:
    path = archive(tmp_path / "voices.tgz", (member(f"voices/{i}.pt") for i in range(51)))
    with pytest.raises(VoiceUnusable, match="more than 50 members"):
        unpack_voices(path, tmp_path / "voices", SMALL)


def test_a_hundred_thousand_members_are_not_waited_for(tmp_path: Path) -> None:
    header = member("voices/words.md")[0].tobuf()
    path = tmp_path / "voices.tgz"
    path.write_bytes(gzip.compress(header * 100_000, 1))
    with pytest.raises(VoiceUnusable, match="more than 5000 members"):
        unpack_voices(path, tmp_path / "voices")


def test_a_large_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    info = member("voices/a.pt")[0]
    info.size = 1 << 40
    path = tmp_path / "voices.tgz"
    path.write_bytes(gzip.compress(info.tobuf()))
    with pytest.raises(VoiceUnusable, match="1099511627776 bytes"):
        unpack_voices(path, tmp_path / "voices", SMALL)


def test_many_files_that_are_large_together(tmp_path: Path) -> None:
    path = archive(tmp_path / "voices.tgz", (member(f"{i}.pt", bytes(99_000)) for i in range(20)))
    with pytest.raises(VoiceUnusable, match="more than 1000000 bytes"):
        unpack_voices(path, tmp_path / "voices", SMALL)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGLINK])
def test_a_header_that_grows_is_refused(tmp_path: Path, kind: bytes) -> None:
    """The archive reader takes such headers into memory whole."""
    info = member("x", kind=kind)[0]
    info.size = (1 << 33) - 1
    path = tmp_path / "voices.tgz"
    path.write_bytes(gzip.compress(info.tobuf() + bytes(2_000_000)))
    with pytest.raises(VoiceUnusable, match="more than 1000000 bytes"):
        unpack_voices(path, tmp_path / "voices", SMALL)


def test_zeros_without_end_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "voices.tgz"
    path.write_bytes(gzip.compress(bytes(50_000_000)))
    with pytest.raises(VoiceUnusable):
        unpack_voices(path, tmp_path / "voices", SMALL)


def whole(tmp_path: Path) -> bytes:
    return archive(tmp_path / "whole.tgz", PUBLISHED).read_bytes()


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda raw: b"",
    "no gzip": lambda raw: b"<html>not found</html>",
    "gzip of no tar": lambda raw: gzip.compress(b"hello" * 1000),
    "truncated": lambda raw: raw[: len(raw) // 2],
    "spoilt": lambda raw: raw[:60] + b"\xff\xff\xff\xff" + raw[64:],
    "no voices": lambda raw: gzip.compress(bytes(10_240)),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_archive_leaves_nothing(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "voices.tgz"
    path.write_bytes(damage(whole(tmp_path)))
    with pytest.raises(VoiceUnusable, match=r"voices\.tgz"):
        unpack_voices(path, tmp_path / "voices")
    assert {file.name for file in tmp_path.iterdir()} == {"voices.tgz", "whole.tgz"}


@given(st.lists(st.tuples(st.integers(0, 4096), st.integers(0, 255)), min_size=1, max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_spoilt_tar_is_unpacked_or_refused(tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    raw = bytearray(gzip.decompress(whole(tmp_path)))
    for at, value in changes:
        raw[at] = value
    path = tmp_path / "voices.tgz"
    path.write_bytes(gzip.compress(bytes(raw), 1))
    try:
        folder = unpacked(path, tmp_path / "cache")
    except VoiceUnusable:
        return
    assert all(file.suffix in {".pt", ".wav", ".json"} for file in folder.iterdir())


def test_a_missing_archive_and_a_folder_that_cannot_be_made_are_named(tmp_path: Path) -> None:
    with pytest.raises(VoiceUnusable, match=r"missing\.tgz cannot be read"):
        unpack_voices(tmp_path / "missing.tgz", tmp_path / "voices")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(VoiceUnusable, match="cannot be unpacked into"):
        unpack_voices(archive(tmp_path / "voices.tgz", PUBLISHED), tmp_path / "file" / "voices")


def test_a_spoilt_note_is_no_note(tmp_path: Path) -> None:
    path = archive(tmp_path / "voices.tgz", PUBLISHED)
    unpack_voices(path, tmp_path / "voices")
    (tmp_path / "voices" / NOTE).write_text("{")
    unpack_voices(path, tmp_path / "voices")
    assert json.loads((tmp_path / "voices" / NOTE).read_text())["bytes"] == path.stat().st_size


def test_an_old_python_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tarfile, "data_filter")
    with pytest.raises(VoiceUnusable, match=r"3\.11\.4"):
        unpack_voices(archive(tmp_path / "voices.tgz", PUBLISHED), tmp_path / "voices")


@pytest.mark.timeout(20)
def test_a_pipe_is_no_archive(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "voices.tgz")
    with pytest.raises(VoiceUnusable, match="is no file"):
        unpacked(tmp_path / "voices.tgz", tmp_path / "cache")
