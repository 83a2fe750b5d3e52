"""Brokers, topics, partitions and their leaders, and how all of it is kept in a data directory. No time, no event loop."""
