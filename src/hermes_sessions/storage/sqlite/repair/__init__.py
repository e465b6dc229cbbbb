"""What can still be read of a damaged file; see `hermes_sessions.storage.care.repair`."""
