"""Model prices in US dollars per million tokens, as written in the configuration."""

import re
from typing import Final, NamedTuple

from hermes_sessions.errors import InvalidInput

#: The accepted form, for error messages.
PRICE_FORM: Final = "a price like `0.15 in, 0.60 out, 0.075 cached`"
_PART: Final = r"\$?([0-9]{1,9}(?:\.[0-9]{1,9})?)\s+(in|out|cached|written)"


class Price(NamedTuple):
    """US dollars per million tokens; where a field is None, the input price applies."""

    input: float
    output: float
    #: Input read from the provider's cache.
    cached: float | None = None
    #: Input written to the provider's cache.
    written: float | None = None


def read_price(text: str) -> Price:
    """Return the price that a text such as ``0.15 in, 0.60 out, 0.075 cached`` describes.

    Raises:
        InvalidInput: not a price; ``in`` and ``out`` are required, and no word may repeat.
    """
    amounts: dict[str, float] = {}
    for part in text.split(","):
        found = re.fullmatch(_PART, part.strip().lower())
        if found is None or found[2] in amounts:
            raise InvalidInput(f"{text!r} is not a price. Write {PRICE_FORM}.")
        amounts[found[2]] = float(found[1])
    if not {"in", "out"} <= amounts.keys():
        raise InvalidInput(f"{text!r} is not a complete price. Write {PRICE_FORM}.")
    return Price(amounts["in"], amounts["out"], amounts.get("cached"), amounts.get("written"))


def format_price(price: Price) -> str:
    """Return a price in the form that `read_price` accepts."""
    words = zip(price, ("in", "out", "cached", "written"), strict=True)
    return ", ".join(f"{amount:g} {word}" for amount, word in words if amount is not None)
