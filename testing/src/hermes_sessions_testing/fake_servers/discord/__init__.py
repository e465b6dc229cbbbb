"""A fake Discord: REST API and gateway; `server.DiscordServer` is the entry."""
