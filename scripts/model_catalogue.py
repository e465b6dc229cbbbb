"""Write src/hermes_sessions/agent/catalogue.json: list prices and sizes of models, by provider.

The facts come from the package genai-prices (MIT), which is not needed at run time. Run it in an
environment that has it, and name the day whose prices are meant:

    python -m venv /tmp/prices && /tmp/prices/bin/pip install genai-prices
    /tmp/prices/bin/python scripts/model_catalogue.py 2026-11-16

One line per model, so that a change of prices is a readable diff. Where a price depends on the hour
of the day, the highest is taken. Prices of batches, other speeds, sounds and pictures are left out.
"""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime, time, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

from genai_prices import types
from genai_prices.data import providers

CATALOGUE = Path(__file__).resolve().parent.parent / "src/hermes_sessions/agent/catalogue.json"
#: Those that answer chat completions at an address of their own.
WANTED = (
    "anthropic azure cerebras cohere deepseek fireworks google groq minimax mistral moonshotai "
    "novita openai openrouter perplexity together x-ai zai"
).split()
MODEL = (
    "names, prices (US dollars per million tokens: from tokens, in, out, cached, written), "
    "context length"
)
KINDS = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")


def names_of(clause: Any) -> list[str]:
    """Return the names that a model goes by: exact, ``beginning*``, or ``/expression/``."""
    match clause:
        case types.ClauseOr():
            return [name for part in clause.or_ for name in names_of(part)]
        case types.ClauseEquals():
            return [clause.equals.lower()]
        case types.ClauseStartsWith():
            return [f"{clause.starts_with.lower()}*"]
        case _:
            return [f"/^{looking_ahead(clause)}/"]


def looking_ahead(clause: Any) -> str:  # noqa: PLR0911 - one for each kind of clause
    """Return a clause as an expression that looks at a whole name and takes nothing of it."""
    match clause:
        case types.ClauseAnd():
            return "".join(looking_ahead(part) for part in clause.and_)
        case types.ClauseOr():
            return f"(?:{'|'.join(looking_ahead(part) for part in clause.or_)})"
        case types.ClauseEquals():
            return f"(?={re.escape(clause.equals.lower())}$)"
        case types.ClauseStartsWith():
            return f"(?={re.escape(clause.starts_with.lower())})"
        case types.ClauseEndsWith():
            return f"(?=.*{re.escape(clause.ends_with.lower())}$)"
        case types.ClauseContains():
            return f"(?=.*{re.escape(clause.contains.lower())})"
        case types.ClauseRegex():
            # An expression that begins with ^ looks from the same place as ours.
            return f"(?={clause.regex})" if clause.regex[:1] == "^" else f"(?=.*(?:{clause.regex}))"
    raise TypeError(type(clause))


def rows_of(model: Any, day: datetime) -> list[list[Any]]:
    """Return ``[tokens, in, out, cached, written]``: prices from that many input tokens on."""
    prices = [model.get_prices(day + timedelta(minutes=30 * step)) for step in range(48)]
    dearest = max(prices, key=lambda price: float(_at(price.input_mtok, 0) or 0))
    values = [getattr(dearest, kind, None) for kind in KINDS]
    if values[0] is None or values[1] is None:
        return []
    starts = {0} | {tier.start for value in values for tier in getattr(value, "tiers", ())}
    return [[start, *(_at(value, start) for value in values)] for start in sorted(starts)]


def _at(value: Any, start: int) -> float | None:
    if value is None:
        return None
    if isinstance(value, types.TieredPrices):
        value = [value.base, *(tier.price for tier in value.tiers if tier.start <= start)][-1]
    return float(value)


def main(day_text: str) -> None:
    """Write the file with the prices of a day."""
    day = datetime.combine(datetime.fromisoformat(day_text), time(), UTC)
    lines = [
        "{",
        f' "version": "genai-prices {version("genai-prices")} of {day_text}",',
        f' "model": "{MODEL}",',
        ' "providers": {',
    ]
    chosen = [provider for provider in providers if provider.id in WANTED]
    for provider in chosen:
        models = [
            json.dumps(
                [names_of(model.match), rows, model.context_window],
                ensure_ascii=False,
                separators=(",", ":"),
            )
            for model in provider.models
            if (rows := rows_of(model, day))
        ]
        head = {"address": provider.api_pattern, "like": provider.fallback_model_providers or []}
        lines.append(f"  {json.dumps(provider.id)}: {json.dumps(head)[:-1]}, " + '"models": [')
        lines += [f"   {model}," for model in models[:-1]] + [f"   {models[-1]}"]
        lines.append("  ]}" + ("," if provider is not chosen[-1] else ""))
    lines += [" }", "}"]
    CATALOGUE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
