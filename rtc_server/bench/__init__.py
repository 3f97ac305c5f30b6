"""The load generator and the benchmarks: what the figures in the README come from.

Three processes, so that none disturbs what it measures:

- the benchmark (`latency`, `calls`) starts the others, pins them to cores and prints;
- the server under test: an echo server of ours (`servers`), a stock peer (`peers`) or whatever answers at a URL;
- the load client (`client`): many light calls that share audio encoded once, and stamp arrivals in the kernel; over
  WebRTC (`call`, `webrtcline`) or as phones do (`sipcall`, `sipline`).

`loss` and `roam` start a server of ours and make their calls in this process, through the `relay`, a UDP relay with a
bad network for each client. What the engine of `loss` was given it keeps itself (`listener`), to be compared with what
was said (`alignment`, `quality`, `words`); with ``--virtual`` the same calls run in virtual time (`virtualcalls`).

`engine` is apart: it measures the model alone, in this process, without server, network and sound.

Sans-IO: `signals`, `analysis`, `figures`; `impairment`, `stream`, `alignment`, `quality`, `heardspeech`, `lossfigures`.
Times are seconds of ``time.monotonic()``; what is played is 24 kHz mono.
"""
