"""Models: the port, and the clients behind it."""
