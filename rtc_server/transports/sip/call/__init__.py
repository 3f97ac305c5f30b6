"""Phone calls, from the INVITE to the BYE."""
