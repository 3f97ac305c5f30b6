"""A model hub on the loopback: the few endpoints that its client library asks, and the ways in which they fail."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GOOD_TOKEN = "hf_good"


@dataclass
class Repository:
    """Large files (``*.safetensors``) are known by their SHA-256, as on a real hub."""

    files: Mapping[str, bytes]
    gated: bool = False
    status: int = 200
    """Of every answer, for one that has failed."""
    cut_after_bytes: int | None = None
    """The first answer for each file ends here, and the connection with it."""
    damaged: bool = False
    """Other bytes than promised."""
    claimed_bytes: int | None = None
    """Size that large files are said to have."""
    requests: list[str] = field(default_factory=list)
    cut: set[str] = field(default_factory=set)

    def etag(self, name: str) -> str:
        return (hashlib.sha256 if _is_large(name) else hashlib.sha1)(self.files[name]).hexdigest()

    def size(self, name: str) -> int:
        return self.claimed_bytes if self.claimed_bytes and _is_large(name) else len(self.files[name])


@dataclass
class Refusal(Exception):
    status: int
    code: str = ""
    message: str = ""


@contextmanager
def fake_hub(repositories: Mapping[str, Repository]) -> Iterator[str]:
    """Its address, for HF_ENDPOINT."""

    class Handler(_Handler):
        pass

    Handler.repositories = repositories
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, name="fake-hub", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    repositories: Mapping[str, Repository] = {}

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_HEAD(self) -> None:  # noqa: N802
        self._answer()

    def do_GET(self) -> None:  # noqa: N802
        self._answer()

    def _answer(self) -> None:
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        try:
            if parts[:2] == ["api", "models"]:
                self._api("/".join(parts[2:4]), parts[4:])
            else:
                self._file("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        except Refusal as refusal:
            self.send_response(refusal.status)
            if refusal.code:
                self.send_header("X-Error-Code", refusal.code)
            self.send_header("X-Error-Message", refusal.message)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _repository(self, name: str, revision: str) -> Repository:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token == "hf_expired":
            raise Refusal(401, message="Invalid credentials in Authorization header")
        repository = self.repositories.get(name)
        if repository is None:
            raise Refusal(401 if not token else 404, "RepoNotFound", "Repository not found")
        repository.requests.append(f"{self.command} {self.path} {self.headers.get('Range', '')}".strip())
        if repository.status != 200:
            raise Refusal(repository.status)
        if revision not in ("main", COMMIT):
            raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return repository

    def _api(self, name: str, rest: list[str]) -> None:
        """What a repository is, and what it holds: told for gated ones too."""
        kind, revision = (*rest, "main", "main")[:2] if rest else ("revision", "main")
        repository = self._repository(name, revision)
        if kind == "tree":
            self._json([_entry(repository, file) for file in repository.files])
        else:
            siblings = [{"rfilename": file} for file in repository.files]
            self._json({"id": name, "sha": COMMIT, "private": False, "gated": repository.gated, "siblings": siblings})

    def _json(self, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _file(self, name: str, revision: str, file: str) -> None:
        repository = self._repository(name, revision)
        if repository.gated and self.headers.get("Authorization") != f"Bearer {GOOD_TOKEN}":
            raise Refusal(
                403 if "Authorization" in self.headers else 401, "GatedRepo", f"Access to {name} is restricted"
            )
        if file not in repository.files:
            raise Refusal(404, "EntryNotFound", "Entry not found")
        data = repository.files[file]
        if repository.damaged and _is_large(file):
            data = bytes(len(data))
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
        self.send_response(206 if start else 200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{repository.etag(file)}"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(repository.size(file) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if self.command == "HEAD":
            return
        stop = len(data)
        if repository.cut_after_bytes is not None and file not in repository.cut and stop > repository.cut_after_bytes:
            repository.cut.add(file)
            stop = repository.cut_after_bytes
            self.close_connection = True
        self.wfile.write(data[start:stop])


def _entry(repository: Repository, file: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "path": file, "size": repository.size(file), "oid": "1" * 40}
    if _is_large(file):
        entry["lfs"] = {"oid": repository.etag(file), "size": repository.size(file), "pointerSize": 130}
    return entry


def _is_large(name: str) -> bool:
    return name.endswith(".safetensors")
