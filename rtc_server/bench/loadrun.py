"""One run of the load client in its process, against one server."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

from rtc_server.bench import affinity, client
from rtc_server.bench.client import ClientSpec
from rtc_server.bench.figures import Figures
from rtc_server.bench.servers import Target, stop
from rtc_server.errors import PeerError

SETUP_ALLOWANCE_S = 60.0
SETUP_ALLOWANCE_PER_CALL_S = 5.0


def run_client(target: Target, spec: ClientSpec) -> Figures:
    """Raises: PeerError when the server cannot be reached, refuses, or does not echo."""
    spec = replace(spec, url=target.url, adapter=target.adapter, server_pid=target.pid)
    allowed_s = spec.seconds * 2 + SETUP_ALLOWANCE_S + SETUP_ALLOWANCE_PER_CALL_S * (spec.calls + spec.connects)
    process = subprocess.Popen(
        [sys.executable, "-m", "rtc_server.bench.client"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        output, _ = process.communicate(client.to_json(spec).encode(), timeout=allowed_s)
    except subprocess.TimeoutExpired:
        raise PeerError(f"the load client was not done after {allowed_s:.0f} s") from None
    finally:
        stop(process)
    try:
        result = json.loads(output)
    except ValueError:
        raise PeerError(f"the load client broke with exit code {process.returncode}") from None
    if "error" in result:
        raise PeerError(result["error"]["message"], hint=result["error"]["hint"])
    pinned = {"server_cpu": target.cpu, "client_cpu": affinity.usable(spec.cpu)}
    figures: Figures = {**result["figures"], **pinned}
    return figures
