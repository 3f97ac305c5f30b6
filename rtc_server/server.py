"""The composition root: builds everything, starts, drains, stops. The only file that knows everybody."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import signal
import ssl
import time
from collections.abc import Callable
from wsgiref.simple_server import WSGIServer

import prometheus_client
from aiohttp import web

from rtc_server.config import Settings
from rtc_server.errors import ConfigError
from rtc_server.http.app import create_app
from rtc_server.http.auth import Gate
from rtc_server.http.calls import PhoneCalls
from rtc_server.http.chat import MAX_LINE_BYTES, Chat
from rtc_server.http.connectivity import ConnectivityTests
from rtc_server.http.duplex import Duplex
from rtc_server.http.iceservers import ice_servers
from rtc_server.http.info import Info
from rtc_server.http.page import Page
from rtc_server.http.sessions import Sessions
from rtc_server.http.sockets import SocketLimits
from rtc_server.http.tls import ssl_context
from rtc_server.http.voicesamples import VoiceSamples
from rtc_server.http.webui import WebUi, chosen_page
from rtc_server.launch import chosen_engine, make_engine, web_client
from rtc_server.log import get_logger
from rtc_server.session.admission import Admission, Defaults
from rtc_server.session.conductor import Conductor
from rtc_server.session.liveness import LivenessRules
from rtc_server.session.registry import SessionRegistry
from rtc_server.sipconfig import build_user_agent, check_prompts, line_in_words, warn_of_few_ports
from rtc_server.transports.pacer import Pacer
from rtc_server.transports.webrtc.connectivity import Connectivity, judge_connectivity
from rtc_server.transports.webrtc.transport import WebRtcConfig, WebRtcTransport

log = get_logger(__name__)

SHUTDOWN_TIMEOUT_S = 2.0
"""How long requests that are being answered may hold up the end: a client that does not read would do it for ever."""


class Server:
    """One media process: one engine, one media port, one web server, and phone lines where they are wanted.

    `start` brings it up or raises what is wrong; `stop` may be called twice. All of it lives on one event loop, except
    the engine, which has a thread of its own.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._clock = clock
        self.choice = chosen_engine(settings.engine)
        self.ice_servers = ice_servers(settings.turn)
        self.engine = make_engine(self.choice.name, settings.engine, settings.log)
        self.pacer = Pacer(clock)
        self.conductor = Conductor(self.engine, self.pacer, clock)
        self.registry = SessionRegistry(self.conductor)
        media = WebRtcConfig(
            settings.webrtc.udp_port,
            settings.webrtc.advertise_ip,
            dtx=settings.webrtc.dtx,
            local_callers=settings.http.loopback,
        )
        self.webrtc = WebRtcTransport(media, self.pacer, clock)
        self.admission = Admission(
            self.engine,
            self.registry,
            LivenessRules(
                media.setup_s, idle_limit_s=settings.session.idle_limit_s, resume_s=settings.session.resume_s
            ),
            Defaults(settings.engine.persona, settings.engine.voice),
            settings.session.max_half_open,
            clock,
        )
        self.sip = build_user_agent(settings.sip, self.admission, self.pacer, clock)
        self._runner: web.AppRunner | None = None
        self._metrics: WSGIServer | None = None
        self._conducting: asyncio.Task[None] | None = None
        self._started = False
        self._stop = asyncio.Event()
        self._forced = asyncio.Event()

    @property
    def url(self) -> str:
        """Where a person opens the page: on this machine if it serves only that, else from anywhere that reaches it."""
        http = self.settings.http
        host = http.host
        if http.loopback:
            host = "localhost"
        elif host in ("0.0.0.0", "::"):
            host = next(iter(self.webrtc.connectivity()), "localhost")
        port = self._runner.addresses[0][1] if self._runner and self._runner.addresses else http.port
        return f"{'https' if http.secure else 'http'}://{f'[{host}]' if ':' in host else host}:{port}/"

    @property
    def phone_line(self) -> str | None:
        """Where phones reach this server, in words. None, where they do not."""
        return None if self.sip is None else line_in_words(self.settings.sip, self.webrtc.connectivity())

    def connectivity(self) -> Connectivity:
        return judge_connectivity(self.webrtc.connectivity())

    async def start(self) -> None:
        """Raises: ConfigError, EngineError, MissingLibrary."""
        fetch = functools.partial(web_client, self.settings.engine)
        page = await asyncio.to_thread(chosen_page, self.settings.http.web_ui, fetch)
        await self.engine.start()
        # The default prompt must work, or nobody's call will.
        await self.admission.check_defaults()
        if self.sip is not None:
            check_prompts(self.sip.trunks, self.admission)
            warn_of_few_ports(self.settings.sip, self.engine.capacity().total)
        await self.webrtc.start()
        self.pacer.start()
        if self.sip is not None:
            await self.sip.start()
        self._conducting = asyncio.create_task(self.conductor.run(), name="conductor")
        await self._serve_http(page, ssl_context(self.settings.http, self.webrtc.connectivity()))
        if self.settings.http.metrics_port is not None:
            self._metrics = self._serve_metrics(self.settings.http.metrics_port)
        # What lives now lives for ever: the collector need not look at it on a live call.
        gc.collect()
        gc.freeze()
        self._started = True
        log.info("server started", engine=self.engine.spec.name, slots=self.engine.capacity().total)

    async def run(self) -> None:
        """Serve until SIGINT or SIGTERM, then drain; a second signal ends it at once."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # not on Windows' loop, where Ctrl-C cancels us instead
                loop.add_signal_handler(number, self.request_stop)
        try:
            await self._stop.wait()
            await self.drain()
        finally:
            await self.stop()

    def request_stop(self) -> None:
        if self._stop.is_set():
            self._forced.set()
        self._stop.set()

    async def drain(self) -> None:
        """Refuse new calls, let live ones go on for `drain_s`, then close them."""
        grace_s = self.settings.session.drain_s
        self.admission.draining = True
        self.engine.drain()
        log.info("server draining; a second signal ends it at once", sessions=len(self.registry), at_most_s=grace_s)
        drain = asyncio.create_task(self.registry.drain(grace_s, "server_stopping"), name="drain")
        forced = asyncio.create_task(self._forced.wait(), name="forced-stop")
        await asyncio.wait([drain, forced], return_when=asyncio.FIRST_COMPLETED)
        for task in (drain, forced):
            task.cancel()
        await asyncio.gather(drain, forced, return_exceptions=True)

    async def stop(self) -> None:
        self.admission.draining = True
        await self.registry.close_all("server_stopping")
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._conducting is not None:
            self._conducting.cancel()
            await asyncio.gather(self._conducting, return_exceptions=True)
        if self._metrics is not None:
            self._metrics.shutdown()
            self._metrics.server_close()
            self._metrics = None
        if self.sip is not None:
            await self.sip.close()
        await self.webrtc.close()
        await self.pacer.stop()
        await self.engine.stop()
        if self._started:
            self._started = False
            log.info("server stopped", conversations_cut_off=self.registry.cut_off)

    @staticmethod
    def _serve_metrics(port: int) -> WSGIServer:
        try:
            server, _ = prometheus_client.start_http_server(port, addr="127.0.0.1")
        except OSError as error:
            raise ConfigError(
                f"cannot serve metrics on port {port}: {error.strerror}", hint="choose another with --metrics-port"
            ) from None
        return server

    async def _serve_http(self, page: Page | WebUi, tls: ssl.SSLContext | None) -> None:
        http = self.settings.http
        gate = Gate(http)
        info = Info(
            self.engine,
            self.admission,
            self.connectivity,
            gate.needs_key,
            self.ice_servers,
            telephony=self.sip is not None,
        )
        sessions = Sessions(self.admission, self.registry, self.webrtc, self.ice_servers)
        chat = Chat(self.admission, self._clock)
        duplex = Duplex(self.admission, self._clock, SocketLimits())
        tests = ConnectivityTests(self.admission, self.registry, self.webrtc, self.settings.session.max_half_open)
        calls = PhoneCalls(self.sip, self._clock)
        app = create_app(gate, sessions, info, page, VoiceSamples(self.engine), tests, chat, duplex, calls)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            keepalive_timeout=30,
            shutdown_timeout=SHUTDOWN_TIMEOUT_S,
            max_line_size=MAX_LINE_BYTES,
            auto_decompress=False,  # a few KiB of gzip become megabytes, and hold up every call
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, http.host, http.port, ssl_context=tls).start()
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {http.host} port {http.port}: {error.strerror}", hint="choose another with --port"
            ) from None
