"""An agent on messengers: what was received is stored before it is confirmed."""
