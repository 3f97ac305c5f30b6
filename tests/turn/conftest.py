"""A network with a coturn in it, and a media server behind it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.server import ServerProcess, watched
from tests.turn import coturn as shipped
from tests.turn import network as networks
from tests.turn.coturn import TCP, TLS, UDP, Coturn
from tests.turn.network import SERVER, Network

StartCoturn = Callable[..., Coturn]
Serve = Callable[..., Awaitable[ServerProcess]]


@pytest.fixture
def network() -> Iterator[Network]:
    """The test itself is on the caller's machine."""
    if reason := networks.missing():
        pytest.skip(reason)
    network = Network()
    try:
        network.open()
        with network.inside("caller"):
            yield network
    finally:
        network.close()


@pytest.fixture
def start_coturn(network: Network, tmp_path: Path) -> Iterator[StartCoturn]:
    """``start_coturn({"TURN_USER_QUOTA": "1"})``: the shipped coturn, with other values for its template."""
    if reason := shipped.missing():
        pytest.skip(reason)
    with contextlib.ExitStack() as stack:

        def start(more: dict[str, str] | None = None, lines: str = "") -> Coturn:
            coturn = Coturn(tmp_path, network, more, lines)
            coturn.start()
            stack.callback(coturn.stop)
            return coturn

        yield start


@pytest.fixture
def coturn(start_coturn: StartCoturn) -> Coturn:
    return start_coturn()


@pytest_asyncio.fixture
async def serve(network: Network, tmp_path: Path) -> AsyncIterator[Serve]:
    """``await serve(coturn)``: the echo engine on the media server's machine, which hands out coturn's addresses."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(coturn: Coturn | None, *urls: str, flags: tuple[str, ...] = ()) -> ServerProcess:
            asked = ["--host", SERVER, "--advertise-ip", SERVER, "--resume-s", "1", *flags]
            if coturn is not None:
                asked += ["--turn-secret-file", str(coturn.secret_file)]
                urls = urls or (UDP, TCP, TLS)
            for url in urls:
                asked += ["--turn-urls", url]
            with network.inside("server"):
                server = ServerProcess(tmp_path / "server.log", "echo", 2, *asked)
            server.url = f"http://{SERVER}:{server.port}"
            return await stack.enter_async_context(watched(server))

        yield start
