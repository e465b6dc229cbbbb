"""Signal: an account of its own, through the daemon of signal-cli."""
