"""Slack: an app that is talked to in private, in channels and in threads."""
