"""The cost of a session; an unknown cost is never shown as zero."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hermes_sessions.cli.render.safe_text import one_line

Record = Mapping[str, Any]

_USED = ("api_call_count", "input_tokens", "output_tokens", "cache_read_tokens")
_TOKENS = (
    ("input_tokens", "in"),
    ("output_tokens", "out"),
    ("cache_read_tokens", "cache read"),
    ("cache_write_tokens", "cache write"),
)
#: The values of ``cost_status`` with which an estimate of 0 is a known cost.
_PRICED = frozenset({"estimated", "included"})


def known_cost(value: Record) -> float | None:
    """Return the cost of a session or of a row of its usage, or None if it is unknown.

    Sessions without an estimate also store 0, so 0 counts only with a matching ``cost_status``.
    """
    if value.get("actual_cost_usd") is not None:
        return float(value["actual_cost_usd"])
    estimate = value.get("estimated_cost_usd")
    if estimate or (estimate is not None and value.get("cost_status") in _PRICED):
        return float(estimate)
    return None


def cost_text(session: Record, usage: Sequence[Record]) -> str:
    """Return the cost of a session as text, empty if it used no model.

    *usage* are its rows per model and task; without any, the totals of the session are used.
    """
    rows = [row for row in usage if any(row.get(name) for name in _USED)]
    if not rows:
        is_used = any(session.get(name) for name in _USED) or known_cost(session) is not None
        return _in_words([session]) if is_used else ""
    return _in_words([{**row, "cost_status": "estimated"} for row in rows])


def _in_words(rows: Sequence[Record]) -> str:
    costs = [known_cost(row) for row in rows]
    known = [cost for cost in costs if cost is not None]
    if not known:
        return "unknown"
    amount = dollars(sum(known))
    if len(known) < len(costs):
        amount = f"at least {amount}"
    is_actual = all(row.get("actual_cost_usd") is not None for row in rows)
    return amount if is_actual else f"{amount} (estimated)"


def dollars(amount: float) -> str:
    """Format an amount: two decimals from one dollar on, four below."""
    return f"${amount:.2f}" if amount >= 1 else f"${amount:.4f}"


def usage_lines(session: Record, usage: Sequence[Record]) -> list[str]:
    """Return the calls, tokens, cost and price list of a session, including side calls."""
    tokens = [
        f"{number:,} {word}"
        for name, word in _TOKENS
        if (number := sum(row[name] or 0 for row in usage)) or word in {"in", "out"}
    ]
    side = Counter[str]()
    for row in usage:
        if row["task"]:
            side[row["task"]] += row["api_call_count"] or 0
    calls = f"{sum(row['api_call_count'] or 0 for row in usage):,}"
    of_them = ", ".join(f"{number} for {task}" for task, number in sorted(side.items()))
    lines = [
        f"Calls: {calls}" + (f", including {one_line(of_them)}" if of_them else ""),
        f"Tokens: {', '.join(tokens)}",
        f"Cost: {cost_text(session, usage) or 'unknown'}",
    ]
    if session.get("pricing_version"):
        lines.append(f"Prices: {one_line(session['pricing_version'])}")
    return lines
