"""One frame of the user's voice in, one frame of the agent's voice and words out, 12.5 times a second.

=============== ======================================================================================
stepper         the contract of device code: ``FrameStepper``, synchronous, one thread. Pure
client          the contract of everybody else: ``EngineClient``, leases, one exchange a tick
loop            ``EngineLoop``: the tick and its clock, and the only owner of a stepper
slots           rows of the batch, and the leases on them
edges           when to tick: absolute edges, every 80 ms
tick            what goes into one tick and comes out of it
spare           who may prefill in a tick's spare time, and for how long
local           ``LocalEngine``: an ``EngineLoop`` on a thread of its own, seen as an ``EngineClient``
remote          ``RemoteEngine``: the same in a process of its own, which is started again when it dies
process/        that process, and the socket to it
registry        a name, ``module:Class`` or entry point -> a stepper
conformance     the laws of the contract, to be checked against any stepper
echo            the simplest engine: what it hears it says
cascade/        the embedded demo agent on CPU
=============== ======================================================================================
"""
