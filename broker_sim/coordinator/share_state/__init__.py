"""The share coordinator: what share groups have made of partitions' records, kept in ``__share_group_state`` (KIP-932).

Two ask it: the group coordinator has state made, summed up and removed (InitializeShareGroupState, ReadShareGroupStateSummary,
DeleteShareGroupState); a partition's leader reads what there is when it begins, and writes down what becomes of records
(ReadShareGroupState, WriteShareGroupState).
"""
