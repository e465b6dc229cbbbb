"""Test tools for Hermes Sessions: conformance kits, fake servers, a scripted model, a clock.

- `conformance`: the tests that every database provider must pass.
- `platforms`: the tests that every messenger adapter must pass.
- `fake_servers`: Discord, Signal, Slack, Telegram and WhatsApp on local sockets.
- `scripted_model`: an OpenAI-compatible endpoint that answers what a test tells it to.
- `clock`: a clock that moves only when a test moves it.
"""
