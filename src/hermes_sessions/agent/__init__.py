"""The conversation loop that the command line and the gateway share."""
