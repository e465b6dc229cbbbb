"""``hermes forget``: erasing what is known of a person, a chat or a session."""
