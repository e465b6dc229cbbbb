"""The ``hermes backup`` commands."""
