"""Names that stand for ids of people and chats where the ids themselves are kept from the model.

The same id always has the same pseudonym, so that an agent can tell people apart. It is a short
digest: not readable, but whoever has a list of ids can find out which of them it is.
"""

from __future__ import annotations

import hashlib

from hermes_sessions.model.source import Platform


def pseudonym(identifier: str) -> str:
    """Return the digest of an id.

    >>> pseudonym("12345")
    '5994471abb01'
    """
    return hashlib.sha256(identifier.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def user_pseudonym(identifier: str) -> str:
    """Return what stands for a person: ``user_`` and the digest."""
    return f"user_{pseudonym(identifier)}"


def chat_pseudonym(identifier: str) -> str:
    """Return what stands for a chat: the digest, after the platform if the id begins with one.

    >>> chat_pseudonym("12345"), chat_pseudonym("telegram:12345")
    ('5994471abb01', 'telegram:5994471abb01')
    """
    platform, colon, rest = identifier.partition(":")
    # Anything else before a colon may be the id itself, like the room in a Matrix id.
    if colon and rest and platform in Platform.known():
        return f"{platform}:{pseudonym(rest)}"
    return pseudonym(identifier)
