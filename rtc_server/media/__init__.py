"""Samples and packets: numpy and libopus. No asyncio, no sockets, no session; clocks are passed in as `now`."""
