"""Many runs.

One is a ``trial``; a ``sweep`` has many, on several processes or ``on_spark``; what fails is made small (``shrink``), ``coverage`` says
what was reached. ``seeds``: one test of a user with many seeds.
"""
