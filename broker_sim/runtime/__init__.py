"""The runtime of the coordinators: it executes what the pure core decides (appends, timers, replies)."""
