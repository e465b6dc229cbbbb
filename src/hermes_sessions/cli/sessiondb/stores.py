"""Opening the stores that commands name, for the length of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hermes_sessions.storage.provider import SessionDBProvider, Wishes
from hermes_sessions.storage.provider_registry import open_provider, open_url


@contextmanager
def opened(place: str | None, *, read_only: bool) -> Iterator[SessionDBProvider]:
    """Lend the store at a path or URL, or the configured one.

    Raises:
        InvalidInput, ConfigError, StoreError: one line that says what to do.
    """
    wishes = Wishes(read_only=read_only)
    if place is not None and "://" in place:
        provider = open_url(place, wishes)
    else:
        provider = open_provider(place, wishes).provider
    try:
        yield provider
    finally:
        provider.close()
