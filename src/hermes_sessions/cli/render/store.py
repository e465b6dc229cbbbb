"""Statistics, space and status of a store as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hermes_sessions.cli.render.costs import dollars
from hermes_sessions.cli.render.humanize import counted, size
from hermes_sessions.cli.render.safe_text import one_line

#: How many tables and indexes are listed; --json lists all.
_LISTED = 10


def space_lines(space: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a report of `SessionDB.get_space`."""
    measured = counted(space["text_messages"], "message")
    only = "" if space["text_complete"] else f" (text of the newest {measured} only)"
    for name, label in (("classes", "By class"), ("sources", "By source")):
        if space[name]:
            yield f"{label}{only}:"
        for key, facts in space[name].items():
            if facts["sessions"] or name == "classes":
                number = counted(facts["sessions"], "session")
                messages = counted(facts["messages"], "message")
                yield f"  {one_line(key)}: {size(facts['text_bytes'])} ({number}, {messages})"
    yield from _parts(space)
    if space["free_bytes"]:
        yield f"Free: {size(space['free_bytes'])} (to reclaim it, run: hermes sessions optimize)"
    if space["log_bytes"]:
        yield f"Log: {size(space['log_bytes'])}"
    if space["uncounted_bytes"]:
        yield f"Not measured: {size(space['uncounted_bytes'])}"
    if not space["complete"]:
        yield (
            "The time limit was reached. To measure everything, run: "
            "hermes sessions stats --space --full"
        )


def _parts(space: Mapping[str, Any]) -> Iterator[str]:
    about = "at least " if space["uncounted_bytes"] else "about " if space["estimated"] else ""
    for name, label in (("tables", "Tables"), ("indexes", "Indexes")):
        parts = space[name]
        if not parts:
            continue
        yield f"{label}: {about}{size(sum(parts.values()))}"
        for key, number in list(parts.items())[:_LISTED]:
            yield f"  {one_line(key)}: {size(number)}"
        if len(parts) > _LISTED:
            rest = sum(list(parts.values())[_LISTED:])
            yield f"  {len(parts) - _LISTED} others: {size(rest)}"


_VERSIONS = ("server_version", "sqlite_version")


def database_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the document of ``hermes sessiondb status --json`` as lines."""
    details = document["details"]
    version = next((str(details[key]) for key in _VERSIONS if key in details), "")
    yield f"Provider: {document['provider']}"
    yield f"Location: {one_line(document['location'])}"
    if version:
        yield f"Version: {one_line(version)}"
    yield f"Sessions: {document['sessions']}{_beside(document)}"
    yield f"Messages: {document['messages']}"
    yield f"Size: {size(document['size_bytes'])}"
    index = document["search_index"]
    waiting = f"{counted(index['pending'], 'message')} waiting"
    yield f"Search index: {'complete' if index['complete'] else waiting}"
    if "max_connections" in details:
        number = f"{details['connections']} open, " if "connections" in details else ""
        yield f"Connections: {number}at most {details['max_connections']}"
    yield f"Schema: {_schema(document['schema'])}"


def _beside(document: Mapping[str, Any]) -> str:
    parts = [f"{document['archived']} archived"] if document["archived"] else []
    if document["trashed"]:
        parts.append(f"{document['trashed']} in the trash")
    return f" ({', '.join(parts)})" if parts else ""


def _schema(schema: Mapping[str, Any]) -> str:
    if schema["waiting"]:
        return f"pending: {', '.join(schema['waiting'])} (run: hermes sessiondb upgrade)"
    if schema["finishing"]:
        return (
            f"to finish: {', '.join(schema['finishing'])} (run: hermes sessiondb upgrade --finish)"
        )
    return f"up to date ({schema['taken'][-1]})" if schema["taken"] else "up to date"


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


def statistics(
    stats: Mapping[str, Any],
    index: Mapping[str, Any],
    *,
    tags: Mapping[str, int],
    workspaces: int,
) -> list[str]:
    """Return the counts of `SessionDB.get_stats` as lines.

    *index* is the result of `SessionDB.search_index_status`, *tags* that of `SessionDB.list_tags`;
    *workspaces* says how many there are.
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
    if workspaces:
        lines.append(f"Workspaces: {workspaces}")
    if tags:
        shown = [f"{one_line(tag)} {number}" for tag, number in list(tags.items())[:_LISTED]]
        others = [f"{len(tags) - _LISTED} others"] if len(tags) > _LISTED else []
        lines.append(f"Tags: {', '.join([*shown, *others])}")
    lines.append(f"Database size: {size(stats['size_bytes'])}")
    lines.append(f"Search index: {_state(index)}")
    return lines


def sizes_lines(sizes: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sizes of `SessionDB.get_sizes` as lines."""
    yield f"Message text: {size(sizes['text_bytes'])}"
    for name, label in (("sources", "from"), ("roles", "by")):
        for key, number in sizes[name].items():
            yield f"  {label} {one_line(key)}: {size(number)}"
    for name, label in _CLASSES.items():
        if sizes[name]:
            yield f"  {label}: {size(sizes[name])}"
    rest = max(sizes["size_bytes"] - sizes["text_bytes"], 0)
    yield f"Indexes and the rest: {size(rest)}"


def used_by_all(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the total calls, tokens and cost of a report of `SessionDB.get_insights`."""
    return {name: report["overview"][name] for name in _USED}


def usage_lines(used: Mapping[str, Any]) -> Iterator[str]:
    """Yield the result of `used_by_all` as lines."""
    kinds = [
        f"{used[f'{kind}_tokens']:,} {kind.replace('_', ' ')}"
        for kind in ("input", "output", "cache_read", "cache_write")
        if used[f"{kind}_tokens"]
    ]
    yield f"Model calls: {used['api_call_count']}"
    yield f"Tokens: {used['total_tokens']:,}" + (f" ({', '.join(kinds)})" if kinds else "")
    if used["cost_usd"] is None:
        yield "Cost: unknown"
    else:
        known = "" if used["cost_complete"] else "at least "
        yield f"Cost: {known}{dollars(used['cost_usd'])}"


def _state(index: Mapping[str, Any]) -> str:
    if index["complete"]:
        return "complete"
    # An incomplete index without pending messages lacks titles.
    waiting = counted(index["pending"], "message") if index["pending"] else "titles"
    return f"{waiting} waiting (to index now, run: hermes sessions optimize)"
