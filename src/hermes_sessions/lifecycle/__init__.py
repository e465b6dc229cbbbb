"""The lifecycle of conversations: which session a message belongs to, and who may run it."""
