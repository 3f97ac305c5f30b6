"""One frame of the user's voice in, one frame of the agent's voice and words out, 12.5 times a second.

========== ===========================================================================================
stepper    the contract of device code: ``FrameStepper``, synchronous, one thread. Pure
client     the contract of everybody else: ``EngineClient``, leases, one exchange a tick
loop       ``EngineLoop``: slots, prefill in a tick's spare time, the tick and its clock
local      ``LocalEngine``: an ``EngineLoop`` on a thread of its own, seen as an ``EngineClient``
registry   a name, ``module:Class`` or entry point -> a stepper
echo       the simplest engine: what it hears it says
cascade/   the embedded demo agent on CPU
========== ===========================================================================================
"""
