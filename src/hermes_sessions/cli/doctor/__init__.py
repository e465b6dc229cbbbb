"""``hermes doctor`` and ``hermes status``: how the store is, and what to do about it."""
