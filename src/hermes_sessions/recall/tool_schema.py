"""The description of the tool for a model: its schema, and when to use it."""

from __future__ import annotations

from typing import Any, Final

from hermes_sessions.recall.arguments import (
    DEFAULT_LIMIT,
    DEFAULT_TOKENS,
    DEFAULT_WINDOW,
    LIMITS,
    SORTS,
    TOKENS,
    WINDOWS,
)

#: For the system prompt of agents that have the tool.
SYSTEM_PROMPT_SENTENCE: Final = (
    "When the user references something from a past conversation or you suspect relevant prior "
    "context exists, use session_search to recall it before asking them to repeat themselves."
)

_DESCRIPTION: Final = (
    "Recall past conversations. Four ways, chosen by the arguments: nothing lists recent "
    "conversations; query finds the conversations that answer it, each with the matching message "
    "in context; session_id with around_message_id shows the messages around one (page by using "
    "the first or last id you were shown); session_id alone reads a session from both ends. "
    "Search first, then scroll where the snippet looks right. Words are all required; when "
    "nothing has them all, the search is relaxed and says so. AND, +word, quotes, NOT and filters "
    "are never relaxed."
)

_QUERY: Final = (
    'What to look for: words (all required), "exact phrase", AND or +word, OR, NOT or -word, '
    "prefix*, *inside*, parentheses; filters such as source:telegram role:tool tool:terminal "
    'after:7d before:2026-05-01 in:"title" model:name workspace:name tag:name has:error.'
)

#: The tool in the form of OpenAI's function calling.
TOOL_SCHEMA: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "session_search",
        "description": _DESCRIPTION,
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": _QUERY},
                "limit": {
                    "type": "integer",
                    "minimum": LIMITS[0],
                    "maximum": LIMITS[1],
                    "default": DEFAULT_LIMIT,
                    "description": "How many conversations to return.",
                },
                "sort": {
                    "type": "string",
                    "enum": list(SORTS),
                    "default": SORTS[0],
                    "description": "Order of what a query finds.",
                },
                "role_filter": {
                    "type": "string",
                    "default": "user,assistant",
                    "description": "Roles to search, with commas between them, or all.",
                },
                "source": {
                    "type": "string",
                    "description": "Only these sources (cli, telegram, cron...), with commas.",
                },
                "after": {
                    "type": "string",
                    "description": "Only from then on: 2026-05-01, 2026-05, 12h, 7d, yesterday.",
                },
                "before": {"type": "string", "description": "Only before then; as for after."},
                "workspace": {
                    "type": "string",
                    "description": "Only conversations of this project: its name, or current.",
                },
                "session_id": {
                    "type": "string",
                    "description": "A session to open, as returned by an earlier call.",
                },
                "around_message_id": {
                    "type": "integer",
                    "description": "A message of that session to show with its surroundings.",
                },
                "window": {
                    "type": "integer",
                    "minimum": WINDOWS[0],
                    "maximum": WINDOWS[1],
                    "default": DEFAULT_WINDOW,
                    "description": "Messages to show on each side of that message.",
                },
                "exclude_conversations": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Sessions whose whole conversations are left out.",
                },
                "max_tokens": {
                    "type": "integer",
                    "minimum": TOKENS[0],
                    "maximum": TOKENS[1],
                    "default": DEFAULT_TOKENS,
                    "description": "Largest answer, estimated at four characters per token.",
                },
            },
            "additionalProperties": False,
        },
    },
}
