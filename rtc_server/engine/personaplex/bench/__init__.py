"""What a call of the model costs, beside what it must cost: ``rtc-server bench engine``.

::

    spec        what is to be measured; no torch
    case        a model with random weights at one number of slots and one age -> figures
      machine   device, clock, memory; models for it
      subjects  things whose time is taken: a call of the engine, of a part of it, of a peer in another process
      products  the bare matrix products of a call
      clock     takes the time of several subjects in turn; memory bandwidth
    rounding    errors of int8 against float32
    peer        the reference implementation in another interpreter, which runs `moshi_peer` as a script
    echoing     a model at work behind a server that echoes, for the benchmarks of packets

Two bounds stand beside each time: the products alone, and the bytes that a call must read at the bandwidth of this
machine's memory. All are measured in the same run, by turns, so that whatever else the machine does meets all alike.
"""
