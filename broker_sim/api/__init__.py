"""Python API: a cluster, its handles, its time, the waits. Everything beneath is reached through it."""
