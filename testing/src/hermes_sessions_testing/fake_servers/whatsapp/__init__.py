"""A fake WhatsApp Cloud API; `server.WhatsAppServer` is the entry."""
