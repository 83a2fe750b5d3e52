"""Fields with their kinds of values, read under one rule wherever a value comes from, and all errors reported together."""
