"""Recover a damaged SQLite file into a new one; see docs/repair.md."""
