"""The tables of Hermes in schema 11 (Hermes 0.13) and schema 22 (Hermes 0.19), column by column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hermes_sessions.storage.file_care import HermesSchema

#: Name and declaration of each column; the order is that of schema 22. Those of schema 11 are
#: marked by a bar.
SESSIONS: Final = """
|id TEXT PRIMARY KEY
|source TEXT NOT NULL
|user_id TEXT
 session_key TEXT
 chat_id TEXT
 chat_type TEXT
 thread_id TEXT
 display_name TEXT
 origin_json TEXT
 expiry_finalized INTEGER DEFAULT 0
|model TEXT
|model_config TEXT
|system_prompt TEXT
|parent_session_id TEXT REFERENCES sessions(id)
|started_at REAL NOT NULL
|ended_at REAL
|end_reason TEXT
|message_count INTEGER DEFAULT 0
|tool_call_count INTEGER DEFAULT 0
|input_tokens INTEGER DEFAULT 0
|output_tokens INTEGER DEFAULT 0
|cache_read_tokens INTEGER DEFAULT 0
|cache_write_tokens INTEGER DEFAULT 0
|reasoning_tokens INTEGER DEFAULT 0
 cwd TEXT
 git_branch TEXT
 git_repo_root TEXT
|billing_provider TEXT
|billing_base_url TEXT
|billing_mode TEXT
|estimated_cost_usd REAL
|actual_cost_usd REAL
|cost_status TEXT
|cost_source TEXT
|pricing_version TEXT
|title TEXT
|api_call_count INTEGER DEFAULT 0
|handoff_state TEXT
|handoff_platform TEXT
|handoff_error TEXT
 compression_failure_cooldown_until REAL
 compression_failure_error TEXT
 compression_fallback_streak INTEGER NOT NULL DEFAULT 0
 profile_name TEXT
 rewind_count INTEGER NOT NULL DEFAULT 0
 archived INTEGER NOT NULL DEFAULT 0
"""
MESSAGES: Final = """
|id INTEGER PRIMARY KEY AUTOINCREMENT
|session_id TEXT NOT NULL REFERENCES sessions(id)
|role TEXT NOT NULL
|content TEXT
|tool_call_id TEXT
|tool_calls TEXT
|tool_name TEXT
 effect_disposition TEXT
|timestamp REAL NOT NULL
|token_count INTEGER
|finish_reason TEXT
|reasoning TEXT
|reasoning_content TEXT
|reasoning_details TEXT
|codex_reasoning_items TEXT
|codex_message_items TEXT
 platform_message_id TEXT
 observed INTEGER DEFAULT 0
 active INTEGER NOT NULL DEFAULT 1
 compacted INTEGER NOT NULL DEFAULT 0
 api_content TEXT
"""
USAGE: Final = """
 session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE
 model TEXT NOT NULL
 billing_provider TEXT NOT NULL DEFAULT ''
 billing_base_url TEXT NOT NULL DEFAULT ''
 billing_mode TEXT NOT NULL DEFAULT ''
 task TEXT NOT NULL DEFAULT ''
 api_call_count INTEGER DEFAULT 0
 input_tokens INTEGER DEFAULT 0
 output_tokens INTEGER DEFAULT 0
 cache_read_tokens INTEGER DEFAULT 0
 cache_write_tokens INTEGER DEFAULT 0
 reasoning_tokens INTEGER DEFAULT 0
 estimated_cost_usd REAL DEFAULT 0
 actual_cost_usd REAL DEFAULT 0
 cost_status TEXT
 cost_source TEXT
 first_seen REAL
 last_seen REAL
"""
USAGE_KEY: Final = (
    "PRIMARY KEY (session_id, model, billing_provider, billing_base_url, billing_mode, task)"
)
META: Final = "|key TEXT PRIMARY KEY\n|value TEXT"
ROUTING: Final = """
 scope TEXT NOT NULL DEFAULT ''
 session_key TEXT NOT NULL
 entry_json TEXT NOT NULL
 updated_at REAL NOT NULL
"""
TOPIC_MODES: Final = """
|chat_id TEXT PRIMARY KEY
|user_id TEXT NOT NULL
|enabled INTEGER NOT NULL DEFAULT 1
|activated_at REAL NOT NULL
|updated_at REAL NOT NULL
|has_topics_enabled INTEGER
|allows_users_to_create_topics INTEGER
"""
TOPICS: Final = """
|chat_id TEXT NOT NULL
|thread_id TEXT NOT NULL
|user_id TEXT NOT NULL
|session_key TEXT NOT NULL
|session_id TEXT NOT NULL UNIQUE REFERENCES sessions(id) ON DELETE CASCADE
|managed_mode TEXT NOT NULL
|linked_at REAL NOT NULL
|updated_at REAL NOT NULL
"""


def declarations(columns: str, schema: HermesSchema) -> Iterator[str]:
    """Yield the declaration of each column that a schema has."""
    for line in columns.strip("\n").splitlines():
        if schema == 22 or line.startswith("|"):
            yield line[1:]


def names(columns: str, schema: HermesSchema) -> list[str]:
    """Return the names of the columns that a schema has."""
    return [declaration.split()[0] for declaration in declarations(columns, schema)]
