"""Tokens and cost per session, and per model, route and task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.codec import to_json
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.rows import VISIBLE
from hermes_sessions.storage.repositories.sessions import Sessions
from hermes_sessions.storage.store_context import StoreContext
from hermes_sessions.storage.tables import USAGE, given, names_of

if TYPE_CHECKING:
    from hermes_sessions.storage.records import ModelUsage

TOKEN_COLUMNS: Final = given(USAGE, "count")
#: Columns that identify a route. Their digest is part of stored keys, so they must not change.
ROUTE_COLUMNS: Final = ["model", "billing_provider", "billing_base_url", "billing_mode"]
USAGE_COLUMNS: Final = names_of(USAGE, "given")


class Usage:
    """Counters of ``sessions`` and the rows of ``session_model_usage``."""

    def __init__(self, store: StoreContext, *, first_call_decides: bool = False) -> None:
        """With *first_call_decides*, the first report of usage that has a model and a provider
        replaces the route that the session was created with, and reports without usage are not
        accounted to a model.
        """
        self._store = store
        self._sessions = Sessions(store)
        self._first_call_decides = first_call_decides

    def update(
        self,
        session_id: str,
        *,
        tokens: dict[str, int],
        estimated_cost_usd: float | None,
        actual_cost_usd: float | None,
        labels: dict[str, str | None],
        route: dict[str, str | None],
        absolute: bool,
    ) -> None:
        """See `SessionDB.update_token_counts`."""
        _check_tokens(tokens)
        has_usage = any((*tokens.values(), estimated_cost_usd, actual_cost_usd))
        now = self._store.clock()

        def work(tx: WriteTransaction) -> None:
            self._sessions.ensure(tx, session_id, route["model"], now)
            changes: list[str] = []
            params: list[Any] = []
            for name in TOKEN_COLUMNS:
                changes.append(f"{name} = ?" if absolute else f"{name} = COALESCE({name}, 0) + ?")
                params.append(tokens.get(name) or 0)
            changes.append(
                "estimated_cost_usd = ?"
                if absolute
                else "estimated_cost_usd = COALESCE(estimated_cost_usd, 0) + ?"
            )
            params.append(float(estimated_cost_usd or 0))
            if actual_cost_usd is not None:
                changes.append(
                    "actual_cost_usd = ?"
                    if absolute
                    else "actual_cost_usd = COALESCE(actual_cost_usd, 0) + ?"
                )
                params.append(float(actual_cost_usd))
            for name, value in labels.items():
                changes.append(f"{name} = COALESCE(?, {name})")
                params.append(value)
            calls, *values = tx.one(
                f"SELECT api_call_count, {', '.join(ROUTE_COLUMNS)} FROM sessions WHERE id = ?",
                (session_id,),
            ) or (0, *[None] * len(ROUTE_COLUMNS))
            stored = dict(zip(ROUTE_COLUMNS, values, strict=True))
            merged = {name: _first(stored[name], route[name]) for name in ROUTE_COLUMNS}
            if self._first_call_decides and not has_usage:
                merged = stored | {"model": merged["model"]}
            elif (
                self._first_call_decides
                and not calls
                and route["model"]
                and route["billing_provider"]
            ):
                merged = route
            for name, value in merged.items():
                changes.append(f"{name} = ?")
                params.append(value)
            tx.run(f"UPDATE sessions SET {', '.join(changes)} WHERE id = ?", (*params, session_id))
            if not absolute and (has_usage or not self._first_call_decides):
                used = route | {"model": route["model"] or merged["model"]}
                if self._first_call_decides:
                    used = {name: route[name] or merged[name] for name in ROUTE_COLUMNS}
                    used["model"] = used["model"] or "unknown"
                self._add(
                    tx,
                    session_id,
                    used,
                    "",
                    tokens,
                    (estimated_cost_usd, actual_cost_usd),
                    now,
                )

        self._store.provider.write(work)

    def record_auxiliary(
        self,
        session_id: str,
        task: str,
        *,
        route: dict[str, str | None],
        tokens: dict[str, int],
        estimated_cost_usd: float | None,
        actual_cost_usd: float | None,
        create: bool,
    ) -> None:
        """See `SessionDB.record_auxiliary_usage`."""
        if not task:
            raise InvalidInput("An auxiliary call needs a task, such as 'title' or 'summary'.")
        _check_tokens(tokens)
        now = self._store.clock()

        def work(tx: WriteTransaction) -> None:
            if not (create or tx.one("SELECT 1 FROM sessions WHERE id = ?", (session_id,))):
                return
            self._sessions.ensure(tx, session_id, None, now)
            costs = (estimated_cost_usd, actual_cost_usd)
            self._add(tx, session_id, route, task, tokens, costs, now)

        self._store.provider.write(work)

    def list(self, session_id: str) -> list[ModelUsage]:
        """See `SessionDB.get_model_usage`."""
        with self._store.provider.read() as tx:
            rows = tx.all(
                f"SELECT {', '.join(USAGE_COLUMNS)} FROM session_model_usage "
                f"WHERE session_id = ? AND EXISTS "
                f"(SELECT 1 FROM sessions s WHERE s.id = ? AND s.{VISIBLE}) "
                f"ORDER BY first_at, route_key",
                (session_id, session_id),
            )
        return [cast("ModelUsage", dict(zip(USAGE_COLUMNS, row, strict=True))) for row in rows]

    def _add(
        self,
        tx: WriteTransaction,
        session_id: str,
        route: dict[str, str | None],
        task: str,
        tokens: dict[str, int],
        costs: tuple[float | None, float | None],
        now: float,
    ) -> None:
        key = route_key(route, task)
        names = ("session_id", "route_key", *ROUTE_COLUMNS, "task", "first_at", "last_at")
        tx.run(
            self._store.provider.dialect.insert_if_absent(
                "session_model_usage", names, ("session_id", "route_key")
            ),
            (session_id, key, *(route[name] for name in ROUTE_COLUMNS), task, now, now),
        )
        added = ", ".join(f"{name} = {name} + ?" for name in TOKEN_COLUMNS)
        estimated, actual = costs
        tx.run(
            f"UPDATE session_model_usage SET {added}, last_at = ?, "
            f"estimated_cost_usd = {_added_cost('estimated_cost_usd', estimated)}, "
            f"actual_cost_usd = {_added_cost('actual_cost_usd', actual)} "
            f"WHERE session_id = ? AND route_key = ?",
            (
                *(tokens.get(name) or 0 for name in TOKEN_COLUMNS),
                now,
                *(cost for cost in costs if cost is not None),
                session_id,
                key,
            ),
        )


def _first(stored: str | None, given: str | None) -> str | None:
    return given if stored is None else stored


def _added_cost(column: str, cost: float | None) -> str:
    return column if cost is None else f"COALESCE({column}, 0) + ?"


def route_key(route: dict[str, str | None], task: str) -> str:
    """Return the key of a usage row, a digest of bounded length."""
    import hashlib  # Imported late: it loads a large library that only usage needs.

    facts = to_json([route[name] or "" for name in ROUTE_COLUMNS] + [task])
    return hashlib.sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()


def _check_tokens(tokens: dict[str, int]) -> None:
    unknown = tokens.keys() - set(TOKEN_COLUMNS)
    if unknown:
        raise TypeError(f"unexpected token counters: {', '.join(sorted(unknown))}")
    for name, value in tokens.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise InvalidInput(f"{name} must be a number, not {type(value).__name__}.")
