"""What is particular about this server's SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hermes_sessions.storage.mysql.schema import ascii_lower
from hermes_sessions.storage.provider import Dialect, placeholders


class MySQLDialect(Dialect):
    """See `Dialect`."""

    def insert_if_absent(self, table: str, columns: Sequence[str], key: Sequence[str]) -> str:
        """See `Dialect.insert_if_absent`.

        ``INSERT IGNORE`` would swallow other violations, and ``ON DUPLICATE KEY`` would not say
        whether a row was added.
        """
        names = ", ".join(f'"{name}"' for name in columns)
        given = ", ".join(f'? AS "{name}"' for name in columns)
        same = " AND ".join(f'known."{name}" = given."{name}"' for name in key)
        return (
            f"INSERT INTO {table} ({names}) SELECT {names} FROM (SELECT {given}) AS given "
            f"WHERE NOT EXISTS (SELECT 1 FROM {table} AS known WHERE {same})"
        )

    def upsert(
        self,
        table: str,
        columns: Sequence[str],
        key: Sequence[str],  # noqa: ARG002 - any unique key counts
        update: Sequence[str],
    ) -> str:
        """See `Dialect.upsert`."""
        names = ", ".join(f'"{name}"' for name in columns)
        changes = ", ".join(f'"{name}" = VALUES("{name}")' for name in update)
        return (
            f"INSERT INTO {table} ({names}) VALUES ({placeholders(len(columns))}) "
            f"ON DUPLICATE KEY UPDATE {changes}"
        )

    def ascii_lower(self, expression: str) -> str:
        """See `Dialect.ascii_lower`."""
        return ascii_lower(expression)


DIALECT: Final = MySQLDialect(
    name="mysql",
    update_returning=False,
    for_update=" FOR UPDATE",
    max_params=65_000,
    appends_in_one_step=True,
)
