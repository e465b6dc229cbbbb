"""What every server database has in common: units of work, connections, steps of the schema."""
