"""List prices and context lengths of known models, without network access.

The data is in ``catalogue.json``, made by ``scripts/model_catalogue.py``. Providers are found by
their URL and models by name, because one model has different prices at different providers. The
file is read on first use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from hermes_sessions.model.price import Price

_COMPACT_DATE: Final = re.compile(r"-(20\d\d)(\d\d)(\d\d)$")


class KnownProvider:
    """One provider of the catalogue."""

    def __init__(self, name: str, facts: dict[str, Any]) -> None:
        self.name = name
        self._address = re.compile(facts["address"])
        self._like: list[str] = facts["like"]
        self._models: list[tuple[list[str], list[list[Any]], int | None]] = facts["models"]

    def serves(self, address: str) -> bool:
        """Tell whether this provider serves a URL, given in lower case."""
        return self._address.match(address) is not None

    def price(self, model: str, input_tokens: int) -> Price | None:
        """Return the price of a model for a prompt of this length; None if unknown."""
        found = self._find(model.strip().lower())
        return _row_for(found[0], input_tokens) if found else None

    def context_length(self, model: str) -> int | None:
        """Return the context length of a model in tokens; None if unknown."""
        found = self._find(model.strip().lower())
        return found[1] if found else None

    def _find(self, name: str) -> tuple[list[list[Any]], int | None] | None:
        # Some gateways write 20250807 where the provider writes 2025-08-07.
        for written in dict.fromkeys((name, _COMPACT_DATE.sub(r"-\1-\2-\3", name))):
            for names, rows, context in self._models:
                if _matches(names, written):
                    return rows, context
        for other in self._like:
            found = _providers()[other]._find(name) if other in _providers() else None
            if found is not None:
                return found
        return None


def provider_at(base_url: str) -> KnownProvider | None:
    """Return the provider that serves a URL; None if the catalogue has none."""
    address = base_url.strip().lower()
    return next((each for each in _providers().values() if each.serves(address)), None)


def catalogue_version() -> str:
    """Return the version of the catalogue, which contains its date."""
    version: str = _catalogue()["version"]
    return version


def _matches(names: Iterable[str], name: str) -> bool:
    for known in names:
        if known.startswith("/"):
            if re.search(known[1:-1], name):
                return True
        elif name.startswith(known[:-1]) if known.endswith("*") else name == known:
            return True
    return False


def _row_for(rows: Sequence[Sequence[Any]], input_tokens: int) -> Price:
    """Return the prices of the last row whose threshold the prompt exceeds."""
    row = [rows[0], *(row for row in rows[1:] if input_tokens > row[0])][-1]
    return Price(*row[1:])


@cache
def _catalogue() -> dict[str, Any]:
    text = files("hermes_sessions.agent").joinpath("catalogue.json").read_text(encoding="utf-8")
    catalogue: dict[str, Any] = json.loads(text)
    return catalogue


@cache
def _providers() -> dict[str, KnownProvider]:
    return {name: KnownProvider(name, facts) for name, facts in _catalogue()["providers"].items()}
