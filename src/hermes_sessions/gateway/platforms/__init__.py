"""One folder for each messenger: adapter, mapping, formatting."""
