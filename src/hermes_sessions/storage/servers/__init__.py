"""Shared parts of all server databases: units of work, connections, migrations."""
