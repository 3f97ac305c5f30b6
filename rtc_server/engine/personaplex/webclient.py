"""``dist.tgz``, the web client that PersonaPlex publishes beside its model."""

from __future__ import annotations

from pathlib import Path

from rtc_server.engine.personaplex.huberrors import explained
from rtc_server.engine.personaplex.presence import DEFAULT_MODEL
from rtc_server.errors import CheckpointError, ConfigError, MissingLibrary

ARCHIVE = "dist.tgz"


def fetch_web_client(model: str | None, revision: str | None) -> Path:
    """The archive, from the model's folder or from its repository on the hub, through the hub's cache.

    Without a model, and for a folder that lacks it, it is the one of the repository that PersonaPlex is published in.

    Raises: ConfigError for whatever is in the way.
    """
    repository = model or DEFAULT_MODEL
    if model is not None and (folder := Path(model).expanduser()).is_dir():
        if (archive := folder / ARCHIVE).is_file():
            return archive
        repository, revision = DEFAULT_MODEL, None
    try:
        with explained(repository, revision, flag="--web-ui", packages="huggingface-hub"):
            return _download(repository, revision)
    except (CheckpointError, MissingLibrary) as error:
        raise ConfigError(error.message, hint=error.hint) from error


def _download(repository: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    with disable_progress_bars():
        archive = Path(snapshot_download(repository, revision=revision, allow_patterns=[ARCHIVE]), ARCHIVE)
    if not archive.is_file():
        raise ConfigError(
            f"{repository} has no {ARCHIVE}, so no web client", hint="give --web-ui a folder, or leave it out"
        )
    return archive
