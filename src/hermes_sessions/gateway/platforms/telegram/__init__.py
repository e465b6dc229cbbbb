"""Telegram: a bot in private chats, groups and topics."""
