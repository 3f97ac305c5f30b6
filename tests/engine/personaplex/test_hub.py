"""Against a hub on the loopback, through the real client library."""

from __future__ import annotations

import errno
import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rtc_server.engine.personaplex.config import LmConfig
from rtc_server.engine.personaplex.huberrors import explained
from rtc_server.engine.personaplex.names import lm_shapes
from rtc_server.errors import CheckpointError, MissingLibrary
from tests.engine.personaplex.fakehub import COMMIT, GOOD_TOKEN, Repository, fake_hub
from tests.engine.personaplex.hubdesk import NOWHERE, Desk
from tests.engine.personaplex.peakload import write_holes
from tests.engine.personaplex.tiny import tiny_checkpoint


def whole(folder: Path, **behaviour: Any) -> Repository:
    """A tiny model as it would be published."""
    files = {path.name: path.read_bytes() for path in tiny_checkpoint(folder).iterdir() if path.is_file()}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        tar.add(folder / "voices", "voices")
    return Repository({**files, "voices.tgz": archive.getvalue(), "README.md": b"#", "dist.tgz": b"?"}, **behaviour)


def settings_of(config: LmConfig) -> dict[str, Any]:
    """As the reference names them."""
    return {
        "dim": config.dim,
        "num_layers": config.layers,
        "num_heads": config.heads,
        "hidden_scale": 4.125,
        "context": config.context,
        "card": config.card,
        "text_card": config.text_card,
        "dep_q": config.depformer_steps,
        "depformer_dim": config.depformer_dim,
        "depformer_num_layers": config.depformer_layers,
        "depformer_num_heads": config.depformer_heads,
        "depformer_dim_feedforward": int(4.125 * config.depformer_dim),
    }


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("hub")
    good = whole(folder / "model")
    large = LmConfig(dim=96, layers=1, heads=2, gating=264, depformer_dim=64, depformer_layers=1, depformer_heads=2,
                     depformer_gating=176)  # fmt: skip
    write_holes(folder / "large.safetensors", lm_shapes(large))
    repositories = {
        "lab/good": good,
        "lab/gated": Repository(good.files, gated=True),
        "lab/cut": Repository(
            {
                **good.files,
                "model.safetensors": (folder / "large.safetensors").read_bytes(),
                "config.json": json.dumps({**json.loads(good.files["config.json"]), **settings_of(large)}).encode(),
            },
            cut_after_bytes=12_000_000,
        ),
        "lab/damaged": Repository(good.files, damaged=True),
        "lab/huge": Repository(good.files, claimed_bytes=10**16),
        "lab/down": Repository({}, status=503),
        "lab/busy": Repository({}, status=429),
        "lab/voiceless": Repository({"README.md": b"#"}),
        "lab/renamed": Repository(
            {
                **{name: data for name, data in good.files.items() if not name.startswith("model")},
                "lm.safetensors": good.files["model.safetensors"],
                "config.json": json.dumps(
                    {**json.loads(good.files["config.json"]), "moshi_name": "lm.safetensors"}
                ).encode(),
            }
        ),
        "lab/outside": Repository({"config.json": b'{"moshi_name": "../../secret"}'}),
    }
    with fake_hub(repositories) as endpoint:
        yield Desk(folder / "home", endpoint, repositories)


def test_a_repository_is_fetched_once_and_only_what_is_needed(desk: Desk) -> None:
    first, second = desk.ask("lab/good", f"lab/good@{COMMIT}")
    assert first["name"] == "lab/good" and first["revision"] == COMMIT
    assert first["files"] == [
        "model.safetensors",
        "tokenizer-tiny.safetensors",
        "tokenizer_spm_tiny.model",
        "voices.tgz",
    ]
    assert second["files"] == first["files"]
    gets = [
        request for request in desk.repositories["lab/good"].requests if request.startswith("GET /lab/good/resolve")
    ]
    assert len(gets) == len(set(gets)) == 5
    assert not [request for request in gets if "README" in request or "dist.tgz" in request]
    done_bytes, total_bytes = first["tasks"]["fetching lab/good"]
    large = ("model.safetensors", "tokenizer-tiny.safetensors", "tokenizer_spm_tiny.model", "voices.tgz")
    assert total_bytes == sum(len(desk.repositories["lab/good"].files[name]) for name in large) == done_bytes
    assert second["tasks"] == {}


def test_files_may_have_other_names(desk: Desk) -> None:
    renamed, outside = desk.ask("lab/renamed", "lab/outside")
    assert renamed["files"][0] == "lm.safetensors"
    assert "moshi_name '../../secret' is not the bare name of a file" in outside["message"]


def test_who_is_not_logged_in_is_told_what_to_do(desk: Desk) -> None:
    gated, absent, revision, empty, name = desk.ask(
        "lab/gated", "lab/absent", "lab/good@v9", "lab/voiceless", "lab/ab--cd"
    )
    assert gated == {
        "error": "CheckpointError",
        "message": "lab/gated is gated, and you are not logged in",
        "hint": "accept its licence on the model's page on the hub, then run: hf auth login, or set HF_TOKEN",
    }
    assert "there is no repository lab/absent" in absent["message"] and "HF_TOKEN" in absent["hint"]
    assert revision["message"] == "lab/good has no revision 'v9'"
    assert "lacks model.safetensors" in empty["message"]
    assert name["message"] == "lab/ab--cd is not the name of a repository"


def test_a_token_that_helps_and_two_that_do_not(desk: Desk) -> None:
    (good,) = desk.ask("lab/gated", HF_TOKEN=GOOD_TOKEN)
    assert good["name"] == "lab/gated"
    shutil.rmtree(desk.home / "hub" / "models--lab--gated")
    other, absent = desk.ask("lab/gated", "lab/absent", HF_TOKEN="hf_other")
    assert other["message"] == "lab/gated is gated, and the account of your token has no access"
    assert "accept its licence" in other["hint"]
    assert absent["hint"] == "check the name"
    (expired,) = desk.ask("lab/gated", HF_TOKEN="hf_expired")
    assert expired["message"] == "the hub does not accept your token for lab/gated"


def test_a_connection_that_breaks_is_taken_up_where_it_broke(desk: Desk) -> None:
    (cut,) = desk.ask("lab/cut")
    assert cut["name"] == "lab/cut"
    resumed = [request.split(" ")[-1] for request in desk.repositories["lab/cut"].requests if "bytes=" in request]
    assert resumed == ["bytes=10485760-"], "what had arrived in whole chunks of 10 MiB is not fetched again"


def test_files_that_arrive_damaged_are_not_kept(desk: Desk) -> None:
    first, second = desk.ask("lab/damaged", "lab/damaged")
    for answer in (first, second):
        assert answer["message"] == "model.safetensors, tokenizer-tiny.safetensors arrived damaged, so deleted"
        assert "start again" in answer["hint"]


def test_a_disk_that_is_too_small_is_noticed_before_the_download(desk: Desk) -> None:
    (huge,) = desk.ask("lab/huge")
    assert "no space for lab/huge" in huge["message"] and "GB are to come" in huge["message"]
    assert "HF_HOME" in huge["hint"]
    assert not [
        request
        for request in desk.repositories["lab/huge"].requests
        if "GET /lab/huge/resolve/" in request and "model" in request
    ]


def test_a_hub_that_is_down_or_busy_is_named(desk: Desk) -> None:
    down, busy = desk.ask("lab/down", "lab/busy")
    assert "status 503" in down["message"]
    assert "too many requests" in busy["message"]


def test_without_the_network_what_is_in_the_cache_is_used(desk: Desk) -> None:
    desk.ask("lab/good")
    cached, absent = desk.ask("lab/good", "lab/other", HF_ENDPOINT=NOWHERE)
    assert cached["name"] == "lab/good"
    assert "the hub cannot be reached, and lab/other is not completely in the cache" in absent["message"]
    cached, absent = desk.ask("lab/good", "lab/other", HF_HUB_OFFLINE="1")
    assert cached["name"] == "lab/good"
    assert "offline mode is on" in absent["message"] and "HF_HUB_OFFLINE" in absent["hint"]


def test_half_a_snapshot_without_the_network_is_an_error(desk: Desk) -> None:
    (fetched,) = desk.ask("lab/cut")
    (Path(fetched["folder"]) / "model.safetensors").resolve().unlink()
    (partly,) = desk.ask("lab/cut", HF_HUB_OFFLINE="1")
    assert "lab/cut is not completely in the cache" in partly["message"]
    (again,) = desk.ask("lab/cut")
    assert again["name"] == "lab/cut"


def test_whether_a_repository_is_here_is_known_without_asking_and_without_fetching(desk: Desk) -> None:
    asked = desk.repositories["lab/renamed"].requests
    shutil.rmtree(desk.home / "hub" / "models--lab--renamed", ignore_errors=True)
    before = len(asked)
    assert desk.ask("?lab/renamed") == [{"name": None}]
    assert len(asked) == before
    (fetched,) = desk.ask("lab/renamed")
    before = len(asked)
    here, by_commit, other = desk.ask("?lab/renamed", f"?lab/renamed@{COMMIT}", "?lab/renamed@v9")
    assert here["files"] == by_commit["files"] == fetched["files"]
    assert other == {"name": None}
    (Path(fetched["folder"]) / "lm.safetensors").unlink()
    assert desk.ask("?lab/renamed") == [{"name": None}]
    assert len(asked) == before


def test_a_cache_that_cannot_be_written_is_one_clear_error(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    (refused,) = desk.ask("lab/good", HF_HOME=str(tmp_path / "file" / "home"))
    assert "the hub's cache cannot be written" in refused["message"]
    assert "HF_HOME" in refused["hint"]


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "cache/x"), "no space for lab/x in cache/x", "make room"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "no space for lab/x", "HF_HOME"),
        (PermissionError(errno.EACCES, "Permission denied", "cache"), "cannot be written: cache", "permissions"),
        (OSError(errno.EROFS, "Read-only file system", "cache"), "cannot be written", "HF_HOME"),
        (ConnectionResetError("reset\nby peer"), "fetching lab/x failed: reset", "check the network"),
        (RuntimeError(), "fetching lab/x failed: RuntimeError", "check the network"),
    ],
)
def test_what_the_machine_refuses_is_told_in_a_sentence(error: Exception, message: str, hint: str) -> None:
    with pytest.raises(CheckpointError) as caught, explained("lab/x", None):
        raise error
    assert message in caught.value.message and "\n" not in caught.value.message
    assert hint in caught.value.hint


def test_without_the_hubs_library_it_says_what_to_install() -> None:
    with pytest.raises(MissingLibrary, match="huggingface_hub is not installed") as caught, explained("lab/x", None):
        raise ModuleNotFoundError("No module", name="huggingface_hub")
    assert ".[personaplex]" in caught.value.hint
