#!/usr/bin/env python3
"""Make a new TURN secret and hand it to coturn and rtc_server, both running: turn/rotate.py DATABASE SECRET_FILE

The secret goes into coturn's database first, then into the file that rtc_server reads (turn_secret_file). coturn takes
the new and the last one from now on, so credentials that are out stay good; older ones are dropped. Nothing restarts,
and calls go on: coturn asks for a secret only when an allocation is made.

Needs nothing but Python, and the right to write both files. The first run creates what is missing, with the owner of
the folder that it lies in. The secret is never printed and stands in no command line.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import sqlite3
import sys
import time
from collections.abc import Sequence
from pathlib import Path

# As coturn makes it; whoever comes first creates it.
TABLE = """CREATE TABLE IF NOT EXISTS turn_secret (
    realm varchar(127) default '', value varchar(256), primary key (realm,value)
)"""


class Wrong(Exception):
    """It cannot be done now, or not like this."""


def rotate(database: Path, secret_file: Path, realm: str, keep_last: bool) -> None:
    """Raises: OSError, sqlite3.Error; then the last secret is still in use."""
    last = read(secret_file)
    new = secrets.token_hex(32)
    with contextlib.closing(sqlite3.connect(database, timeout=10)) as connection, connection:
        connection.execute(TABLE)
        connection.execute("INSERT INTO turn_secret VALUES (?, ?)", (realm, new))
    keep_owner(database, mode=0o640)
    # From here on coturn knows both.
    write(secret_file, new)
    good = (new, last) if keep_last and last else (new, new)
    with contextlib.closing(sqlite3.connect(database, timeout=10)) as connection, connection:
        connection.execute("DELETE FROM turn_secret WHERE realm = ? AND value NOT IN (?, ?)", (realm, *good))


def read(secret_file: Path) -> str:
    try:
        return secret_file.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""


def write(secret_file: Path, secret: str) -> None:
    """All at once: a reader sees the last one or the new one. Owner and rights stay as they were."""
    draft = secret_file.with_name(secret_file.name + ".new")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as stream:
        stream.write(secret + "\n")
    model = secret_file.stat() if secret_file.exists() else None
    if model is not None:
        os.chown(draft, model.st_uid, model.st_gid)
        draft.chmod(model.st_mode & 0o777)
    else:
        keep_owner(draft, mode=0o640)
    draft.replace(secret_file)


def keep_owner(path: Path, mode: int) -> None:
    """What root creates in somebody's folder becomes that somebody's."""
    folder, found = path.parent.stat(), path.stat()
    if found.st_uid == os.geteuid():
        path.chmod(mode)
        if os.geteuid() == 0:
            os.chown(path, folder.st_uid, folder.st_gid)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="rotate.py", description="Make a new TURN secret, without a restart.")
    parser.add_argument("database", type=Path, help="coturn's userdb")
    parser.add_argument("secret_file", type=Path, help="what rtc_server reads: turn_secret_file")
    parser.add_argument("--realm", default=os.environ.get("TURN_REALM"), help="as in turnserver.conf (TURN_REALM)")
    parser.add_argument("--ttl-s", type=int, default=3600, help="turn_ttl_s of rtc_server; no second turn within it")
    parser.add_argument("--only-if-missing", action="store_true", help="do nothing when there is a secret")
    parser.add_argument("--leaked", action="store_true", help="drop the last secret now: its credentials end")
    given = parser.parse_args(arguments)
    try:
        return run(given)
    except (Wrong, OSError, sqlite3.Error, UnicodeDecodeError) as error:
        print(f"rotate.py: {error}", file=sys.stderr)
        return 1


def run(given: argparse.Namespace) -> int:
    if not given.realm:
        raise Wrong("which realm? Give --realm, or set TURN_REALM")
    present = given.secret_file.exists()
    if given.only_if_missing and present:
        print("There is a secret; nothing changed.")
        return 0
    age_s = time.time() - given.secret_file.stat().st_mtime if present else None
    if age_s is not None and age_s < given.ttl_s and not given.leaked:
        raise Wrong(
            f"the secret is {age_s:.0f} s old, and credentials of the one before live {given.ttl_s} s: come back"
        )
    rotate(given.database, given.secret_file, given.realm, keep_last=not given.leaked)
    more = " The last one stays good as well." if present and not given.leaked else ""
    print(f"coturn and rtc_server have a new secret.{more}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
