from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from rtc_server.config import TurnSettings
from rtc_server.errors import ConfigError
from rtc_server.http.iceservers import ice_servers
from rtc_server.transports.webrtc.turn import IceServers, make_credential
from tests.http.conftest import MakeSite
from tests.logs import captured_logs

SECRET = "a-secret-for-tests"
OTHER = "another-secret-for-tests"
OFFER = {"sdp": "v=0", "type": "offer"}


def turn(**settings: object) -> TurnSettings:
    return TurnSettings(turn_urls=("turn:t.example",), **settings)  # type: ignore[arg-type]


def secret_of(servers: IceServers) -> str:
    """Which of ours the credentials are made from."""
    issued = servers.issue()[0].credential
    assert issued is not None
    user = issued.username.partition(":")[2]
    return next(s for s in (SECRET, OTHER) if issued == make_credential(s, user, issued.expires_at_s))


def test_the_secret_comes_from_the_setting_or_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{OTHER}\n")
    assert secret_of(ice_servers(turn(turn_secret=SecretStr(SECRET)))) == SECRET
    assert secret_of(ice_servers(turn(turn_secret_file=tmp_path / "secret"))) == OTHER
    with pytest.raises(ConfigError, match="both set"):
        ice_servers(turn(turn_secret=SecretStr(SECRET), turn_secret_file=tmp_path / "secret"))


@pytest.mark.parametrize("content", [None, "", "short", "\xff" * 20])
def test_a_file_without_a_secret_is_named_and_not_shown(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_text(content, encoding="latin-1")
    with pytest.raises(ConfigError, match=str(path)) as refusal:
        ice_servers(turn(turn_secret_file=path))
    assert "short" not in str(refusal.value).replace("shorter", "")


def test_a_replaced_file_counts_from_the_next_caller_on(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(SECRET)
    servers = ice_servers(turn(turn_secret_file=path))
    assert secret_of(servers) == SECRET
    (tmp_path / "new").write_text(OTHER)
    os.replace(tmp_path / "new", path)
    with captured_logs() as logs:
        assert secret_of(servers) == OTHER
    assert OTHER not in str(logs)


def test_a_file_that_breaks_is_warned_about_once_and_the_last_secret_stays(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(SECRET)
    servers = ice_servers(turn(turn_secret_file=path))
    with captured_logs() as logs:
        path.unlink()
        assert secret_of(servers) == secret_of(servers) == SECRET
        path.write_text("short")
        assert secret_of(servers) == secret_of(servers) == SECRET
        path.write_text(OTHER)
        assert secret_of(servers) == OTHER
    assert [line["log_level"] for line in logs] == ["warning", "warning", "info"]
    assert "short" not in str(logs).replace("shorter", "")


async def test_config_and_each_new_session_tell_the_ice_servers(make_site: MakeSite) -> None:
    servers = IceServers(["stun:s.example", "turn:t.example"], lambda: SECRET)
    site = await make_site(ice_servers=servers, allow_origin=("https://app.example",))
    told = (await (await site.client.get("/v1/config")).json())["ice_servers"]
    response = await site.client.post("/v1/sessions", json=OFFER, headers={"Origin": "https://app.example"})
    body = await response.json()
    for entries in (told, body["ice_servers"]):
        assert [entry["urls"] for entry in entries] == [["stun:s.example:3478"], ["turn:t.example:3478?transport=udp"]]
        assert set(entries[0]) == {"urls"}
        assert set(entries[1]) == {"urls", "username", "credential"}
    assert told[1]["username"] != body["ice_servers"][1]["username"]
    assert "Link" in response.headers["Access-Control-Expose-Headers"]


@pytest.mark.parametrize("kind", ["application/json", "application/sdp"])
async def test_links_to_the_ice_servers_come_with_either_kind_of_answer(make_site: MakeSite, kind: str) -> None:
    site = await make_site(ice_servers=IceServers(["stun:s.example", "turn:t.example"], lambda: SECRET))
    data = b'{"sdp": "v=0"}' if kind == "application/json" else b"v=0"
    response = await site.client.post("/v1/sessions", data=data, headers={"Content-Type": kind})
    links = response.headers["Link"].split(", ")
    assert response.status == 201
    assert links[0] == '<stun:s.example:3478>; rel="ice-server"'
    assert links[1].startswith('<turn:t.example:3478?transport=udp>; rel="ice-server"; username="')
    assert 'credential-type="password"' in links[1]


async def test_without_any_there_is_an_empty_list_and_no_header(make_site: MakeSite) -> None:
    site = await make_site()
    assert (await (await site.client.get("/v1/config")).json())["ice_servers"] == []
    response = await site.client.post("/v1/sessions", json=OFFER)
    assert (await response.json())["ice_servers"] == []
    assert "Link" not in response.headers


async def test_a_stranger_without_the_key_gets_no_credential(make_site: MakeSite) -> None:
    site = await make_site(api_key="0123456789abcdef", ice_servers=IceServers(["turn:t.example"], lambda: SECRET))
    for response in (await site.client.get("/v1/config"), await site.client.post("/v1/sessions", json=OFFER)):
        assert response.status == 401
        assert "turn" not in await response.text()
        assert "Link" not in response.headers
