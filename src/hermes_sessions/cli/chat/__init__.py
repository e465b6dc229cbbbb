"""``hermes chat``: talking to a model in the terminal."""
