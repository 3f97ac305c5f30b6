"""Servers of other makes, to be measured in the same run."""
