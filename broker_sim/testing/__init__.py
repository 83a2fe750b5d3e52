"""The pytest plugin: fixtures, the marks ``kafka`` and ``sim``, and what a test forgot to await."""
