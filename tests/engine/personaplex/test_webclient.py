"""The official web client, from a hub on the loopback and through the real client library."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rtc_server.engine.personaplex.presence import DEFAULT_MODEL
from rtc_server.engine.personaplex.webclient import fetch_web_client
from rtc_server.errors import ConfigError
from tests.engine.personaplex.fakehub import COMMIT, GOOD_TOKEN, Repository, fake_hub
from tests.engine.personaplex.hubdesk import NOWHERE, Desk

FILES = {"dist.tgz": b"the client", "model.safetensors": b"gigabytes"}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("hub")
    repositories = {
        DEFAULT_MODEL: Repository(FILES, gated=True),
        "lab/model": Repository(FILES),
        "lab/bare": Repository({"model.safetensors": b"gigabytes"}),
        "lab/down": Repository({}, status=503),
    }
    with fake_hub(repositories) as endpoint:
        yield Desk(folder / "home", endpoint, repositories)


def test_only_the_archive_is_fetched_and_only_once(desk: Desk) -> None:
    first, second = desk.ask("+lab/model", f"+lab/model@{COMMIT}")
    assert Path(first["archive"]).read_bytes() == b"the client"
    assert second == first
    fetched = [line for line in desk.repositories["lab/model"].requests if line.startswith("GET /lab/model/resolve")]
    assert [line.rpartition("/")[2] for line in fetched] == ["dist.tgz"]


def test_without_a_model_it_is_the_published_one_which_needs_a_token(desk: Desk) -> None:
    (gated,) = desk.ask("+")
    assert gated["error"] == "ConfigError"
    assert gated["message"] == f"{DEFAULT_MODEL} is gated, and you are not logged in"
    assert "HF_TOKEN" in gated["hint"]
    (good,) = desk.ask("+", HF_TOKEN=GOOD_TOKEN)
    assert Path(good["archive"]).name == "dist.tgz"


def test_what_the_hub_refuses_is_told_in_a_sentence(desk: Desk) -> None:
    bare, absent, down, revision, name = desk.ask(
        "+lab/bare", "+lab/absent", "+lab/down", "+lab/model@v9", "+no such name"
    )
    assert bare["message"] == "lab/bare has no dist.tgz, so no web client"
    assert "--web-ui a folder" in bare["hint"]
    assert "there is no repository lab/absent" in absent["message"]
    assert "lab/down" in down["message"]
    assert revision["message"] == "lab/model has no revision 'v9'"
    assert name["message"] == "no such name is not the name of a repository"
    assert {answer["error"] for answer in (bare, absent, down, revision, name)} == {"ConfigError"}


def test_without_the_network_what_is_in_the_cache_is_used(desk: Desk) -> None:
    desk.ask("+lab/model")
    for environment in ({"HF_ENDPOINT": NOWHERE}, {"HF_HUB_OFFLINE": "1"}):
        cached, absent = desk.ask("+lab/model", "+lab/other", **environment)
        assert Path(cached["archive"]).read_bytes() == b"the client"
        assert "lab/other is not completely in the cache" in absent["message"]
        assert "--web-ui a folder" in absent["hint"]


def test_a_model_in_the_cache_without_its_client_does_not_stand_for_it(desk: Desk) -> None:
    snapshot = desk.home / "hub" / "models--lab--model" / "snapshots" / COMMIT
    desk.ask("+lab/model")
    (snapshot / "dist.tgz").rename(snapshot / "model.safetensors")
    (offline,) = desk.ask("+lab/model", HF_HUB_OFFLINE="1")
    assert "offline mode is on" in offline["message"]


def test_the_model_s_own_folder_comes_first(tmp_path: Path) -> None:
    (tmp_path / "dist.tgz").write_bytes(b"?")
    assert fetch_web_client(str(tmp_path), None) == tmp_path / "dist.tgz"


def test_without_the_hub_s_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match="not installed") as caught:
        fetch_web_client(None, None)
    assert caught.value.hint == "pip install huggingface-hub, or give --web-ui a folder"
