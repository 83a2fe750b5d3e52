"""What groups by epochs have in common, whatever they share out: KIP-848's consumer groups first, share and streams groups after them.

Such a group has a *group epoch*, which moves when what it has to share out, or among whom, has changed; a *target epoch*, that of the
last assignment that was computed; and each member an epoch of its own, which follows the target when the member has given up what it
is to give up. All of it stands in the log, record by record, and what a member is told is told in the answers of its heartbeats.
"""
