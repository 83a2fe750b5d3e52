"""The report of a failed run: the records in question and their owners, the state of the world, and where similar runs diverge."""
