"""Copies sessions between databases: resumable, and verified by checksums."""
