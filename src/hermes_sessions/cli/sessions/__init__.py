"""The ``hermes sessions`` commands, one file per subject."""
