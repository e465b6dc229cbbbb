"""Recovery of rows from a damaged file; see `hermes_sessions.storage.care.repair`."""
