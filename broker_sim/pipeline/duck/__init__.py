"""DuckDB behind the part of PySpark's interface that the pipeline uses: the same tables without a JVM, for logs that fit a machine.

Why not a package that does this: of sqlframe 4.10 (PySpark's interface over DuckDB) `exists`, `timestamp_millis`, `broadcast` and
`mapInArrow` are missing, and it spends 0.3 to 1 s to build one table's query, more than DuckDB needs for all of a small log; DuckDB's
own experimental one lacks fourteen of the functions (`explode`, `filter`, `max_by`, ..). Arrow and pandas have neither windows over
structs nor plans, and would have been a second implementation of each table.

    columns.py     an expression is its SQL text
    functions.py   PySpark's functions as such expressions
    frames.py      a DataFrame is a SELECT over others; nothing is computed before its rows are asked for
    session.py     a database in memory, and how the pipeline's sources get into it
"""

from broker_sim.pipeline.duck import functions
from broker_sim.pipeline.duck.columns import Window

__all__ = ["Window", "functions"]
