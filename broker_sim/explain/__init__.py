"""What happened to a group, in words and as a picture: pure functions over the journal's events."""
