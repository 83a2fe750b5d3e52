"""Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and the generations that come of them (GroupCoordinator.scala in 3.x,
ClassicGroup.java in 4.x)."""
