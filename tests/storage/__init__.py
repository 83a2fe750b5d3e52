"""Partition logs: on disk and in memory, what survives what, and what Kafka's own tools say of the files."""
