"""``python -m rtc_server`` is ``rtc-server``."""

from rtc_server.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
