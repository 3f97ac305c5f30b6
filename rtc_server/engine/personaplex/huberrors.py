"""What went wrong between this machine and the model hub, in one sentence, and what to do about it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from rtc_server.errors import CheckpointError, MissingLibrary, RtcServerError

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

Failure = TypeVar("Failure", bound=BaseException)

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}
_MOVE_CACHE = "or set HF_HOME to a folder on another disk"


@contextmanager
def explained(
    repository: str, revision: str | None, *, flag: str = "--model", packages: str = "'.[personaplex]'"
) -> Iterator[None]:
    """Around what asks the hub.

    Args:
        flag: takes a folder in place of the repository.
        packages: what to install if the hub's library is not there.

    Raises: CheckpointError for whatever the hub's library raises; MissingLibrary when that is not installed.
    """
    try:
        yield
    except RtcServerError:
        raise
    except ImportError as error:
        raise MissingLibrary(
            f"{repository} is on the hub, but {error.name} is not installed",
            hint=f"pip install {packages}, or give {flag} a folder",
        ) from error
    except Exception as error:  # of many kinds, also those of the HTTP library below
        message, hint = _explain(error, repository, revision, flag)
        raise CheckpointError(message, hint=hint) from error


def gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB"


def _explain(error: Exception, repository: str, revision: str | None, flag: str) -> tuple[str, str]:
    from huggingface_hub import errors

    match error:
        case errors.GatedRepoError():
            return _gated(repository)
        case errors.RevisionNotFoundError():
            return (
                f"{repository} has no revision {revision!r}",
                "see the branches and tags on the model's page on the hub",
            )
        case errors.RepositoryNotFoundError():
            return _not_found(error, repository)
        case errors.LocalEntryNotFoundError() | errors.IncompleteSnapshotError() | errors.OfflineModeIsEnabled():
            return _not_in_cache(error, repository, flag)
        case errors.HfHubHTTPError():
            return _refused(error.response.status_code, repository)
        case errors.HFValidationError():
            return f"{repository} is not the name of a repository", "give owner/name as on the hub"
        case OSError() if error.errno in _NO_SPACE:
            return (
                f"no space for {repository} in {error.filename or 'the cache'}: {error.strerror}",
                f"make room (unfinished downloads there end in .incomplete), {_MOVE_CACHE}",
            )
        case OSError() if error.errno in _NOT_ALLOWED:
            return (
                f"the hub's cache cannot be written: {error.filename}: {error.strerror}",
                f"correct its owner or permissions, {_MOVE_CACHE}",
            )
        case _:
            return (
                f"fetching {repository} failed: {_first_line(error)}",
                "check the network and start again; files that are complete are not fetched twice",
            )


def _gated(repository: str) -> tuple[str, str]:
    accept = "accept its licence on the model's page on the hub"
    if _logged_in():
        return (
            f"{repository} is gated, and the account of your token has no access",
            f"{accept} with that account; a fine-grained token also needs the right to read gated repositories",
        )
    return f"{repository} is gated, and you are not logged in", f"{accept}, then run: hf auth login, or set HF_TOKEN"


def _not_found(error: HfHubHTTPError, repository: str) -> tuple[str, str]:
    if error.response.status_code == 401 and _logged_in():
        return _refused(401, repository)
    login = "" if _logged_in() else "; one that is private needs: hf auth login, or HF_TOKEN"
    return f"there is no repository {repository} on the hub, or it is not yours to read", f"check the name{login}"


def _not_in_cache(error: Exception, repository: str, flag: str) -> tuple[str, str]:
    from huggingface_hub import errors
    from huggingface_hub.constants import HF_HUB_CACHE

    lacking = f"{repository} is not completely in the cache {HF_HUB_CACHE}"
    if _came_from(error, errors.OfflineModeIsEnabled):
        return (
            f"{lacking}, and offline mode is on",
            f"unset HF_HUB_OFFLINE once to fetch it, or give {flag} a folder",
        )
    if (refused := _came_from(error, errors.HfHubHTTPError)) is not None:
        return _refused(refused.response.status_code, repository)
    return (
        f"the hub cannot be reached, and {lacking}",
        f"check network, proxy and HF_ENDPOINT, or give {flag} a folder",
    )


def _refused(status: int, repository: str) -> tuple[str, str]:
    if status == 401:
        return f"the hub does not accept your token for {repository}", "run: hf auth login, or set HF_TOKEN anew"
    if status == 403:
        return f"the hub does not let you read {repository}", "see the model's page on the hub for who may"
    if status == 429:
        return f"the hub has had too many requests from here for {repository}", "wait a few minutes and start again"
    return f"the hub answers with status {status} for {repository}", "start again later"


def _came_from(error: BaseException | None, kind: type[Failure]) -> Failure | None:
    while error is not None:
        if isinstance(error, kind):
            return error
        error = error.__cause__ or error.__context__
    return None


def _logged_in() -> bool:
    from huggingface_hub import get_token

    return get_token() is not None


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__
