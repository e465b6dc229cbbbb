"""The command line: ``hermes`` and ``hermes-sessions``."""
