"""``rtc-server talk``: its flags, and which microphone and speaker they come to."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rtc_server.errors import ConfigError

if TYPE_CHECKING:
    from rtc_server.talk.address import Address
    from rtc_server.talk.call import Microphone, Speaker
    from rtc_server.talk.protocol import CallProtocol
    from rtc_server.talk.screen import Screen

_ADDRESS = "http://localhost:8124"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", default=_ADDRESS, help=f"of the server: http, https, ws or wss (default {_ADDRESS})")
    parser.add_argument(
        "--protocol",
        choices=("auto", "moshi", "pcm"),
        default="auto",
        help="moshi: /api/chat, which Moshi's and PersonaPlex's own servers have too; pcm: /v1/audio/duplex; "
        "auto: pcm where the server has it, else moshi",
    )
    parser.add_argument("--persona", metavar="TEXT", help="who the agent shall be")
    parser.add_argument("--voice", metavar="NAME", help="its voice (PersonaPlex's own server needs one, as NATF2.pt)")
    parser.add_argument("--seed", type=int, metavar="N", help="the same seed gives the same answer")
    parser.add_argument("--in", dest="source", type=Path, metavar="FILE.wav", help="say this, not the microphone")
    parser.add_argument("--out", dest="target", type=Path, metavar="FILE.wav", help="what the agent says, at 24 kHz")
    parser.add_argument("--token", metavar="KEY", help="the server's key; better in RTC_API_KEY, which no list shows")
    parser.add_argument(
        "--insecure", action="store_true", help="take any certificate, as that of a server with --tls self-signed"
    )


def run_arguments(arguments: argparse.Namespace) -> int:
    """For a parser that `add_arguments` has filled. Returns 0.

    Raises: ConfigError for what cannot be used; PeerError when the server is not there, refuses or breaks off.
    """
    asyncio.run(_talk(arguments))
    return 0


async def _talk(arguments: argparse.Namespace) -> None:
    import aiohttp

    from rtc_server.talk.address import Address
    from rtc_server.talk.call import Call
    from rtc_server.talk.connect import connect
    from rtc_server.talk.screen import Screen

    address, screen = Address.of(arguments.url), Screen()
    protocols = _protocols(arguments, address)
    token = arguments.token or address.token or os.environ.get("RTC_API_KEY") or None
    with _sound(arguments, screen) as (microphone, speakers):
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as http:
            socket, protocol = await connect(http, address, protocols, token, tls=not arguments.insecure)
            screen.remark(f"Connected to {address.netloc}{protocol.path}; waiting for the agent.")
            try:
                with _interrupts() as hang_up:
                    await Call(socket, protocol, microphone, speakers, screen).run(hang_up)
            finally:
                screen.end_line()


def _protocols(arguments: argparse.Namespace, address: Address) -> list[CallProtocol]:
    """Those to try, in this order. Raises: ConfigError."""
    from rtc_server.talk.moshi import MoshiProtocol
    from rtc_server.talk.pcm import PcmProtocol
    from rtc_server.talk.protocol import Wishes

    if arguments.seed is not None and not 0 <= arguments.seed < 2**63:
        raise ConfigError(f"--seed {arguments.seed} must be 0 or more, and below 2**63")
    wishes = Wishes(arguments.persona, arguments.voice, arguments.seed)
    known: dict[str, CallProtocol] = {
        "pcm": PcmProtocol(wishes, "realtime" if arguments.source is None else "input"),
        "moshi": MoshiProtocol(wishes),
    }
    if arguments.protocol != "auto":
        known = {arguments.protocol: known[arguments.protocol]}
    fitting = [protocol for protocol in known.values() if address.path in (None, protocol.path)]
    if not fitting:
        raise ConfigError(
            f"--url names {address.path}, which is not --protocol {arguments.protocol}", hint="leave one of them out"
        )
    return fitting


@contextlib.contextmanager
def _sound(arguments: argparse.Namespace, screen: Screen) -> Iterator[tuple[Microphone, list[Speaker]]]:
    """What the flags come to, closed at the end. Raises: ConfigError."""
    from rtc_server.talk.devices import DeviceMicrophone, DeviceSpeaker, load_sounddevice
    from rtc_server.talk.files import FileMicrophone, FileSpeaker

    with contextlib.ExitStack() as stack:
        microphone: FileMicrophone | DeviceMicrophone
        speakers: list[Speaker] = []
        if arguments.target is not None:
            speakers.append(stack.enter_context(contextlib.closing(FileSpeaker(arguments.target))))
        if arguments.source is not None:
            microphone = FileMicrophone(arguments.source, time.monotonic)
        else:
            microphone = DeviceMicrophone(load_sounddevice())
            screen.remark("Use headphones: without them the agent hears itself.", "yellow")
        stack.enter_context(contextlib.closing(microphone))
        if arguments.source is None or arguments.target is None:
            speakers.append(stack.enter_context(contextlib.closing(DeviceSpeaker(load_sounddevice()))))
        yield microphone, speakers


@contextlib.contextmanager
def _interrupts() -> Iterator[asyncio.Event]:
    """Set by the first Ctrl-C; the second one is not waited for."""
    loop, hang_up = asyncio.get_running_loop(), asyncio.Event()

    def on_interrupt() -> None:
        hang_up.set()
        loop.remove_signal_handler(signal.SIGINT)

    with contextlib.suppress(NotImplementedError):  # not on Windows' loop, where Ctrl-C cancels us instead
        loop.add_signal_handler(signal.SIGINT, on_interrupt)
    try:
        yield hang_up
    finally:
        with contextlib.suppress(NotImplementedError):
            loop.remove_signal_handler(signal.SIGINT)
