"""Virtual world of a run: virtual time, a network and disks in memory, and all that has to be pinned besides. No broker is in it.

``loop``; ``network`` and ``transport``; ``disk`` and ``disk_model``; ``process``; ``ambient`` and ``hashseed`` (clocks, randomness, the
order of sets); ``watchdog`` (code that does not come back); ``recording`` (whether a run is the same again).
"""
