"""The lifecycle of conversations: which session a message belongs to, and which process runs it."""
