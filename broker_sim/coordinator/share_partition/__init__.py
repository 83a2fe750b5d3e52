"""A partition as a share group has it, at the partition's leader (KIP-932): which records are in whose hands, and for how long.

`SharePartition` is a pure function of what it is told: what was read of the log, who acknowledges, what time it is, what the share
coordinator says. ``sessions`` are what its members' requests stand in.
"""
