"""WhatsApp: a business number on Meta's Cloud API, talked to in private and in groups."""
