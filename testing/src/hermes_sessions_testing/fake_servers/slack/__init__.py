"""A fake Slack: Web API, Socket Mode and Events API; `server.SlackServer` is the entry."""
