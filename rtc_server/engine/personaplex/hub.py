"""Files of a repository on the model hub, through its cache. What goes wrong is told in one sentence, with a remedy.

A connection that breaks is taken up again where it broke. Nothing is asked of the network at import, nor in offline
mode (HF_HUB_OFFLINE=1); without the network, what is in the cache is used if it is whole.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rtc_server.engine.personaplex.huberrors import explained, gigabytes
from rtc_server.engine.personaplex.progress import Meter, SilentMeter
from rtc_server.engine.personaplex.settings import CONFIG_NAME, read_config
from rtc_server.errors import CheckpointError
from rtc_server.log import get_logger

log = get_logger(__name__)

POLL_S = 0.5
"""How often the progress of a download is measured."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
CHUNK_BYTES = 1 << 20


def fetch(
    repository: str,
    revision: str | None,
    patterns_for: Callable[[Mapping[str, Any]], list[str]],
    meter: Meter | None = None,
) -> Path:
    """The folder with the files of a repository, whose name is the commit.

    Args:
        repository: ``owner/name``.
        revision: branch, tag or commit; None: the repository's own main branch.
        patterns_for: from the settings in config.json to the file names to fetch.

    Raises: CheckpointError.
    """
    with explained(repository, revision):
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils.tqdm import disable_progress_bars

        with disable_progress_bars():
            snapshot = Path(snapshot_download(repository, revision=revision, allow_patterns=[CONFIG_NAME]))
            patterns = patterns_for(read_config(snapshot))
            wanted = _to_download(repository, snapshot, patterns)
            if not wanted:
                return Path(snapshot_download(repository, revision=snapshot.name, allow_patterns=patterns))
            return _download(repository, snapshot, patterns, wanted, meter or SilentMeter())


def cached(
    repository: str, revision: str | None, patterns_for: Callable[[Mapping[str, Any]], list[str]]
) -> Path | None:
    """As `fetch`, from the cache alone; None where that lacks the revision, or is known to lack a file of it.

    Raises: CheckpointError.
    """
    with explained(repository, revision):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError

        try:
            snapshot = Path(
                snapshot_download(repository, revision=revision, allow_patterns=[CONFIG_NAME], local_files_only=True)
            )
            patterns = patterns_for(read_config(snapshot))
            snapshot_download(repository, revision=snapshot.name, allow_patterns=patterns, local_files_only=True)
        except LocalEntryNotFoundError:
            return None
    return snapshot


def _to_download(repository: str, snapshot: Path, patterns: list[str]) -> dict[str, int]:
    """Names and sizes of the files that the cache does not have; none when nobody can be asked."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import DryRunError

    try:
        files = snapshot_download(repository, revision=snapshot.name, allow_patterns=patterns, dry_run=True)
    except DryRunError:
        return {}
    return {
        file.filename: file.file_size or 0
        for file in sorted(files, key=lambda file: file.filename)
        if file.will_download
    }


def _download(repository: str, snapshot: Path, patterns: list[str], wanted: Mapping[str, int], meter: Meter) -> Path:
    from huggingface_hub import snapshot_download

    blobs = snapshot.parent.parent / "blobs"
    total_bytes = sum(wanted.values())
    _check_space(blobs, total_bytes)
    log.info("fetching a checkpoint", repository=repository, commit=snapshot.name, bytes=total_bytes)
    with _measured(blobs, f"fetching {repository}", total_bytes, meter):
        snapshot_download(repository, revision=snapshot.name, allow_patterns=patterns)
    _verify([snapshot / name for name in wanted], meter)
    return snapshot


def _check_space(folder: Path, needed_bytes: int) -> None:
    """Raises: OSError (ENOSPC) before a long download that cannot end well."""
    while not folder.exists():
        folder = folder.parent
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise OSError(
            errno.ENOSPC, f"{gigabytes(needed_bytes)} are to come, {gigabytes(free_bytes)} are free", str(folder)
        )


@contextmanager
def _measured(blobs: Path, task: str, total_bytes: int, meter: Meter) -> Iterator[None]:
    """Watches the cache grow: independent of the way in which the bytes arrive."""
    if isinstance(meter, SilentMeter):
        yield
        return
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(blobs, meter, done), name="download-progress", daemon=True)
    meter.start(task, total_bytes)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        meter.stop()


def _watch(blobs: Path, meter: Meter, done: threading.Event) -> None:
    seen_bytes = _size_of(blobs)
    ended = False
    while not ended:
        ended = done.wait(POLL_S)
        now_bytes = _size_of(blobs)
        meter.advance(now_bytes - seen_bytes)
        seen_bytes = now_bytes


def _size_of(blobs: Path) -> int:
    """Files may vanish meanwhile: each is renamed when it is complete."""
    total_bytes = 0
    for path in blobs.glob("*"):
        try:
            total_bytes += path.stat().st_size
        except FileNotFoundError:
            continue
    return total_bytes


def _verify(files: Sequence[Path], meter: Meter) -> None:
    """What has just come is what the hub has: the cache holds links to large files, named by their SHA-256.

    Raises: CheckpointError for a file that is not; it is deleted, so that it is fetched again.
    """
    damaged = []
    for file in files:
        name = os.path.basename(os.readlink(file)) if file.is_symlink() else ""
        if not _SHA256.fullmatch(name):
            continue
        meter.start(f"checking {file.name}", file.stat().st_size)
        digest = _sha256(file, meter)
        meter.stop()
        if digest != name:
            (file.parent / os.readlink(file)).unlink()
            file.unlink()
            damaged.append(file.name)
    if damaged:
        raise CheckpointError(f"{', '.join(damaged)} arrived damaged, so deleted", hint="start again to fetch it anew")


def _sha256(path: Path, meter: Meter) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            meter.advance(len(chunk))
    return digest.hexdigest()
