"""Does the server in this container live? Ends with 0 or 1. Needs nothing but Python."""

from __future__ import annotations

import os
import ssl
import sys
import urllib.request

TIMEOUT_S = 4.0


def address(environment: os._Environ[str] | dict[str, str]) -> str:
    secure = environment.get("RTC_TLS", "off") != "off" or "RTC_TLS_CERT" in environment
    return f"{'https' if secure else 'http'}://127.0.0.1:{environment.get('RTC_PORT', '8124')}/livez"


def main() -> int:
    # The certificate is for the outside's name; this only asks whether somebody answers.
    anyone = ssl.create_default_context()
    anyone.check_hostname = False
    anyone.verify_mode = ssl.CERT_NONE
    try:
        with urllib.request.urlopen(address(os.environ), timeout=TIMEOUT_S, context=anyone) as response:
            return int(response.status != 200)
    except OSError as error:
        print(f"healthcheck: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
