"""What the world of a run is made of: virtual time, a network and disks in memory, and what else has to be pinned. No broker in it.

``loop``; ``network`` and ``transport``; ``disk`` and ``disk_model``; ``process``; ``ambient`` and ``hashseed`` (clocks, randomness, the
order of sets); ``watchdog`` (code that does not come back); ``recording`` (whether a run is the same again).
"""
