"""The page: the files of ``static/``, read once, served from memory under a strict content security policy.

Texts are compressed once, when they are read. Each form of a file has an entity tag of its own (RFC 9110, 8.8.3).
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from aiohttp import web

from rtc_server.http.contentcoding import GZIP, compressed, wants_gzip

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self' blob:; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_FOR_DOCUMENTS = ("Content-Security-Policy", "Permissions-Policy", "Referrer-Policy")
"""Scripts, styles and pictures of ours ask nobody else for anything, and are shorter than these, some of them."""
_DOCUMENTS = ("text/html", "image/svg+xml")
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".mjs": "text/javascript",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
}
"""Not left to the machine, whose tables may say otherwise."""
_COMPRESSIBLE = {"application/json", "application/manifest+json", "application/wasm", "image/svg+xml"}
"""Beside all texts. Pictures, sounds and fonts are compressed as they are."""


def static_dir() -> Path:
    """``static/`` lies inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "static"
    return inside if inside.is_dir() else package.parent / "static"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file, ready to be sent."""

    body: bytes
    content_type: str
    etag: str
    gzip: bytes | None = None
    """Where it is smaller than `body`."""
    gzip_etag: str = ""

    @classmethod
    def of(cls, name: str, body: bytes) -> Asset:
        """What a file of this name with this content is."""
        kind = _TYPES.get(PurePosixPath(name).suffix.lower()) or mimetypes.guess_type(name)[0]
        kind = kind or "application/octet-stream"
        is_text = kind.startswith("text/")
        smaller = compressed(body) if is_text or kind in _COMPRESSIBLE else None
        if is_text or kind == "image/svg+xml":
            kind += "; charset=utf-8"
        return cls(body, kind, entity_tag(body), smaller, entity_tag(smaller) if smaller else "")

    def answer(self, request: web.Request, headers: Mapping[str, str]) -> web.Response:
        """The file in the form that the client takes, or 304 to one that has it."""
        body, etag, headers = self.body, self.etag, {"Cache-Control": "no-cache", **headers}
        if self.gzip is not None:
            headers["Vary"] = "Accept-Encoding"
            if wants_gzip(",".join(request.headers.getall("Accept-Encoding", []))):
                body, etag = self.gzip, self.gzip_etag
                headers["Content-Encoding"] = GZIP
        headers["ETag"] = etag
        if is_known(request, etag):
            headers.pop("Content-Encoding", None)
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, headers={**headers, "Content-Type": self.content_type})


def entity_tag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:16]}"'


def is_known(request: web.Request, etag: str) -> bool:
    """Has the client this form already? Compared as a proxy between us would have it: weakly (RFC 9110 13.1.2)."""
    known = request.headers.get("If-None-Match", "")
    return known.strip() == "*" or etag in (tag.strip().removeprefix("W/") for tag in known.split(","))


class Page:
    """Only files that were there at the start exist: no path from outside ever reaches the disk."""

    def __init__(self, directory: Path | None = None) -> None:
        root = directory or static_dir()
        self._assets = {
            f"/{path.relative_to(root).as_posix()}": Asset.of(path.name, path.read_bytes())
            for path in sorted(root.rglob("*"))
            if path.is_file() and not any(part.startswith(".") for part in path.relative_to(root).parts)
        }

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/", self.serve), *(web.get(path, self.serve) for path in self._assets)]

    async def serve(self, request: web.Request) -> web.Response:
        asset = self._assets.get("/index.html" if request.path == "/" else request.path)
        if asset is None:
            raise web.HTTPNotFound
        is_document = asset.content_type.startswith(_DOCUMENTS)
        skipped = () if is_document else _FOR_DOCUMENTS
        return asset.answer(request, {name: value for name, value in SECURITY_HEADERS.items() if name not in skipped})
