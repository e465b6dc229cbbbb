"""Ids that one person has several of: on WhatsApp, a phone number and an opaque one, in many forms.

Which of a person's ids stands in a key is decided once and stored; see
`storage/repositories/identities.py`. What is here is only how an id is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

#: Platforms on which the ids of one person take several forms.
WITH_ALIASES: Final = frozenset({"whatsapp"})


class Canonical(Protocol):
    """How to choose the id that stands for a person: `Identities.canonical`, or `first_alias`."""

    def __call__(self, platform: str, aliases: Sequence[str]) -> str:
        """Return the one id for all *aliases*, of which there is at least one."""


def normalise_whatsapp(identifier: object) -> str:
    """Return the id without plus sign, device and domain, or the empty text.

    >>> normalise_whatsapp("+60123456789"), normalise_whatsapp("60123456789:47@s.whatsapp.net")
    ('60123456789', '60123456789')
    """
    text = str(identifier).strip().removeprefix("+") if identifier is not None else ""
    return text.partition(":")[0].partition("@")[0].strip()


def normalise_identifier(platform: str, identifier: str) -> str:
    """Return an id as its aliases are compared. Never empty unless the id is: one that consists of
    nothing else than what is cut off stays as it is.
    """
    if platform in WITH_ALIASES:
        return normalise_whatsapp(identifier) or identifier
    return identifier


def first_alias(platform: str, aliases: Sequence[str]) -> str:
    """Return the first of the ids, normalised: the choice where nothing is stored."""
    return normalise_identifier(platform, aliases[0])
