"""The page: the files of ``static/``, read once, served from memory under a strict content security policy."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

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
_TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
}


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

    @classmethod
    def of(cls, name: str, body: bytes) -> Asset:
        """What a file of this name with this content is."""
        suffix = PurePosixPath(name).suffix
        kind = _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
        if kind.startswith("text/") or kind in ("image/svg+xml",):
            kind += "; charset=utf-8"
        return cls(body, kind, f'"{hashlib.sha256(body).hexdigest()[:16]}"')

    def answer(self, request: web.Request, headers: Mapping[str, str]) -> web.Response:
        """The file, or 304 to a client that has it."""
        headers = {"ETag": self.etag, "Cache-Control": "no-cache", **headers}
        if request.headers.get("If-None-Match") == self.etag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=self.body, headers={**headers, "Content-Type": self.content_type})


class Page:
    """Only files that were there at the start exist: no path from outside ever reaches the disk."""

    def __init__(self, directory: Path | None = None) -> None:
        root = directory or static_dir()
        self._assets = {
            f"/{path.relative_to(root).as_posix()}": Asset.of(path.name, path.read_bytes())
            for path in sorted(root.rglob("*"))
            if path.is_file() and not path.name.startswith(".")
        }

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/", self.serve), *(web.get(path, self.serve) for path in self._assets)]

    async def serve(self, request: web.Request) -> web.Response:
        asset = self._assets.get("/index.html" if request.path == "/" else request.path)
        if asset is None:
            raise web.HTTPNotFound
        return asset.answer(request, SECURITY_HEADERS)
