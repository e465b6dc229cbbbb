"""Totals of the store, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hermes_sessions.cli.render.costs import dollars
from hermes_sessions.cli.render.quantity import counted, size
from hermes_sessions.cli.render.safe_text import one_line

_USED = (
    "api_call_count",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "total_tokens",
    "cost_usd",
    "cost_complete",
)
_CLASSES = {
    "subagent_bytes": "of subagents",
    "archived_bytes": "archived",
    "trashed_bytes": "in the trash",
}


def statistics(stats: Mapping[str, Any], index: Mapping[str, Any]) -> list[str]:
    """Return the lines that show what `SessionDB.get_stats` counted, and how far the *index* of
    `SessionDB.search_index_status` is.
    """
    lines = [
        f"Total sessions: {stats['sessions']}",
        f"Total messages: {stats['messages']}",
    ]
    lines += [
        f"  {one_line(source)}: {counted(counts['sessions'], 'session')}"
        for source, counts in stats["sources"].items()
    ]
    if stats["archived"]:
        lines.append(f"Archived: {counted(stats['archived'], 'session')}")
    if stats["trashed"]:
        lines.append(f"In the trash: {counted(stats['trashed'], 'session')}")
    lines.append(f"Database size: {size(stats['size_bytes'])}")
    lines.append(f"Search index: {_state(index)}")
    return lines


def sizes_lines(sizes: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that show what `SessionDB.get_sizes` measured."""
    yield f"Text of messages: {size(sizes['text_bytes'])}"
    for name, label in (("sources", "from"), ("roles", "by")):
        for key, number in sizes[name].items():
            yield f"  {label} {one_line(key)}: {size(number)}"
    for name, label in _CLASSES.items():
        if sizes[name]:
            yield f"  {label}: {size(sizes[name])}"
    rest = max(sizes["size_bytes"] - sizes["text_bytes"], 0)
    yield f"Indexes and the rest: {size(rest)}"


def used_by_all(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return calls, tokens and cost of everything that `SessionDB.get_insights` reports on."""
    return {name: report["overview"][name] for name in _USED}


def usage_lines(used: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that show what `used_by_all` returned."""
    kinds = [
        f"{used[f'{kind}_tokens']:,} {kind.replace('_', ' ')}"
        for kind in ("input", "output", "cache_read", "cache_write")
        if used[f"{kind}_tokens"]
    ]
    yield f"Calls of models: {used['api_call_count']}"
    yield f"Tokens: {used['total_tokens']:,}" + (f" ({', '.join(kinds)})" if kinds else "")
    if used["cost_usd"] is None:
        yield "Cost: unknown"
    else:
        known = "" if used["cost_complete"] else "at least "
        yield f"Cost: {known}{dollars(used['cost_usd'])}"


def _state(index: Mapping[str, Any]) -> str:
    if index["complete"]:
        return "complete"
    # What is not complete without a message that waits lacks titles.
    waiting = counted(index["pending"], "message") if index["pending"] else "titles"
    return f"{waiting} waiting (to index now: hermes sessions optimize)"
