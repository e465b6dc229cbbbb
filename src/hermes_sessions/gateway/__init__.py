"""The gateway: an agent on messengers, which stores every message before it confirms it."""
