"""From a log directory to a test: a group's incident as a scenario file that reproduces it, and their similarity.

    evidence.py            a directory's tables and findings, in memory, up to a moment
    group_timeline.py      what the log shows of one group: its members over time, their commits, its offsets
    incident.py            which finding it is about, and the causes that such a finding can have in a scenario
    generated_scenario.py  the scenario file, the offsets it begins with, and the pytest file
    similarity.py          the real group's events compared with the simulated one's
    page.py                both on a page
    commands.py            ``broker-sim reproduce``

Rules:
1. What is written comes out of the tables; what the log doesn't show is said on the page, and never made up silently.
2. Both logs, the real one and that of the simulated run, are read by the same code: the same tables, the same findings.
3. Reproduced is what the findings say of the simulated log again: the same kind, of the same group.
"""
