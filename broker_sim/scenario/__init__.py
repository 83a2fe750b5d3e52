"""Failure stories as files: what a cluster goes through, and what must come of it."""
