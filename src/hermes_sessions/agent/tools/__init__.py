"""Tools an agent may call: the registry, and those that come with it."""
