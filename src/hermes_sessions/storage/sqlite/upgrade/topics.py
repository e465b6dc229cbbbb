"""Topics of Telegram chats: what Hermes knew of them goes on in our tables.

Its own tables stay as they are, like those of every other program.
"""

from __future__ import annotations

from typing import Final

import apsw

from hermes_sessions.storage.sqlite.upgrade.layout import columns_of

_MODES: Final = "telegram_dm_topic_mode"
_BINDINGS: Final = "telegram_dm_topic_bindings"
_MODE_COLUMNS: Final = (
    "chat_id user_id enabled has_topics_enabled allows_users_to_create_topics activated_at "
    "updated_at"
).split()
_BINDING_COLUMNS: Final = (
    "chat_id thread_id user_id session_key session_id managed_mode linked_at updated_at"
).split()


def adopt_topics(connection: apsw.Connection) -> None:
    """Copy modes and bindings; those that nobody can have made with Telegram's ids are left out."""
    if set(_MODE_COLUMNS) <= columns_of(connection, _MODES).keys():
        connection.execute(
            f"INSERT INTO topic_modes ({', '.join(_MODE_COLUMNS)}) "
            f"SELECT CAST(chat_id AS TEXT), CAST(user_id AS TEXT), enabled IS NOT 0, "
            f"CAST(has_topics_enabled AS INTEGER), CAST(allows_users_to_create_topics AS INTEGER), "
            f"CAST(activated_at AS REAL), CAST(updated_at AS REAL) FROM {_MODES} "
            f"WHERE {_is_number('chat_id')} AND {_is_number('user_id')} "
            f"AND activated_at IS NOT NULL AND updated_at IS NOT NULL ON CONFLICT DO NOTHING"
        )
    if set(_BINDING_COLUMNS) <= columns_of(connection, _BINDINGS).keys():
        connection.execute(
            f"INSERT INTO topics ({', '.join(_BINDING_COLUMNS)}) "
            f"SELECT CAST(chat_id AS TEXT), CAST(thread_id AS TEXT), CAST(user_id AS TEXT), "
            f"CAST(session_key AS TEXT), session_id, CAST(managed_mode AS TEXT), "
            f"CAST(linked_at AS REAL), CAST(updated_at AS REAL) FROM {_BINDINGS} "
            f"WHERE {_is_number('chat_id')} AND {_is_number('thread_id')} "
            f"AND {_is_number('user_id')} AND {_is_plain('session_key')} "
            f"AND {_is_plain('managed_mode')} AND session_id IN (SELECT id FROM sessions) "
            f"AND linked_at IS NOT NULL AND updated_at IS NOT NULL ON CONFLICT DO NOTHING"
        )


def _is_number(column: str) -> str:
    return f"{column} <> '' AND {column} NOT GLOB '*[^0-9-]*' AND length({column}) < 32"


def _is_plain(column: str) -> str:
    return f"{column} IS NOT NULL AND {column} NOT GLOB '*[^ -~]*'"
