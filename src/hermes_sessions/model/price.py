"""What a model costs, in US dollars per million tokens, as people write it in the configuration."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from hermes_sessions.errors import InvalidInput

#: How a price is written.
PRICE_FORM: Final = "a price like `0.15 in, 0.60 out, 0.075 cached`"
_PART: Final = r"\$?([0-9]{1,9}(?:\.[0-9]{1,9})?)\s+(in|out|cached|written)"


class Price(NamedTuple):
    """US dollars per million tokens; what is None costs as much as other input."""

    input: float
    output: float
    #: Input that the provider had in its cache.
    cached: float | None = None
    #: Input that it put there.
    written: float | None = None


def read_price(text: str) -> Price:
    """Return the price that ``0.15 in, 0.60 out, 0.075 cached`` stands for.

    Raises:
        InvalidInput: it is none; both directions are needed, each word once.
    """
    amounts: dict[str, float] = {}
    for part in text.split(","):
        found = re.fullmatch(_PART, part.strip().lower())
        if found is None or found[2] in amounts:
            raise InvalidInput(f"{text!r} is no price. Write {PRICE_FORM}.")
        amounts[found[2]] = float(found[1])
    if not {"in", "out"} <= amounts.keys():
        raise InvalidInput(f"{text!r} lacks a price. Write {PRICE_FORM}.")
    return Price(amounts["in"], amounts["out"], amounts.get("cached"), amounts.get("written"))


def format_price(price: Price) -> str:
    """Return a price as `read_price` reads it."""
    words = zip(price, ("in", "out", "cached", "written"), strict=True)
    return ", ".join(f"{amount:g} {word}" for amount, word in words if amount is not None)
