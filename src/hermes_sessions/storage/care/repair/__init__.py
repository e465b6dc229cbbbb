"""Saving what can be read of a damaged SQLite file into a new one; see docs/repair.md."""
