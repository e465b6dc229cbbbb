"""The JSON that ``--json`` prints: documented keys, in a fixed order, values as stored.

Times are seconds since 1970 (UTC), as in the Python interface and in exports. Keys may be added
in later versions; none is renamed or removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hermes_sessions.cli.render.costs import known_cost

if TYPE_CHECKING:
    from hermes_sessions.storage.search.answer import SearchAnswer

Record = Mapping[str, Any]

SESSION_KEYS = (
    "id",
    "title",
    "preview",
    "source",
    "user_id",
    "model",
    "started_at",
    "last_active",
    "ended_at",
    "end_reason",
    "message_count",
    "tool_call_count",
    "api_call_count",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "estimated_cost_usd",
    "actual_cost_usd",
    "cost_status",
    "cost_source",
    "pricing_version",
    "parent_session_id",
    "edge_kind",
    "conversation_id",
    "archived_at",
    "pinned_at",
    "tags",
    "metadata",
    "workspace_id",
    "cwd",
    "git_branch",
    "git_repo_root",
)
MESSAGE_KEYS = (
    "id",
    "role",
    "content",
    "timestamp",
    "tool_name",
    "tool_calls",
    "tool_call_id",
    "token_count",
    "finish_reason",
    "reasoning",
    "external_id",
)
HIT_KEYS = (
    "id",
    "session_id",
    "title",
    "conversation_id",
    "ordinal",
    "role",
    "tool_name",
    "timestamp",
    "snippet",
    "context",
    "matched",
    "score",
    "source",
    "model",
    "session_started",
    "snippet_text",
    "spans",
)
ACCOUNT_KEYS = (
    "query",
    "step",
    "total",
    "total_is_exact",
    "ranked",
    "removed",
    "sides",
    "repairs",
    "complete",
    "not_indexed",
    "scanned",
    "notes",
    "elapsed_ms",
)

# Characters that JSON, terminals or encoders do not accept unescaped.
_MUST_ESCAPE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def json_text(value: Any) -> str:
    """Return *value* as readable JSON; escape only the characters that must be."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=_bytes_as_base64)
    return _MUST_ESCAPE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _bytes_as_base64(value: object) -> dict[str, str]:
    if isinstance(value, bytes):
        from base64 import b64encode

        return {"base64": b64encode(value).decode("ascii")}
    raise TypeError(f"{type(value).__name__} has no JSON form")


def session_document(session: Record) -> dict[str, Any]:
    """Return the documented keys of one session; unknown values are null."""
    document = {key: session.get(key) for key in SESSION_KEYS}
    if document["actual_cost_usd"] is None:
        document["estimated_cost_usd"] = known_cost(session)
    return document


def trashed_document(session: Record) -> dict[str, Any]:
    """Return the documented keys of a session in the trash."""
    return {**session_document(session), "trashed_at": session["trashed_at"]}


def message_document(message: Record) -> dict[str, Any]:
    """Return the documented keys of one message."""
    return {key: message.get(key) for key in MESSAGE_KEYS}


def answer_document(answer: SearchAnswer) -> dict[str, Any]:
    """Return the documented keys of a search answer."""
    return {
        "hits": [{key: getattr(hit, key) for key in HIT_KEYS} for hit in answer.hits],
        "account": {key: getattr(answer.report, key) for key in ACCOUNT_KEYS},
        "next_cursor": answer.next_cursor,
    }


def sessions_document(sessions: Sequence[Record]) -> dict[str, Any]:
    """Return the document that list commands print."""
    return {"sessions": [session_document(session) for session in sessions]}
