"""Share groups (KIP-932): members share partitions, whose leaders hand out records one by one and hear what became of each.

The group's part is membership, on the epoch core (``epochs``), and that a partition's state is made by the share coordinator
(``share_state``) before anybody is given the partition. What becomes of records is none of it.
"""
