"""The output of commands, as pure functions without I/O; the current time is an argument."""
