"""The journal: what happened, one event after the other."""
