"""SQL of hermes-agent over token usage, whose table has other names for some columns here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from hermes_sessions.storage.raw_sql import Params, RawConnection, RawStatements, Result

T = TypeVar("T")
_TABLE: Final = "session_model_usage"
_NAMED: Final = (
    f"WITH {_TABLE} AS (SELECT *, first_at AS first_seen, last_at AS last_seen, "
    f"NULL AS cost_status, NULL AS cost_source FROM {{schema}}{_TABLE}) "
)


class UsageStatements:
    """Statements whose queries find the usage table with hermes-agent's names, too."""

    def __init__(self, statements: RawStatements, *, is_file: bool) -> None:
        self._statements = statements
        # SQLite would take the table for the expression itself.
        self._named = _NAMED.format(schema="main." if is_file else "")

    def execute(self, sql: str, params: Params = ()) -> Result:
        """See `RawConnection.execute`."""
        if _TABLE in sql and sql.lstrip()[:6].upper() == "SELECT":
            sql = self._named + sql
        return self._statements.execute(sql, params)

    def executemany(self, sql: str, rows: Iterable[Params]) -> Result:
        """See `RawConnection.executemany`."""
        return self._statements.executemany(sql, rows)

    def transaction(self, work: Callable[[RawConnection], T]) -> T:
        """See `RawStatements.transaction`."""
        return self._statements.transaction(work)

    def commit(self) -> None:
        """Do nothing: every statement has committed."""

    def rollback(self) -> None:
        """Do nothing: no transaction is open."""
