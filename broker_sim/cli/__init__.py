"""The command line: each package keeps its own verbs in a ``commands`` module, and `main` puts them together."""
