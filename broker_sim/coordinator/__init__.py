"""The group coordinator: a pure function of its events. ``outcome`` opens with the rules."""
