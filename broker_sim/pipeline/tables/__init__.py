"""The tables: each module one pure function from DataFrames to a DataFrame, and the columns it promises."""
