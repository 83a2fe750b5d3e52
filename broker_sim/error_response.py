"""A request's answer that says an error wherever its API can say one."""
