"""Working directories of sessions: where they are, and which are in use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.rows import VISIBLE
from hermes_sessions.storage.repositories.workspaces import (
    Workspaces,
    remove_unused_workspace,
    workspace_of,
)
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import DirectoryUse


class SessionDirectories:
    """The columns ``cwd``, ``git_branch`` and ``git_repo_root`` of ``sessions``."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def update(
        self, session_id: str, cwd: str, git_branch: str | None, git_repo_root: str | None
    ) -> None:
        """See `SessionDB.update_session_cwd`."""
        if not session_id or not cwd:
            return
        # Git is asked before the transaction.
        place = Workspaces(self._store).locate(cwd)
        now = self._store.clock()

        def work(tx: WriteTransaction) -> None:
            row = tx.one(
                f"SELECT workspace_id FROM sessions WHERE id = ? AND {VISIBLE}", (session_id,)
            )
            if row is None:
                return
            values: dict[str, Any] = {"cwd": cwd, "workspace_id": workspace_of(tx, place, now)}
            branch = (git_branch or "").strip() or place.branch
            root = (git_repo_root or "").strip() or place.repo_root
            values |= {"git_branch": branch} if branch else {}
            values |= {"git_repo_root": root} if root else {}
            changes = ", ".join(f"{name} = ?" for name in values)
            tx.run(f"UPDATE sessions SET {changes} WHERE id = ?", (*values.values(), session_id))
            if row[0] is not None and row[0] != values["workspace_id"]:
                remove_unused_workspace(tx, row[0])

        self._store.provider.write(work)

    def in_use(self, *, include_archived: bool) -> list[DirectoryUse]:
        """See `SessionDB.distinct_session_cwds`."""
        shown = "" if include_archived else "AND archived_at IS NULL "
        with self._store.provider.read() as tx:
            rows = tx.all(
                f"SELECT cwd, COUNT(*), MAX(COALESCE(ended_at, started_at)) FROM sessions "
                f"WHERE cwd IS NOT NULL AND TRIM(cwd) <> ? AND {VISIBLE} {shown}"
                f"GROUP BY cwd ORDER BY cwd",
                ("",),
            )
        return [
            cast("DirectoryUse", {"cwd": cwd, "sessions": int(count), "last_active": active})
            for cwd, count, active in rows
        ]

    def fill_repository_roots(self, roots: Mapping[str, str]) -> None:
        """See `SessionDB.backfill_repo_roots`."""
        pairs = [(root, cwd, "") for cwd, root in roots.items() if cwd and root]
        if pairs:
            self._store.provider.write(
                lambda tx: tx.run_many(
                    "UPDATE sessions SET git_repo_root = ? WHERE cwd = ? "
                    "AND (git_repo_root IS NULL OR git_repo_root = ?)",
                    pairs,
                )
            )
