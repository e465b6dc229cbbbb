"""Topics of Telegram chats: copies the bindings of Hermes into our tables.

Its own tables stay as they are, like those of every other program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import apsw

from hermes_sessions.storage.repositories.topics import COLUMNS, MODE_COLUMNS
from hermes_sessions.storage.sqlite.upgrade.layout import columns_of

MODES: Final = "telegram_dm_topic_mode"
BINDINGS: Final = "telegram_dm_topic_bindings"
_NUMBERS: Final = ("chat_id", "thread_id", "user_id")
_PLAIN: Final = frozenset(("session_key", "managed_mode"))
_TIMES: Final = ("activated_at", "linked_at", "updated_at")
_FLAGS: Final = ("has_topics_enabled", "allows_users_to_create_topics")
_NUMBER: Final = re.compile(r"[0-9-]{1,31}")


def adopt_topics(connection: apsw.Connection) -> None:
    """Copy modes and bindings; rows without valid Telegram ids are skipped."""
    if set(MODE_COLUMNS) <= columns_of(connection, MODES).keys():
        connection.execute(
            f"INSERT INTO topic_modes ({', '.join(MODE_COLUMNS)}) "
            f"SELECT CAST(chat_id AS TEXT), CAST(user_id AS TEXT), enabled IS NOT 0, "
            f"CAST(has_topics_enabled AS INTEGER), CAST(allows_users_to_create_topics AS INTEGER), "
            f"CAST(activated_at AS REAL), CAST(updated_at AS REAL) FROM {MODES} "
            f"WHERE {_is_number('chat_id')} AND {_is_number('user_id')} "
            f"AND activated_at IS NOT NULL AND updated_at IS NOT NULL ON CONFLICT DO NOTHING"
        )
    if set(COLUMNS) <= columns_of(connection, BINDINGS).keys():
        connection.execute(
            f"INSERT INTO topics ({', '.join(COLUMNS)}) "
            f"SELECT CAST(chat_id AS TEXT), CAST(thread_id AS TEXT), CAST(user_id AS TEXT), "
            f"CAST(session_key AS TEXT), session_id, CAST(managed_mode AS TEXT), "
            f"CAST(linked_at AS REAL), CAST(updated_at AS REAL) FROM {BINDINGS} "
            f"WHERE {_is_number('chat_id')} AND {_is_number('thread_id')} "
            f"AND {_is_number('user_id')} AND {_is_plain('session_key')} "
            f"AND {_is_plain('managed_mode')} AND session_id IN (SELECT id FROM sessions) "
            f"AND linked_at IS NOT NULL AND updated_at IS NOT NULL ON CONFLICT DO NOTHING"
        )


def _is_number(column: str) -> str:
    return f"{column} <> '' AND {column} NOT GLOB '*[^0-9-]*' AND length({column}) < 32"


def _is_plain(column: str) -> str:
    return f"{column} IS NOT NULL AND {column} NOT GLOB '*[^ -~]*'"


def usable_rows(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of either table that `adopt_topics` would copy, in the form of our tables."""
    for row in rows:
        texts = {name: str(row[name]) for name in (*_NUMBERS, *_PLAIN) if name in row}
        times = {name: row[name] for name in _TIMES if name in row}
        if (
            all(_NUMBER.fullmatch(texts[name]) for name in _NUMBERS if name in row)
            and all(
                row[name] is not None and _is_ascii(texts[name]) for name in _PLAIN & row.keys()
            )
            and all(isinstance(value, (int, float)) for value in times.values())
        ):
            flags = {n: None if row[n] is None else int(bool(row[n])) for n in _FLAGS if n in row}
            enabled = {"enabled": int(row["enabled"] != 0)} if "enabled" in row else {}
            yield row | texts | times | flags | enabled


def _is_ascii(text: str) -> bool:
    return text.isascii() and text.isprintable()
