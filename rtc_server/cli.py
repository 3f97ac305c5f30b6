"""``rtc-server``: parsing and printing only; each command's work is elsewhere."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from rtc_server import __version__, config, log
from rtc_server.errors import ConfigError, RtcServerError, UnknownEngine
from rtc_server.transports.webrtc.connectivity import Connectivity


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status: 0 done, 1 failed, 2 wrong usage or settings."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except RtcServerError as error:
        Console(stderr=True).print(Text(f"rtc-server: {error}", style="bold red"), soft_wrap=True)
        return 2 if isinstance(error, ConfigError | UnknownEngine) else 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rtc-server", description="A real-time media server for full-duplex speech models."
    )
    parser.add_argument("--version", action="version", version=f"rtc-server {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_settings(serve := commands.add_parser("serve", help="serve the page, the API and the calls"))
    serve.set_defaults(run=_serve)
    _add_settings(check := commands.add_parser("check", help="say what is there, and what to do about what is not"))
    check.set_defaults(run=_check)
    _add_talk(commands.add_parser("talk", help="talk to a server from the terminal, or send it a file"))
    _add_offline(commands.add_parser("offline", help="send files through an engine, without network and clock"))
    _add_verify(commands.add_parser("verify", help="compare this machine's model with golden tensors"))
    _add_voices(commands.add_parser("voices", help="list the voices, or prepare some of your own"))
    _add_token(commands.add_parser("token", help="make short-lived credentials"))
    _add_bench(commands.add_parser("bench", help="measure a server or a model: latency, calls, loss, roam, engine"))
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    http = parser.add_argument_group("web server")
    http.add_argument("--host", metavar="ADDRESS", help="where page and API listen (default 127.0.0.1)")
    http.add_argument("--port", type=int, help="TCP port of page and API (default 8124)")
    http.add_argument("--auth", choices=("key", "none"), help="none: let everybody in; key: RTC_API_KEY must be set")
    http.add_argument("--allow-origin", metavar="URL", action="append", help="origin of a page that may use the API")
    http.add_argument("--tls", choices=("off", "self-signed"), help="self-signed: HTTPS with a certificate of our own")
    http.add_argument("--tls-cert", type=Path, metavar="PEM", help="certificate chain")
    http.add_argument("--tls-key", type=Path, metavar="PEM", help="its private key")
    http.add_argument("--metrics-port", type=int, metavar="PORT", help="Prometheus metrics on 127.0.0.1")
    http.add_argument(
        "--web-ui",
        metavar="DIR|personaplex",
        help="another page at /: a folder with an index.html, or PersonaPlex's own client, fetched from the hub",
    )
    media = parser.add_argument_group("media")
    media.add_argument("--udp-port", type=int, help="UDP port of all calls, on all interfaces (default 8125)")
    media.add_argument("--advertise-ip", metavar="IP", action="append", help="address to offer to callers (repeatable)")
    media.add_argument("--dtx", action="store_true", default=None, help="send next to nothing in the agent's pauses")
    _add_turn(parser)
    _add_sip(parser)
    _add_engine(parser)
    session = parser.add_argument_group("sessions")
    session.add_argument("--max-half-open", type=int, metavar="N", help="calls in set-up at once (default 64)")
    session.add_argument("--idle-limit-s", type=float, metavar="S", help="end a call without audio (default 300)")
    session.add_argument("--resume-s", type=float, metavar="S", help="keep a call whose connection closed (default 10)")
    session.add_argument("--drain-s", type=float, metavar="S", help="let calls go on after SIGTERM (default 5)")
    _add_other(parser)


def _add_turn(parser: argparse.ArgumentParser) -> None:
    turn = parser.add_argument_group("TURN, for callers behind firewalls (the secret: RTC_TURN_SECRET, or a file)")
    _add_turn_server(turn)
    turn.add_argument("--turn-ttl-s", type=int, metavar="S", help="how long a credential is good (default 3600)")


def _add_sip(parser: argparse.ArgumentParser) -> None:
    sip = parser.add_argument_group("phone calls (trunks and numbers stand in the settings file: docs/telephony.md)")
    sip.add_argument("--sip-listen", metavar="PLACE", action="append", help="udp:0.0.0.0:5060, tcp:..., tls:... (off)")
    sip.add_argument("--sip-advertise-ip", metavar="IP", help="this machine's address as trunks see it")
    sip.add_argument("--sip-rtp-ports", metavar="A-B", help="UDP ports of calls, two for each (default 20000-20999)")
    sip.add_argument("--sip-max-calls", type=int, metavar="N", help="calls at once on all trunks together")


def _add_turn_server(turn: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    turn.add_argument("--turn-urls", metavar="URL", action="append", help="turn:HOST:3478?transport=udp; also a,b")
    turn.add_argument("--turn-secret-file", type=Path, metavar="FILE", help="what the TURN server knows too")


def _add_engine(parser: argparse.ArgumentParser) -> None:
    engine = parser.add_argument_group("engine")
    engine.add_argument(
        "--engine", metavar="NAME", help="auto (default), echo, cascade, personaplex, or package.module:Class"
    )
    engine.add_argument("--slots", "--batch-size", type=int, metavar="N", help="conversations at once (default 4)")
    engine.add_argument("--persona", metavar="TEXT", help="persona of callers who ask for none")
    engine.add_argument("--voice", metavar="NAME", help="voice of callers who ask for none")
    engine.add_argument(
        "--engine-process", choices=("auto", "on", "off"), help="engine in a process of its own (default auto)"
    )
    engine.add_argument("--asr-model", type=Path, metavar="DIR", help="CTranslate2 Whisper model for the cascade")
    _add_model(parser.add_argument_group("model (engine personaplex)"))


def _add_other(parser: argparse.ArgumentParser) -> None:
    other = parser.add_argument_group("other")
    other.add_argument("--config", type=Path, metavar="FILE.toml", help="settings file; flags and RTC_* win over it")
    other.add_argument("--log-level", choices=("debug", "info", "warning", "error"))
    other.add_argument("--log-format", choices=("auto", "json", "text"))


def _add_model(model: argparse._ArgumentGroup) -> None:
    model.add_argument("--model", metavar="NAME|DIR", help="repository on the hub, or folder with a checkpoint")
    model.add_argument("--revision", metavar="R", help="branch, tag or commit of the repository")
    model.add_argument("--voices", type=Path, metavar="DIR", help="voices of your own: .wav, .safetensors, .pt")
    model.add_argument("--device", metavar="NAME", help="cuda, cuda:1, cpu (default: the first GPU, else cpu)")
    model.add_argument("--dtype", choices=("bf16", "f16", "f32"), help="of the weights (default: bf16 on a GPU)")
    model.add_argument("--weights", choices=("full", "int8"), help="int8: half the memory of the weights")
    model.add_argument("--kv", choices=("full", "int8"), help="int8: half the memory of a slot")
    model.add_argument("--max-context", type=int, metavar="N", help="positions of 80 ms that a slot remembers")
    model.add_argument(
        "--pin-prompt", action="store_true", default=None, help="keep persona and voice in mind for ever"
    )
    model.add_argument("--depformer-steps", type=int, choices=(8, 16), help="default 8; 16 guesses the caller too")
    model.add_argument("--threads", type=int, metavar="N", help="CPU threads of the model (default: all cores but one)")


def _add_talk(parser: argparse.ArgumentParser) -> None:
    from rtc_server.talk import command

    command.add_arguments(parser)
    parser.set_defaults(run=command.run_arguments)


def _add_offline(parser: argparse.ArgumentParser) -> None:
    from rtc_server.offline import command

    command.add_arguments(parser)
    _add_engine(parser)
    _add_other(parser)
    parser.set_defaults(run=lambda arguments: command.run_arguments(arguments, _settings(arguments)))


def _add_verify(parser: argparse.ArgumentParser) -> None:
    from rtc_server import verify_command

    verify_command.add_arguments(parser)
    parser.set_defaults(run=verify_command.run_arguments)


def _add_voices(parser: argparse.ArgumentParser) -> None:
    from rtc_server import voices_command

    voices_command.add_arguments(parser)
    parser.set_defaults(run=voices_command.run_arguments)


def _add_token(parser: argparse.ArgumentParser) -> None:
    from rtc_server import token_command

    tokens = parser.add_subparsers(title="credentials", required=True, metavar="KIND")
    turn = tokens.add_parser("turn", help="for the TURN server, ready to paste")
    token_command.add_arguments(turn)
    _add_turn_server(turn)
    _add_other(turn)
    turn.set_defaults(run=lambda arguments: token_command.run_arguments(arguments, _settings(arguments)))


def _add_bench(parser: argparse.ArgumentParser) -> None:
    from rtc_server.bench import calls, engine, latency, loss, roam

    benches = parser.add_subparsers(title="benchmarks", required=True, metavar="BENCH")
    for name, bench, text in (
        ("latency", latency, "mouth to ear, connect time, drift"),
        ("calls", calls, "how many calls fit on a core"),
        ("loss", loss, "what a lossy network leaves of the caller's words, and what it costs in delay"),
        ("roam", roam, "how much audio an ICE restart and a new address cost"),
        ("engine", engine, "what a call of the model costs, beside the least it can cost"),
    ):
        sub = benches.add_parser(name, help=text)
        bench.add_arguments(sub)
        sub.set_defaults(run=bench.run_arguments)


def _settings(arguments: argparse.Namespace) -> config.Settings:
    settings = config.load(vars(arguments), arguments.config)
    log.configure(settings.log.log_level, settings.log.log_format)
    return settings


def _serve(arguments: argparse.Namespace) -> int:
    from rtc_server.server import Server

    settings = _settings(arguments)

    async def serve() -> None:
        server = Server(settings)
        try:
            await server.start()
        except BaseException:
            await server.stop()
            raise
        spoken = (server.engine.spec.summary, server.choice.reason)
        _greet(server.url, spoken, settings, server.connectivity(), server.phone_line)
        await server.run()

    # Windows' default loop cannot watch a socket, which the media port needs.
    loop_factory = asyncio.SelectorEventLoop if sys.platform == "win32" else None
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(serve())
    return 0


def _greet(
    url: str, engine: tuple[str, str], settings: config.Settings, reach: Connectivity, phone_line: str | None = None
) -> None:
    """`engine`: what it is, and why this one."""
    summary, reason = engine
    needs_key = settings.http.needs_key
    lines = Text()
    lines.append("Open ").append(url + ("#token=YOUR_KEY" if needs_key else ""), style="bold cyan underline")
    lines.append("\n\n").append(summary).append(f"\n{reason}", style="dim")
    if phone_line is not None:
        lines.append(f"\n\n{phone_line}")
    if not reach.ok:
        lines.append(f"\n\n{reach.message}", style="yellow")
    if not settings.http.loopback and not settings.http.secure:
        lines.append(
            "\n\nWithout HTTPS a browser gives no microphone to a page from another machine: add --tls self-signed.",
            style="yellow",
        )
    Console().print(Panel(lines, title=f"rtc-server {__version__}", border_style="cyan", expand=False), soft_wrap=False)
    sys.stdout.flush()


def _check(arguments: argparse.Namespace) -> int:
    from rtc_server import check

    settings = _settings(arguments)
    if arguments.log_level is None:
        log.configure("warning", settings.log.log_format)  # the rows say it all
    return check.run(settings)
