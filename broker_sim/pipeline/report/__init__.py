"""One HTML page that shows the tables as pictures."""
