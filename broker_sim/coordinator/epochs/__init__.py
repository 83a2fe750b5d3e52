"""The common parts of epoch-based groups: KIP-848's consumer groups, share groups and streams groups.

Such a group has a *group epoch*, which is incremented when its topics or members change; a *target epoch*, that of the last computed
assignment; and each member an epoch of its own, which follows the target epoch when the member has revoked what it must. All of it is
stored in the log, record by record, and members learn of it from the responses to their heartbeats.
"""
