"""The world of the coordinator: it performs what the pure core decides - appends, timers, replies - and carries nothing else."""
