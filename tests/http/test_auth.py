from __future__ import annotations

import pytest

from tests.http.conftest import KEY, MakeSite

OFFER = {"sdp": "v=0", "type": "offer"}


async def test_key_opens_the_api_as_bearer_or_token(make_site: MakeSite) -> None:
    site = await make_site(api_key=KEY)
    assert (await site.client.get("/v1/config", headers={"Authorization": f"Bearer {KEY}"})).status == 200
    assert (await site.client.get(f"/v1/config?token={KEY}")).status == 200


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer wrong"}, {"Authorization": KEY}, {"Authorization": "Basic eDp5"}],
)
async def test_missing_or_wrong_key_is_a_401_and_takes_no_slot(make_site: MakeSite, headers: dict[str, str]) -> None:
    site = await make_site(api_key=KEY)
    response = await site.client.post("/v1/sessions", json=OFFER, headers=headers)
    assert response.status == 401
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert KEY not in await response.text()
    assert site.house.engine.prompts == []


async def test_loopback_stays_closed_to_rebound_names_without_a_key_even_when_told_so(make_site: MakeSite) -> None:
    site = await make_site(auth="none")
    assert (await site.client.get("/v1/config", headers={"Host": "evil.example"})).status == 403


async def test_odd_characters_in_a_key_are_just_wrong(make_site: MakeSite) -> None:
    site = await make_site(api_key=KEY)
    assert (await site.client.get("/v1/config", headers={"Authorization": "Bearer \udcff\udc80"})).status == 401
    assert (await site.client.get("/v1/config?token=%ff%00é")).status == 401


async def test_page_and_health_need_no_key(make_site: MakeSite) -> None:
    site = await make_site(api_key=KEY)
    for path in ("/", "/health", "/livez", "/readyz"):
        assert (await site.client.get(path)).status == 200, path


async def test_page_of_another_origin_is_refused(make_site: MakeSite) -> None:
    site = await make_site()
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        response = await site.client.post("/v1/sessions", json=OFFER, headers={"Origin": origin})
        assert response.status == 403, origin
        assert "Access-Control-Allow-Origin" not in response.headers
    assert site.house.engine.prompts == []


async def test_own_origin_is_fine(make_site: MakeSite) -> None:
    site = await make_site()
    origin = f"http://{site.client.host}:{site.client.port}"
    assert (await site.client.post("/v1/sessions", json=OFFER, headers={"Origin": origin})).status == 201


async def test_allowed_origin_can_read_answers_and_errors(make_site: MakeSite) -> None:
    site = await make_site(allow_origin=("https://app.example",), slots=1)
    headers = {"Origin": "https://app.example"}
    created = await site.client.post("/v1/sessions", json=OFFER, headers=headers)
    full = await site.client.post("/v1/sessions", json=OFFER, headers=headers)
    preflight = await site.client.options("/v1/sessions", headers=headers)
    assert (created.status, full.status, preflight.status) == (201, 503, 204)
    for response in (created, full, preflight):
        assert response.headers["Access-Control-Allow-Origin"] == "https://app.example"
        assert "Location" in response.headers["Access-Control-Expose-Headers"]


async def test_rebound_host_name_is_refused_without_a_key(make_site: MakeSite) -> None:
    site = await make_site()
    rebound = {"Host": "evil.example:8124", "Origin": "http://evil.example:8124"}
    assert (await site.client.post("/v1/sessions", json=OFFER, headers=rebound)).status == 403
    for host in ("localhost:8124", "127.0.0.1", "[::1]:8124", "192.0.2.7:8124"):
        assert (await site.client.get("/v1/config", headers={"Host": host})).status == 200, host


async def test_key_or_explicit_none_allows_any_host_name(make_site: MakeSite) -> None:
    keyed = await make_site(api_key=KEY)
    headers = {"Host": "voice.example", "Authorization": f"Bearer {KEY}"}
    assert (await keyed.client.get("/v1/config", headers=headers)).status == 200
    open_site = await make_site(auth="none", host="0.0.0.0")
    assert (await open_site.client.get("/v1/config", headers={"Host": "voice.example"})).status == 200
