"""A fake signal-cli daemon; `daemon.SignalDaemon` is the entry."""
