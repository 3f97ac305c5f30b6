"""What the demo agent can do. A skill is a pure function ``(Said, Memory, now) -> Reply | None``; None: not mine.

========== =====================================================================
manners    greeting, how are you, thanks, goodbye, stop, what it cannot do
names      remembers the user's name, tells its own
clock      time, date
timers     sets timers, cancels them, tells what is left
sums       plus, minus, times, divided, in words or digits
tales      stories long enough to interrupt, jokes
echoing    repeat after me, count to a number
========== =====================================================================
"""
