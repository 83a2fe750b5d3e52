"""Waiting for something to become true, with a deadline and a reason."""
