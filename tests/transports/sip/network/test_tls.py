from __future__ import annotations

import asyncio
import os
import ssl
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rtc_server.errors import ConfigError
from rtc_server.transports.sip.network.connection import StreamLimits
from rtc_server.transports.sip.network.resolve import ServerRecord
from rtc_server.transports.sip.network.target import Target
from rtc_server.transports.sip.network.tls import TlsContexts, TlsSettings
from tests.transports.sip.network.authority import Authority
from tests.transports.sip.network.listeners import network, options_request, place_of, stranger, until

TLS = "tls:127.0.0.1:0"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


class Names:
    """Every name is this machine."""

    async def servers(self, name: str) -> Sequence[ServerRecord]:
        return ()

    async def addresses(self, host: str) -> Sequence[str]:
        return ("127.0.0.1",)


async def test_messages_go_both_ways_under_tls(authority: Authority) -> None:
    settings = authority.settings("127.0.0.1")
    async with network(TLS, tls=settings) as (theirs, heard), network(TLS, tls=settings) as (ours, answers):
        heard.on_message = lambda data, flow: theirs.send(options_request(2), flow)
        flow = await ours.connect(Target("tls", *place_of(theirs, "tls")))
        ours.send(options_request(1), flow)
        assert await answers.flow() == flow
        assert heard.messages[0][1].transport == "tls"
        assert ours.contact(flow) == place_of(ours, "tls")


async def test_the_certificate_must_be_made_out_to_the_name_that_was_called(authority: Authority) -> None:
    async with (
        network(TLS, tls=authority.settings("sip.example.com")) as (theirs, _),
        network(TLS, tls=authority.settings("127.0.0.1", file="ours"), resolver=Names()) as (ours, _),
    ):
        port = place_of(theirs, "tls")[1]
        flow = await ours.connect(Target("tls", "sip.example.com", port))
        assert await ours.connect(Target("tls", "sip.example.com", port)) == flow
        with pytest.raises(ssl.SSLCertVerificationError):
            await ours.connect(Target("tls", "sip.example.org", port))
        assert await ours.connect(Target("tls", "127.0.0.1", port)) == flow


async def test_a_certificate_of_an_unknown_authority_is_refused_unless_a_setting_says_otherwise(
    authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other").settings("127.0.0.1", file="other-server")
    ours = authority.settings("127.0.0.1")
    async with network(TLS, tls=other) as (theirs, _):
        target = Target("tls", *place_of(theirs, "tls"))
        async with network(TLS, tls=ours) as (careful, _):
            with pytest.raises(ssl.SSLCertVerificationError):
                await careful.connect(target)
            assert not len(careful.streams)
        async with network(TLS, tls=replace(ours, insecure=True)) as (careless, _):
            assert (await careless.connect(target)).remote == place_of(theirs, "tls")


async def test_a_server_may_ask_for_the_certificate_of_its_clients(authority: Authority) -> None:
    settings = authority.settings("127.0.0.1")
    async with network(TLS, tls=replace(settings, verify_clients=True)) as (theirs, heard):
        async with network(TLS, tls=settings) as (ours, _):
            ours.send(options_request(), await ours.connect(Target("tls", *place_of(theirs, "tls"))))
            await heard.flow()
        async with stranger(place_of(theirs, "tls"), ssl=authority.trusting(), server_hostname="127.0.0.1") as peer:
            peer.say(options_request())
            assert await peer.is_hung_up_on()
        assert len(heard.messages) == 1


async def test_records_that_come_together_are_all_read(authority: Authority) -> None:
    async with network(TLS, tls=authority.settings("127.0.0.1")) as (ours, heard):
        address = place_of(ours, "tls")
        async with stranger(address, ssl=authority.trusting(), server_hostname="127.0.0.1") as peer:
            messages = [options_request(number, bytes(200)) for number in range(40)]
            for message in messages:
                peer.say(message)
            await heard.flow(40)
        assert [data for data, _ in heard.messages] == messages


async def test_a_host_may_have_an_authority_and_a_certificate_of_its_own(authority: Authority, tmp_path: Path) -> None:
    bank = Authority(tmp_path, "bank")
    at_the_bank = replace(bank.settings("bank.example.com", file="bank-server"), verify_clients=True)
    ours_there = bank.settings("ours.example.com", file="bank-client")
    usual = authority.settings("127.0.0.1", "sip.example.com")
    settings = replace(usual, of_hosts={"bank.example.com": ours_there})
    async with (
        network(TLS, tls=at_the_bank) as (theirs, heard),
        network(TLS, tls=usual) as (others, _),
        network("udp:127.0.0.1:0", tls=settings, resolver=Names()) as (ours, _),
    ):
        port = place_of(theirs, "tls")[1]
        ours.send(options_request(), await ours.connect(Target("tls", "Bank.example.com", port)))
        await heard.flow()
        await ours.connect(Target("tls", "sip.example.com", place_of(others, "tls")[1]))
        with pytest.raises(ssl.SSLCertVerificationError):
            await ours.connect(Target("tls", "sip.example.com", port))


async def test_the_authorities_of_the_system_are_not_read_by_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[bool] = []
    make = ssl.create_default_context

    def note(*args: Any, **options: Any) -> ssl.SSLContext:
        readers.append(threading.current_thread() is threading.main_thread())
        return make(*args, **options)

    monkeypatch.setattr(ssl, "create_default_context", note)
    contexts = TlsContexts(TlsSettings())
    contexts.load(listens=False)
    assert not readers
    first, second = await asyncio.gather(contexts.client("a"), contexts.client("b"))
    assert first is second
    assert readers == [False]


async def test_old_versions_of_tls_are_refused(authority: Authority) -> None:
    contexts = TlsContexts(authority.settings("127.0.0.1"))
    contexts.load(listens=True)
    for context in (await contexts.server(), await contexts.client("sip.example.com")):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert (await contexts.client("sip.example.com")).check_hostname


def test_files_that_do_not_fit_are_named_with_what_each_is_for(authority: Authority, tmp_path: Path) -> None:
    ours = replace(authority.settings("127.0.0.1"), key=authority.settings("127.0.0.1", file="other").key)
    words = rf"certificate {tmp_path}/server.pem, key {tmp_path}/other.key, authority {tmp_path}/authority.pem"
    with pytest.raises(ConfigError, match=words):
        TlsContexts(ours).load(listens=True)


async def test_a_handshake_that_never_comes_is_not_waited_for(authority: Authority) -> None:
    limits = StreamLimits(handshake_s=0.02)
    async with network(TLS, tls=authority.settings("127.0.0.1"), limits=limits) as (ours, heard):
        async with stranger(place_of(ours, "tls")) as silent, stranger(place_of(ours, "tls")) as plain:
            plain.say(options_request())
            assert await silent.is_hung_up_on()
            assert await plain.is_hung_up_on()
        await until(lambda: not len(ours.streams))
        assert heard.refused["handshake"] == 2
        assert not heard.closed
        assert not ours.streams._inbound


async def test_connections_count_before_their_handshake(authority: Authority) -> None:
    limits = StreamLimits(connections_per_address=1)
    async with (
        network(TLS, tls=authority.settings("127.0.0.1"), limits=limits) as (ours, _),
        stranger(place_of(ours, "tls")),
    ):
        await until(lambda: len(ours.streams) == 1)
        async with stranger(place_of(ours, "tls")) as second:
            assert await second.is_hung_up_on()


async def test_closing_does_not_wait_for_a_handshake(authority: Authority) -> None:
    async with (
        network(TLS, tls=authority.settings("127.0.0.1")) as (ours, _),
        stranger(place_of(ours, "tls")) as silent,
    ):
        await until(lambda: len(ours.streams) == 1)
        async with asyncio.timeout(2):
            await ours.close()
        assert await silent.is_hung_up_on()


async def test_a_renewed_certificate_is_shown_without_a_restart(authority: Authority) -> None:
    settings = authority.settings("old.example.com")
    async with network(TLS, tls=settings) as (theirs, _):
        address = place_of(theirs, "tls")

        async def shown_to(name: str) -> None:
            async with stranger(address, ssl=authority.trusting(), server_hostname=name):
                pass

        await shown_to("old.example.com")
        _touch(authority.settings("new.example.com"), 1)
        await shown_to("new.example.com")

        assert settings.key is not None
        renewed = settings.key.read_bytes()
        settings.key.write_bytes(b"half a file")
        _touch(settings, 2)
        await shown_to("new.example.com")
        settings.key.write_bytes(renewed)
        _touch(settings, 3)
        await shown_to("new.example.com")


def _touch(settings: TlsSettings, offset_s: int) -> None:
    """File systems with coarse times would hide a change so soon."""
    for path in (settings.certificate, settings.key):
        assert path is not None
        os.utime(path, (2_000_000_000 + offset_s, 2_000_000_000 + offset_s))


async def test_files_that_are_no_good_are_a_wrong_setting(authority: Authority, tmp_path: Path) -> None:
    good = authority.settings("127.0.0.1")
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for settings in (
        TlsSettings(),
        replace(good, certificate=broken),
        replace(good, key=tmp_path / "missing.key"),
        replace(good, ca=broken),
        replace(good, ca=None, verify_clients=True),
        replace(good, of_hosts={"bank.example.com": TlsSettings(ca=broken)}),
    ):
        with pytest.raises(ConfigError):
            async with network(TLS, tls=settings):
                pass


@pytest.mark.parametrize("field", ["certificate", "key", "ca"])
async def test_a_file_that_cannot_be_read_is_named(authority: Authority, tmp_path: Path, field: str) -> None:
    settings = replace(authority.settings("127.0.0.1"), **{field: tmp_path / "nowhere.pem"})
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere.pem for SIP over TLS: No such file"):
        TlsContexts(settings).load(listens=True)


async def test_calling_over_tls_needs_no_certificate_of_our_own(authority: Authority) -> None:
    async with (
        network(TLS, tls=authority.settings("127.0.0.1")) as (theirs, heard),
        network("udp:127.0.0.1:0", tls=TlsSettings(ca=authority.path)) as (ours, _),
    ):
        flow = await ours.connect(Target("tls", *place_of(theirs, "tls")))
        ours.send(options_request(), flow)
        await heard.flow()
        assert ours.contact(flow) == flow.local
