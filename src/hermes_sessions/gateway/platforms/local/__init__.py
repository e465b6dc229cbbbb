"""Terminals and programs of the same user on the same machine, by a socket in the home."""
