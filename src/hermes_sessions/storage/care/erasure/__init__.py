"""Erase all data of a user, a chat or a session from a store, with a receipt."""
