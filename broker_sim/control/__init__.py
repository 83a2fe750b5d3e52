"""One vocabulary of operations on a running cluster, and the ways to it from outside: HTTP and the command line."""
