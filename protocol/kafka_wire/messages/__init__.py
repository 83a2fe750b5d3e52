"""One module per API (``kNN_name.py``): the fields of each dataclass carry their versions and are the schema."""
