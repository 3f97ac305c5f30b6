"""coturn with the configuration that we ship."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from rtc_server.http.tls import self_signed
from rtc_server.transports.webrtc.turn import Credential, make_credential
from tests.turn.network import SERVER, SERVER_V6, TURN, TURN_V6, Network

FOLDER = Path(__file__).resolve().parents[2] / "turn"
REALM = "example.org"
PORT, TLS_PORT = 3478, 443
UDP, TCP, TLS = f"turn:{TURN}:{PORT}?transport=udp", f"turn:{TURN}:{PORT}?transport=tcp", f"turns:{TURN}:{TLS_PORT}"
START_WITHIN_S = 15.0


def script(name: str) -> ModuleType:
    """``turn/NAME.py`` as a module."""
    spec = importlib.util.spec_from_file_location(f"turn_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


fill, rotate = script("fill"), script("rotate")


def missing() -> str:
    return "" if shutil.which("turnserver") else "no coturn here: apt-get install coturn"


class Coturn:
    """One turnserver on the machine in the middle. Ends by its own process, never by its name."""

    def __init__(self, folder: Path, network: Network, more: Mapping[str, str] | None = None, lines: str = "") -> None:
        """`more`: variables for the template. `lines` are added to what is shipped."""
        self._network = network
        self.database, self.secret_file = folder / "turndb", folder / "secret"
        self.certificate, key = self_signed([TURN], folder / "tls")
        self._log_path = folder / "coturn.log"
        environment = {
            "TURN_REALM": REALM,
            "TURN_MEDIA_IP": f"{SERVER},{SERVER_V6}",
            "TURN_IP": f"{TURN},{TURN_V6}",
            "TURN_TLS_PORT": str(TLS_PORT),
            "TURN_CERT": str(self.certificate),
            "TURN_KEY": str(key),
            "TURN_DB": str(self.database),
            **(more or {}),
        }
        self._config = folder / "turnserver.conf"
        self._config.write_text(fill.fill(environment, fill.TEMPLATE.read_text()) + lines)
        self.rotate("--only-if-missing")

    @property
    def secret(self) -> str:
        return self.secret_file.read_text().strip()

    @property
    def log(self) -> str:
        return self._log_path.read_text(errors="replace")

    def rotate(self, *flags: str) -> int:
        status: int = rotate.main([str(self.database), str(self.secret_file), "--realm", REALM, *flags])
        return status

    def credential(self, user: str = "alice", ttl_s: int = 600, secret: str = "") -> Credential:
        return make_credential(secret or self.secret, user, int(time.time()) + ttl_s)

    def start(self) -> None:
        with self._network.inside("turn"), self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                ["turnserver", "-c", str(self._config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
            deadline = time.monotonic() + START_WITHIN_S
            while not _listens(PORT) or not _listens(TLS_PORT):
                assert self._process.poll() is None, f"coturn ended at its start:\n{self.log}"
                assert time.monotonic() < deadline, f"coturn did not listen within {START_WITHIN_S} s:\n{self.log}"
                time.sleep(0.05)

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection((TURN, port), timeout=1).close()
    except OSError:
        return False
    return True
