"""``rtc-server token turn``: a name and a password for the TURN server, ready to paste."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime

from rtc_server.config import Settings
from rtc_server.http.iceservers import ice_servers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--user", metavar="NAME", default="operator", help="whose quota it counts for (default operator)"
    )
    parser.add_argument(
        "--ttl-s", dest="turn_ttl_s", type=int, metavar="S", help="how long it is good (default: turn_ttl_s, 3600)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run_arguments(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the credential. Raises: ConfigError where there is no secret, or no name like that."""
    servers = ice_servers(settings.turn)
    credential = servers.credential(arguments.user)
    entries = [server.to_json() for server in servers.servers_with(credential)]
    if arguments.json:
        token = {
            "username": credential.username,
            "credential": credential.password,
            "expires_at_s": credential.expires_at_s,
            "ice_servers": entries,
        }
        print(json.dumps(token))
        return 0
    expiry = datetime.fromtimestamp(credential.expires_at_s, UTC)
    print(f"username    {credential.username}")
    print(f"credential  {credential.password}")
    print(f"expires     {expiry:%Y-%m-%d %H:%M:%S} UTC")
    if entries:
        print(f"\nnew RTCPeerConnection({{\n  iceServers: {_indented(entries)},\n}});")
    return 0


def _indented(entries: object) -> str:
    return json.dumps(entries, indent=2).replace("\n", "\n  ")
