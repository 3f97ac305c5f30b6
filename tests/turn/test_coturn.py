"""What the shipped configuration lets through and what not, asked over the wire."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import ssl
import subprocess
from collections.abc import AsyncIterator

import pytest
from rich.console import Console

from rtc_server import check, config
from rtc_server.transports.webrtc.turn import Credential, parse_url
from rtc_server.transports.webrtc.turnclient import FORBIDDEN, UNAUTHORIZED, Refused, TurnClient
from tests.turn.conftest import StartCoturn
from tests.turn.coturn import PORT, TCP, TLS, UDP, Coturn
from tests.turn.network import CALLER, NOWHERE, SERVER, SERVER_V6, TURN, TURN_V6, Network

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60, method="signal")]

QUOTA_REACHED = 486
FREED_WITHIN_S = 10.0
INNER = ("127.0.0.1", "10.0.0.1", "10.99.0.1", "169.254.169.254", "172.16.0.1", "192.168.0.1", "100.64.0.1", "0.0.0.0")
INNER_V6 = ("::1", "fe80::1", "::ffff:127.0.0.1", TURN_V6)
OUTSIDE = ("8.8.8.8", "198.51.100.1", "224.0.0.1", "255.255.255.255", CALLER)


@contextlib.asynccontextmanager
async def client(url: str = UDP, tls: ssl.SSLContext | None = None) -> AsyncIterator[TurnClient]:
    async with asyncio.timeout(15):
        connected = await TurnClient.connect(parse_url(url), tls)
        with contextlib.closing(connected):
            yield connected


async def allocate(credential: Credential | None) -> int:
    """0, or the code of the refusal. The allocation is kept."""
    async with client() as asking:
        return await code_of(asking.allocate(credential))


async def code_of(request: object) -> int:
    try:
        await request  # type: ignore[misc]
    except Refused as refusal:
        return refusal.code
    return 0


@pytest.mark.parametrize("url", [UDP, TCP, TLS])
async def test_the_media_server_can_be_reached_and_nobody_else(coturn: Coturn, url: str) -> None:
    trusting = ssl.create_default_context(cafile=str(coturn.certificate))
    async with client(url, trusting) as asking:
        assert await asking.allocate(coturn.credential()) == TURN
        assert await code_of(asking.permit(SERVER)) == 0
        codes = {peer: await code_of(asking.permit(peer)) for peer in (*INNER, *OUTSIDE)}
        assert codes == dict.fromkeys(codes, FORBIDDEN)


def test_no_inner_address_can_be_reached_over_ipv6_either(coturn: Coturn) -> None:
    """Through coturn's own client, since it can ask for a relay with an IPv6 address."""
    for number, peer in enumerate(INNER_V6):
        assert "403" in uclient(coturn.credential(f"user{number}"), peer), peer
    assert "403" not in uclient(coturn.credential(), SERVER_V6)


def uclient(credential: Credential, peer: str) -> str:
    command = ["turnutils_uclient", "-v", "-x", "-n", "1", "-m", "1", "-c", "-p", str(PORT)]
    command += ["-u", credential.username, "-w", credential.password, "-e", peer, TURN]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=20, check=False)
    return run.stdout + run.stderr


async def test_relay_to_relay_works_where_the_relay_itself_is_allowed(start_coturn: StartCoturn) -> None:
    coturn = start_coturn({"TURN_MEDIA_IP": f"{SERVER},{TURN}"})
    async with client() as asking:
        await asking.allocate(coturn.credential())
        assert await code_of(asking.permit(TURN)) == 0
        assert await code_of(asking.permit("127.0.0.1")) == FORBIDDEN


async def test_the_public_address_behind_nat_is_reached_though_its_range_is_denied(start_coturn: StartCoturn) -> None:
    more = {"TURN_IP": TURN, "TURN_EXTERNAL_IP": "203.0.113.8", "TURN_MEDIA_IP": f"{SERVER},203.0.113.8"}
    coturn = start_coturn(more)
    async with client() as asking:
        assert await asking.allocate(coturn.credential()) == "203.0.113.8"
        assert await code_of(asking.permit("203.0.113.8")) == 0
        assert await code_of(asking.permit("203.0.113.9")) == FORBIDDEN


async def test_wrong_and_expired_credentials_and_none_are_refused(coturn: Coturn) -> None:
    assert await allocate(coturn.credential()) == 0
    assert await allocate(coturn.credential(secret="not-the-secret-of-coturn")) == UNAUTHORIZED
    assert await allocate(coturn.credential(ttl_s=-5)) == UNAUTHORIZED
    assert await allocate(None) == UNAUTHORIZED


async def test_the_quota_of_a_user_counts_for_each_name_whatever_its_expiry(start_coturn: StartCoturn) -> None:
    coturn = start_coturn({"TURN_USER_QUOTA": "2"})
    codes = [await allocate(coturn.credential("alice", ttl_s)) for ttl_s in (600, 601, 602)]
    assert codes == [0, 0, QUOTA_REACHED]
    assert await allocate(coturn.credential("bob")) == 0


async def test_the_total_quota_counts_for_all_and_what_is_released_counts_no_more(start_coturn: StartCoturn) -> None:
    coturn = start_coturn({"TURN_TOTAL_QUOTA": "2"})
    async with client() as first:
        await first.allocate(coturn.credential("a"))
        assert await allocate(coturn.credential("b")) == 0
        assert await allocate(coturn.credential("c")) == QUOTA_REACHED
        await first.release()
    async with asyncio.timeout(FREED_WITHIN_S):
        while await allocate(coturn.credential("c")) != 0:
            await asyncio.sleep(0.3)


async def test_a_secret_is_rotated_under_a_running_coturn_and_an_allocation(coturn: Coturn) -> None:
    """The last one stays good, the one before it does not, and what was allocated with it goes on."""
    secrets = [coturn.secret]
    async with client() as relaying:
        await relaying.allocate(coturn.credential())
        for _ in range(2):
            assert coturn.rotate("--ttl-s", "0") == 0
            secrets.append(coturn.secret)
        codes = [await allocate(coturn.credential(secret=secret)) for secret in secrets]
        assert codes == [UNAUTHORIZED, 0, 0]
        assert await code_of(relaying.permit(SERVER)) == 0

    assert coturn.rotate("--leaked") == 0
    assert await allocate(coturn.credential(secret=secrets[-1])) == UNAUTHORIZED
    assert await allocate(coturn.credential()) == 0


def test_a_relay_carries_datagrams_both_ways_by_an_independent_client(coturn: Coturn, network: Network) -> None:
    with network.inside("server"):
        peer = subprocess.Popen(
            ["turnutils_peer", "-L", SERVER, "-p", "3480"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    try:
        credential = coturn.credential()
        command = ["turnutils_uclient", "-n", "20", "-m", "1", "-l", "170", "-z", "20", "-c", "-p", str(PORT)]
        command += ["-u", credential.username, "-w", credential.password, "-e", SERVER, "-r", "3480", TURN]
        run = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    finally:
        peer.terminate()
        peer.wait()
    assert re.search(r"tot_recv_msgs=20\b", run.stdout), run.stdout


def checked(coturn: Coturn | None, *urls: str, secret: str = "", media: str = SERVER) -> dict[str, check.Finding]:
    """The TURN lines of ``rtc-server check``."""
    flags: dict[str, object] = {"turn_urls": urls, "advertise_ip": [media], "engine": "echo", "port": 0, "udp_port": 0}
    if secret:
        flags["turn_secret"] = secret
    elif coturn is not None:
        flags["turn_secret_file"] = coturn.secret_file
    findings = check.examine(config.load(flags))
    return {finding.found.split()[0]: finding for finding in findings if finding.subject.startswith(("TURN", "STUN"))}


def test_check_finds_a_relay_that_works(coturn: Coturn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(coturn.certificate))
    findings = checked(coturn, UDP, TCP, TLS, f"stun:{TURN}")
    assert [finding.ok for finding in findings.values()] == [True] * 4, findings
    assert [finding.subject for finding in findings.values()] == ["TURN udp", "TURN tcp", "TURNS tcp", "STUN udp"]
    assert coturn.secret not in str(findings)


@pytest.mark.parametrize(
    ("url", "secret", "media", "found", "advice"),
    [
        (UDP, "not-the-secret-of-coturn", SERVER, "wrong secret", "the same secret"),
        (TCP, "not-the-secret-of-coturn", SERVER, "wrong secret", "the same secret"),
        (UDP, "", CALLER, "not to this server's", f"allowed-peer-ip={CALLER}"),
        (TLS, "", SERVER, "certificate refused", "authority"),
        (f"turns:{TURN}:9", "", SERVER, "Connection refused", "TCP port 9"),
        (f"turn:{TURN}:9", "", SERVER, "Connection refused", "UDP port 9"),
    ],
)
def test_check_says_what_is_wrong_and_what_to_do(
    coturn: Coturn, url: str, secret: str, media: str, found: str, advice: str
) -> None:
    [finding] = checked(coturn, url, secret=secret, media=media).values()
    assert finding.ok is False
    assert found in finding.found
    assert advice in finding.advice


def test_check_names_a_full_relay(start_coturn: StartCoturn) -> None:
    coturn = start_coturn({"TURN_TOTAL_QUOTA": "1"})
    assert asyncio.run(allocate(coturn.credential())) == 0
    [finding] = checked(coturn, UDP).values()
    assert finding.ok is False
    assert "quota" in finding.found and "total-quota" in finding.advice


def test_check_warns_of_a_relay_that_leads_anywhere(start_coturn: StartCoturn) -> None:
    coturn = start_coturn(lines="allowed-peer-ip=169.254.0.0-169.254.255.255\n")
    [finding] = checked(coturn, UDP).values()
    assert finding.ok is False
    assert "169.254.169.254" in finding.found and "denied-peer-ip" in finding.advice


def test_check_asks_all_at_once_and_a_black_hole_costs_one_timeout(coturn: Coturn) -> None:
    holes = [f"turn:{NOWHERE}:{port}?transport={transport}" for port in range(1, 9) for transport in ("udp", "tcp")]
    flags = {"turn_urls": [UDP, *holes], "turn_secret_file": coturn.secret_file, "advertise_ip": [SERVER]}
    settings = config.load({"engine": "echo", **flags})
    out = io.StringIO()
    assert check.run(settings, Console(file=out, width=300)) == 1
    assert out.getvalue().count("no answer within 4 s") == len(holes)
    assert f"{UDP} relays from {TURN}" in out.getvalue()
