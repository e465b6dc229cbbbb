"""Erasing what a store knows of a person, a chat or a session, with a receipt."""
