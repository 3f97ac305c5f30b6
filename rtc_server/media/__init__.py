"""Samples and packets: numpy, libopus, FFmpeg. No asyncio, no sockets, no session; clocks are passed in as `now`."""
