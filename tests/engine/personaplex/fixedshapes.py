"""The same arithmetic whoever else is there, so that tokens can be compared bit for bit on any processor.

A row's result does not depend on the other rows, but its last bits depend on the shapes of the products: on the size of
the batch, the keys that are read, the length of a prefill's chunk. With weights that nobody trained two codes are often
equally good, and then these bits decide. The engine is otherwise as it is.
"""

from __future__ import annotations

from rtc_server.engine.personaplex.stepper import PersonaPlexStepper
from rtc_server.engine.personaplex.tick import Extent, Tick


class WholeBatch:
    """All rows and all keys in every call, as one captured graph of the largest shape would."""

    def __init__(self, tick: Tick) -> None:
        self._tick = tick

    def run(self, extent: Extent) -> None:
        self._tick.body(Extent(self._tick.rows, self._tick.lm.kv.capacity))


def fix_shapes(stepper: PersonaPlexStepper) -> PersonaPlexStepper:
    stepper._runner = WholeBatch(stepper._tick)
    stepper._prefills.pace.fitting = lambda budget_s, most: most  # type: ignore[method-assign]
    return stepper
