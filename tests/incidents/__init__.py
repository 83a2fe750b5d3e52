"""Labelled incidents: real brokers and real clients to whom something known is done, and how much of it the pipeline tells.

    make incidents ARGS='make --out DIR --version 4.1.0 --seed 7'       # brokers and clients, some minutes
    make incidents ARGS='score DIR/*'                                   # the pipeline on each, and the table

Rooms: `stage` has the cluster, its groups and the clock; `member` is one consumer's process; `kinds/` has what is done to
groups, a function for each kind; `plays` says which kinds happen side by side; `ledger` is the truth that an incident's folder
holds; `score` compares findings with it; `recorded/` keeps a few folders for tests without brokers.

Rules:
1. The ledger says what was done, never what the pipeline says of it. It is written from what the player did and saw.
2. Names tell nothing: groups, topics and clients are drawn, whatever is done to them.
3. All that is drawn (kinds, their order, clients, times, settings) comes from the seed; the rest is real time and differs.
4. A folder is truth only where nothing else happened: a kind that failed, or a session that ran out by itself, is said (`audit`).
"""
