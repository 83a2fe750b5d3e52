"""Groups from the outside: what a description of them says becomes records of the offsets log."""
