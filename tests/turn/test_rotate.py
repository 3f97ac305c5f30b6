from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from tests.turn.coturn import REALM, rotate


class Secrets:
    """A database and a secret file, and what happens to them."""

    def __init__(self, folder: Path) -> None:
        self.database, self.file = folder / "turndb", folder / "secret"

    def rotate(self, *flags: str) -> int:
        status: int = rotate.main([str(self.database), str(self.file), "--realm", REALM, *flags])
        return status

    def grow_old(self) -> None:
        before_s = self.file.stat().st_mtime - 7200
        os.utime(self.file, (before_s, before_s))

    @property
    def current(self) -> str:
        return self.file.read_text().strip()

    @property
    def known(self) -> set[str]:
        """To coturn."""
        with contextlib.closing(sqlite3.connect(self.database)) as connection:
            return {value for (value,) in connection.execute("SELECT value FROM turn_secret WHERE realm = ?", (REALM,))}


@pytest.fixture
def secrets(tmp_path: Path) -> Secrets:
    return Secrets(tmp_path)


def test_the_first_secret_is_long_and_both_files_are_closed_to_others(secrets: Secrets) -> None:
    assert secrets.rotate() == 0
    assert len(secrets.current) == 64
    assert secrets.known == {secrets.current}
    for path in (secrets.database, secrets.file):
        assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_the_last_secret_stays_good_and_older_ones_do_not(secrets: Secrets) -> None:
    made = []
    for _ in range(3):
        assert secrets.rotate() == 0
        made.append(secrets.current)
        secrets.grow_old()
    assert len(set(made)) == 3
    assert secrets.known == set(made[1:])


def test_twice_within_the_life_of_a_credential_is_refused(secrets: Secrets) -> None:
    secrets.rotate()
    first = secrets.current
    assert secrets.rotate() == 1
    assert secrets.current == first
    assert secrets.rotate("--ttl-s", "0") == 0


def test_a_leaked_secret_is_dropped_at_once(secrets: Secrets) -> None:
    secrets.rotate()
    first = secrets.current
    assert secrets.rotate("--leaked") == 0
    assert secrets.current != first
    assert secrets.known == {secrets.current}


def test_only_if_missing_changes_nothing_later(secrets: Secrets) -> None:
    for _ in range(2):
        assert secrets.rotate("--only-if-missing") == 0
    assert secrets.known == {secrets.current}


def test_owner_and_rights_of_the_secret_stay_as_they_were(secrets: Secrets) -> None:
    secrets.rotate()
    secrets.file.chmod(0o400)
    secrets.grow_old()
    assert secrets.rotate() == 0
    assert stat.S_IMODE(secrets.file.stat().st_mode) == 0o400
    assert not secrets.file.with_name("secret.new").exists()


def test_secrets_of_other_realms_are_left_alone(secrets: Secrets) -> None:
    secrets.rotate()
    with contextlib.closing(sqlite3.connect(secrets.database)) as connection, connection:
        connection.execute("INSERT INTO turn_secret VALUES ('other.example', 'theirs')")
    secrets.rotate("--leaked")
    with contextlib.closing(sqlite3.connect(secrets.database)) as connection:
        assert connection.execute("SELECT value FROM turn_secret WHERE realm = 'other.example'").fetchall()


def test_a_database_that_cannot_be_written_leaves_the_secret_as_it_was(
    secrets: Secrets, capsys: pytest.CaptureFixture[str]
) -> None:
    secrets.rotate()
    first = secrets.current
    secrets.grow_old()
    secrets.database.write_bytes(b"no database" * 100)
    assert secrets.rotate() == 1
    assert secrets.current == first
    assert "rotate.py:" in capsys.readouterr().err


def test_no_realm_is_asked_for(
    secrets: Secrets, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TURN_REALM", raising=False)
    assert rotate.main([str(secrets.database), str(secrets.file)]) == 1
    assert "realm" in capsys.readouterr().err


def test_no_secret_is_ever_printed(secrets: Secrets, capsys: pytest.CaptureFixture[str]) -> None:
    secrets.rotate()
    secrets.rotate("--leaked")
    said = capsys.readouterr()
    assert not [secret for secret in secrets.known if secret in said.out + said.err]
