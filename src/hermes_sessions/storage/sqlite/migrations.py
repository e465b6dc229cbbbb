"""The ledger of applied migrations, written in the transaction that applies them."""

from __future__ import annotations

import time

import apsw

from hermes_sessions.storage.sqlite import schema


def record_migration(connection: apsw.Connection, name: str) -> None:
    """Record, in the open transaction, that a migration was applied."""
    connection.execute(
        "INSERT INTO store_migrations (name, applied_at) VALUES (?, ?)", (name, time.time())
    )


def apply_migration(connection: apsw.Connection, step: schema.Migration) -> None:
    """Apply and record one migration in the open transaction."""
    connection.execute(step.sql(connection))
    record_migration(connection, step.name)


def apply_pending_migrations(connection: apsw.Connection) -> None:
    """Apply all pending migrations in the open transaction."""
    applied = applied_migrations(connection)
    for step in schema.MIGRATIONS:
        if step.name not in applied:
            apply_migration(connection, step)


def applied_migrations(connection: apsw.Connection) -> set[str]:
    """Return the names of the applied migrations."""
    return {row[0] for row in connection.execute("SELECT name FROM store_migrations")}
