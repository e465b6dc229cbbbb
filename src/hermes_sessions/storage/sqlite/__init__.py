"""SQLite: the default database, one file, no server."""
