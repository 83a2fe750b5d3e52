"""Share groups (KIP-932): members share partitions, whose leaders deliver records one by one and process their acknowledgements.

The group coordinator has the membership, on the epoch core (``epochs``), and has the share coordinator (``share_state``) initialize a
partition's state before it is assigned. It has no part in the delivery of records.
"""
