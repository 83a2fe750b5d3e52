"""Names of invariants until 0.1, and what they are called now: ``waive=`` takes the former ones for one release, with a warning."""

from __future__ import annotations

FORMER = {
    "a commit shows when it is committed": "uncommitted offsets are not visible",
    "a committed offset is given once": "offsets below the high watermark are never written again",
    "a dynamic member is given its id first (KIP-394)": "a dynamic member joins with an assigned member id (KIP-394)",
    "a group belongs to the partition of its hash": "a group is stored in the offsets partition of its hash",
    "a high watermark only grows": "the high watermark never decreases",
    "a loaded coordinator has what its log says": "a loaded coordinator matches its log",
    "a member gets what its leader gave it": "a member receives its leader's assignment",
    "a rebalance begins a generation": "a rebalance begins a new generation",
    "a rebalance ends when all are in": "the join phase ends when all members have joined",
    "an acked commit is never lost nor regressed": "acknowledged commits are never lost or regressed",
    "answers follow the rules": "responses follow the coordinator's rules",
    "commits of strangers are refused": "commits of non-members are refused",
    "generations only grow": "generations never decrease",
    "groups take the steps that there are": "group state transitions are legal",
    "older generations are refused": "requests of older generations are refused",
    "one coordinator per group": "a group has one coordinator",
    "one owner of a partition": "a partition has one owner",
    "parked requests are answered": "deferred requests are answered",
    "silent members expire": "members expire after their session timeout",
    "the gone are unknown": "removed members get UNKNOWN_MEMBER_ID",
    "the leader alone is told the members": "only the leader gets the member list",
    "the living stay": "live members are not evicted",
    "the log has what the coordinator has": "the log matches the coordinator's state",
    "what was acknowledged outlives its process": "acknowledged records survive a crash",
    "who owes a SyncGroup goes": "members without a SyncGroup are removed",
}
