"""The share coordinator: the delivery state of share groups' records, stored in ``__share_group_state`` (KIP-932).

It serves two kinds of clients: the group coordinator initializes, summarizes and deletes states (InitializeShareGroupState,
ReadShareGroupStateSummary, DeleteShareGroupState); a partition's leader reads a state when it loads the share partition, and writes its
changes (ReadShareGroupState, WriteShareGroupState).
"""
