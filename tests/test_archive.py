"""Archives from outside: what of them is read, and which are condemned as a whole."""

from __future__ import annotations

import gzip
import io
import os
import random
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from rtc_server.archive import Limits, files_in
from rtc_server.errors import ConfigError

FILES = {"dist/index.html": b"<p>", "dist/app.js": b"start()", "readme.md": b"words"}


def pack(path: Path, files: Mapping[str, bytes], *others: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, body in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
        for other in others:
            tar.addfile(other)
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def read(archive: Path, limits: Limits | None = None, suffix: str = "") -> dict[str, bytes]:
    found = files_in(archive, lambda path: path.name.endswith(suffix), limits or Limits())
    return {str(path): content for path, content in found}


def test_the_files_that_are_wanted_are_read_and_nothing_is_written(tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.tgz", FILES, member("dist/empty", tarfile.DIRTYPE))
    assert read(archive) == FILES
    assert read(archive, suffix=".js") == {"dist/app.js": b"start()"}
    assert os.listdir(tmp_path) == ["a.tgz"]


@pytest.mark.parametrize(
    ("hostile", "message"),
    [
        (member("/etc/passwd"), "outside its own folder"),
        (member("dist/../../x"), "outside its own folder"),
        (member("dist/link", tarfile.SYMTYPE, "/etc/passwd"), "neither a plain file nor a folder"),
        (member("dist/link", tarfile.SYMTYPE, "index.html"), "neither a plain file nor a folder"),
        (member("dist/link", tarfile.LNKTYPE, "../../x"), "neither a plain file nor a folder"),
        (member("dist/null", tarfile.CHRTYPE), "neither a plain file nor a folder"),
        (member("dist/disk", tarfile.BLKTYPE), "neither a plain file nor a folder"),
        (member("dist/pipe", tarfile.FIFOTYPE), "neither a plain file nor a folder"),
        (member("dist/holes", tarfile.GNUTYPE_SPARSE), "neither a plain file nor a folder"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".js"], ids=["wanted", "not wanted"])
def test_a_hostile_member_condemns_the_archive(
    hostile: tarfile.TarInfo, message: str, suffix: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        read(pack(tmp_path / "a.tgz", FILES, hostile), suffix=suffix)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(members=10), "more than 10 members"),
        (Limits(file_bytes=1 << 20), "'zeros' of 8388608 bytes, over 1048576"),
        (Limits(total_bytes=1 << 20), "unpacks to more than 1048576 bytes"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".js"], ids=["wanted", "not wanted"])
def test_an_archive_over_a_limit_is_refused(limits: Limits, message: str, suffix: str, tmp_path: Path) -> None:
    bomb = pack(tmp_path / "a.tgz", {"zeros": bytes(8 << 20), **{f"{number}.js": b"" for number in range(20)}})
    assert bomb.stat().st_size < 100_000
    with pytest.raises(ConfigError, match=message):
        read(bomb, limits, suffix)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGLINK])
def test_a_header_that_grows_is_refused(kind: bytes, tmp_path: Path) -> None:
    """The library takes such headers into memory whole."""
    info = member("x", kind)
    info.size = (1 << 33) - 1
    (tmp_path / "a.tgz").write_bytes(gzip.compress(info.tobuf() + bytes(2_000_000)))
    with pytest.raises(ConfigError, match="more than 1000000 bytes"):
        read(tmp_path / "a.tgz", Limits(total_bytes=1_000_000))


@pytest.mark.parametrize("cut_bytes", [0, 5, 60])
def test_half_an_archive_is_refused(cut_bytes: int, tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.tgz", {"noise": random.Random(1).randbytes(500)})
    archive.write_bytes(archive.read_bytes()[:cut_bytes])
    with pytest.raises(ConfigError, match=r"a\.tgz is no whole"):
        read(archive)


@pytest.mark.parametrize(
    "content", [b"<!doctype html>", gzip.compress(b"no tar" * 200, mtime=0), b"\x1f\x8b" + bytes(99)]
)
def test_what_is_no_archive_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.tgz").write_bytes(content)
    with pytest.raises(ConfigError, match=r"no whole \.tgz archive"):
        read(tmp_path / "a.tgz")


def test_none_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.tgz cannot be read: No such file"):
        read(tmp_path / "missing.tgz")


def test_an_old_python_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tarfile, "data_filter")
    with pytest.raises(ConfigError, match=r"3\.11\.4"):
        read(pack(tmp_path / "a.tgz", FILES))
