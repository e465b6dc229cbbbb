"""A fake Telegram Bot API; `server.TelegramServer` is the entry."""
