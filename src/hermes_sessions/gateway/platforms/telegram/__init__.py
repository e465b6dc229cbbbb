"""Telegram: bots that are talked to in private, in groups and in topics."""
