"""Mutation score of a general sweep: the share of mutants of the brokers' rules, made by a program, that the sweep finds.

    make mutants ARGS='--count 60 --budget 60 --seed 1'

``mutants`` makes them, ``loading`` swaps one in, ``score`` lets the sweep look for it. It needs the sources and forks, so it is among
the tests; what it measures is the sweep, not a test's assertion.
"""
