"""A store, for those who look after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hermes_sessions.cli.render.quantity import counted, size
from hermes_sessions.cli.render.safe_text import one_line

_VERSIONS = ("server_version", "sqlite_version")


def database_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Return the lines that show what ``hermes sessiondb status --json`` prints."""
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
        yield f"Connections: {number}{details['max_connections']} at most"
    yield f"Schema: {_schema(document['schema'])}"


def _beside(document: Mapping[str, Any]) -> str:
    parts = [f"{document['archived']} archived"] if document["archived"] else []
    if document["trashed"]:
        parts.append(f"{document['trashed']} in the trash beside them")
    return f" ({', '.join(parts)})" if parts else ""


def _schema(schema: Mapping[str, Any]) -> str:
    if schema["waiting"]:
        return f"waiting: {', '.join(schema['waiting'])} (hermes sessiondb upgrade)"
    if schema["finishing"]:
        return f"to finish: {', '.join(schema['finishing'])} (hermes sessiondb upgrade --finish)"
    return f"up to date ({schema['taken'][-1]})" if schema["taken"] else "up to date"
