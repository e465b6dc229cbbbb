"""The tools of an agent: the registry, and the built-in ones."""
