"""The page: the files of ``static/``, read once, served from memory under a strict content security policy."""

from __future__ import annotations

import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

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
_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".webmanifest": "application/manifest+json"}


def static_dir() -> Path:
    """``static/`` lies inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "static"
    return inside if inside.is_dir() else package.parent / "static"


@dataclass(frozen=True, slots=True)
class Asset:
    body: bytes
    content_type: str
    etag: str


class Page:
    """Only files that were there at the start exist: no path from outside ever reaches the disk."""

    def __init__(self, directory: Path | None = None) -> None:
        root = directory or static_dir()
        self._assets = {
            f"/{path.relative_to(root).as_posix()}": _load(path)
            for path in sorted(root.rglob("*"))
            if path.is_file() and not path.name.startswith(".")
        }

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/", self.serve), *(web.get(path, self.serve) for path in self._assets)]

    async def serve(self, request: web.Request) -> web.Response:
        asset = self._assets.get("/index.html" if request.path == "/" else request.path)
        if asset is None:
            raise web.HTTPNotFound
        headers = {"ETag": asset.etag, "Cache-Control": "no-cache", **SECURITY_HEADERS}
        if request.headers.get("If-None-Match") == asset.etag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=asset.body, headers={**headers, "Content-Type": asset.content_type})


def _load(path: Path) -> Asset:
    body = path.read_bytes()
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    if kind.startswith("text/") or kind in ("image/svg+xml",):
        kind += "; charset=utf-8"
    return Asset(body, kind, f'"{hashlib.sha256(body).hexdigest()[:16]}"')
