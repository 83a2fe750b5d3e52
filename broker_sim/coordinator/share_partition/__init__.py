"""A share group's view of a partition, at the partition's leader (KIP-932): which records are acquired, by whom, and until when.

`SharePartition` is a pure function of its inputs: records that were read, acknowledgements, the time, the share coordinator's answers.
``sessions`` are the share sessions of its members' requests.
"""
