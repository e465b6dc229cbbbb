"""``hermes gateway``: an agent on messengers."""
