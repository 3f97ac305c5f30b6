"""Another page in place of ours: a folder of the operator's, or the official client of PersonaPlex.

All files are read at the start and served from memory, so that no path from outside reaches the disk. The page gets a
policy that a client with WebAssembly, workers and styles of its own can live with; scripts, pictures and connections
still come from and go to this server alone.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath

from aiohttp import web

from rtc_server.archive import Limits
from rtc_server.errors import ConfigError
from rtc_server.http.page import SECURITY_HEADERS, Asset, Page
from rtc_server.http.webarchive import read_archive

OWN, PERSONAPLEX = "own", "personaplex"
INDEX = "index.html"
_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval' blob:{hashes}; worker-src 'self' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "media-src 'self' data: blob:; connect-src 'self' data: blob:; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HINT = f"give --web-ui the folder that a page was built into, with its {INDEX}"


def chosen_page(web_ui: str, fetch: Callable[[], Path]) -> Page | WebUi:
    """The page that the setting asks for; `fetch` finds ``dist.tgz`` where it is the official one.

    Raises: ConfigError. Blocks as long as `fetch` does.
    """
    if web_ui == OWN:
        return Page()
    if web_ui == PERSONAPLEX:
        return WebUi(read_archive(fetch()))
    return WebUi(read_folder(Path(web_ui).expanduser()))


class WebUi:
    """Serves the files of a page at ``/``. What the API has keeps its place: these are asked last.

    A path without a file is a place within a single-page application, if a person goes there: it gets the index.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        """`files`: by path relative to the page, with slashes. Raises: ConfigError for a page without an index."""
        if INDEX not in files:
            raise ConfigError(f"the web UI has no {INDEX}", hint=_HINT)
        self._assets = {f"/{name}": Asset.of(name, body) for name, body in files.items()}
        self._policies = {path: _policy(asset) for path, asset in self._assets.items()}

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/{path:(?!v1/|api/).*}", self.serve)]

    async def serve(self, request: web.Request) -> web.Response:
        path = self._path(request)
        if path is None:
            raise web.HTTPNotFound
        return self._assets[path].answer(request, {**SECURITY_HEADERS, "Content-Security-Policy": self._policies[path]})

    def _path(self, request: web.Request) -> str | None:
        path = request.path
        for name in (path, f"{path.rstrip('/')}/{INDEX}"):
            if name in self._assets:
                return name
        is_place = "." not in PurePosixPath(path).name and "text/html" in request.headers.get("Accept", "")
        return f"/{INDEX}" if is_place else None


def read_folder(folder: Path, limits: Limits | None = None) -> dict[str, bytes]:
    """All files of a folder but the hidden ones, by relative path.

    Raises: ConfigError for what is no folder, cannot be read, or is over a limit.
    """
    limits = limits or Limits()
    files: dict[str, bytes] = {}
    try:
        if not folder.is_dir():
            raise ConfigError(f"--web-ui {folder} is no folder", hint=f"{_HINT}, or say {PERSONAPLEX}")
        total_bytes = 0
        for path, name in _visible(folder, limits):
            with path.open("rb") as file:
                files[name] = file.read(limits.total_bytes - total_bytes + 1)
            total_bytes += len(files[name])
            if total_bytes > limits.total_bytes:
                raise ConfigError(f"--web-ui {folder} holds more than {limits.total_bytes} bytes", hint=_HINT)
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename or folder}: {error.strerror}", hint=_HINT) from None
    return files


def _visible(folder: Path, limits: Limits) -> Iterator[tuple[Path, str]]:
    for number, path in enumerate(folder.rglob("*"), 1):
        if number > limits.members:
            raise ConfigError(f"--web-ui {folder} holds more than {limits.members} files and folders", hint=_HINT)
        relative = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in relative.parts):
            yield path, relative.as_posix()


def _policy(asset: Asset) -> str:
    """Scripts that stand in a page itself are allowed by their digest, which is that of what was read at the start."""
    if not asset.content_type.startswith("text/html"):
        return _POLICY.format(hashes="")
    scripts = _InlineScripts()
    scripts.feed(asset.body.decode(errors="replace").replace("\r\n", "\n"))  # as an HTML parser does before all else
    scripts.close()
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts.found]
    return _POLICY.format(hashes="".join(f" 'sha256-{digest}'" for digest in digests))


class _InlineScripts(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script" and not any(name == "src" for name, _ in attrs):
            self._inside = True
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.found[-1] += data
