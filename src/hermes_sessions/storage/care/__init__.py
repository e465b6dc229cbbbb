"""Maintenance of a store: backups, repair, the doctor, erasure, retention, health."""
