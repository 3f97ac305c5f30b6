"""The load generator and the benchmarks: what the figures in the README come from.

Three processes, so that none disturbs what it measures:

- the benchmark (`latency`, `calls`) starts the others, pins them to cores and prints;
- the server under test: an echo server of ours (`servers`), a stock peer (`peers`) or whatever answers at a URL;
- the load client (`client`): many light WebRTC calls that share audio encoded once, and stamp arrivals in the kernel.

`engine` is apart: it measures the model alone, in this process, without server, network and sound.

`signals` and `analysis` are sans-IO. Times are seconds of ``time.monotonic()``; what is played is 24 kHz mono.
"""
