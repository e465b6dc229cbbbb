"""``hermes sessiondb``: the database itself."""
