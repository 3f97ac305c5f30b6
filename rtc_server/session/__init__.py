"""One conversation: a leg on one side, a leased slot of the engine on the other. Knows no transport."""
