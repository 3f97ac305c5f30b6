"""What the server is and how it is: configuration for clients, voices, health."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from aiohttp import web

from rtc_server import __version__
from rtc_server.engine.client import EngineClient
from rtc_server.engine.stepper import MAX_SEED
from rtc_server.events import MAX_MESSAGE_BYTES, PROTOCOL
from rtc_server.http.sessions import MAX_BODY_BYTES
from rtc_server.http.voicesamples import sample_path
from rtc_server.session.admission import Admission
from rtc_server.transports.webrtc.connectivity import Connectivity
from rtc_server.transports.webrtc.offer import MAX_SDP_BYTES
from rtc_server.transports.webrtc.turn import IceServers


class Info:
    def __init__(
        self,
        engine: EngineClient,
        admission: Admission,
        connectivity: Callable[[], Connectivity],
        needs_key: bool,
        ice_servers: IceServers,
        telephony: bool = False,
    ) -> None:
        self._engine = engine
        self._admission = admission
        self._connectivity = connectivity
        self._needs_key = needs_key
        self._ice_servers = ice_servers
        self._telephony = telephony

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/config", self.config),
            web.get("/v1/voices", self.voices),
            web.get("/health", self.health),
            web.get("/livez", self.health),
            web.get("/readyz", self.readyz),
        ]

    @property
    def _default_voice(self) -> str:
        spec = self._engine.spec
        return spec.voice_named(self._admission.defaults.voice or "") or spec.voices[0]

    async def config(self, _request: web.Request) -> web.Response:
        spec, capacity, reach = self._engine.spec, self._engine.capacity(), self._connectivity()
        return web.json_response(
            {
                "engine": {
                    "name": spec.name,
                    "summary": spec.summary,
                    "device": spec.device,
                    "voices": list(spec.voices),
                    "default_voice": self._default_voice,
                    "voice_samples": {name: sample_path(name) for name in spec.voice_samples},
                    "sampling": None if spec.sampling is None else dataclasses.asdict(spec.sampling),
                    "persona_note": spec.persona_note,
                    "default_persona": self._admission.defaults.persona or spec.default_persona,
                    "max_persona_chars": spec.max_persona_chars,
                    "capabilities": dataclasses.asdict(spec.capabilities),
                    "hears_interruptions": spec.hears_interruptions,
                },
                "slots": {"total": capacity.total, "free": max(0, capacity.total - capacity.in_use)},
                "protocol": PROTOCOL,
                "limits": {
                    "body_bytes": MAX_BODY_BYTES,
                    "sdp_bytes": MAX_SDP_BYTES,
                    "event_bytes": MAX_MESSAGE_BYTES,
                    "persona_chars": spec.max_persona_chars,
                    "max_seed": MAX_SEED,
                    "resume_s": self._admission.rules.resume_s,
                },
                "connectivity": {"ok": reach.ok, "message": reach.message, "addresses": list(reach.addresses)},
                "ice_servers": [server.to_json() for server in self._ice_servers.issue()],
                "telephony": {"on": self._telephony},
                "auth": self._needs_key,
                "version": __version__,
            },
            headers={"Cache-Control": "no-store"},
        )

    async def voices(self, _request: web.Request) -> web.Response:
        spec, default = self._engine.spec, self._default_voice
        voices = [
            {
                "name": name,
                "default": name == default,
                "sample": sample_path(name) if name in spec.voice_samples else None,
            }
            for name in spec.voices
        ]
        return web.json_response({"voices": voices})

    async def health(self, _request: web.Request) -> web.Response:
        """The event loop answers: that is all that liveness means."""
        return web.json_response({"status": "ok"})

    async def readyz(self, _request: web.Request) -> web.Response:
        """Ready to take a call: the engine ticks, and the server is not on its way down."""
        capacity = self._engine.capacity()
        draining = self._admission.draining or capacity.draining
        ready = capacity.ready and not draining
        body = {
            "ready": ready,
            "engine": capacity.ready,
            "draining": draining,
            "slots": {"total": capacity.total, "in_use": capacity.in_use},
        }
        return web.json_response(body, status=200 if ready else 503)
