"""Workspaces: the projects that sessions belong to.

A session keeps the workspace of its own directory. A merged workspace keeps its row, which names
the workspace it is part of, so that a merge changes no session and can be undone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from hermes_sessions.errors import InvalidInput, NotFound
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.model.workspace import Place, workspace_name
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction, placeholders
from hermes_sessions.storage.repositories.rows import VISIBLE, names, scope_condition
from hermes_sessions.storage.store_context import StoreContext
from hermes_sessions.storage.tables import WORKSPACES

if TYPE_CHECKING:
    from hermes_sessions.storage.records import WorkspaceIdentity, WorkspaceRecord

COLUMNS = [column.name for column in WORKSPACES.columns]


class _Workspace(NamedTuple):
    """A row of ``workspaces``."""

    id: str
    name: str
    identity: str | None
    path: str | None
    created_at: float
    merged_into: str | None


class Workspaces:
    """Finds, names and merges workspaces."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def in_use(self, scope: Scope = OWNER) -> list[WorkspaceRecord]:
        """See `SessionDB.list_workspaces`."""
        with self._store.provider.read() as tx:
            counts = _session_counts(tx, scope)
            rows = _all(tx)
        shown = [
            _record(row, rows.values(), counts) for row in rows.values() if row.merged_into is None
        ]
        used = [record for record in shown if record["sessions"]]
        return sorted(used, key=lambda record: -(record["last_active"] or 0))

    def find(self, reference: str, scope: Scope = OWNER) -> list[WorkspaceRecord]:
        """See `SessionDB.find_workspaces`."""
        wanted = reference.casefold()
        return [
            record
            for record in self.in_use(scope)
            if reference == record["id"] or record["name"].casefold() == wanted
        ]

    def at(self, directory: str | os.PathLike[str]) -> WorkspaceRecord | None:
        """See `SessionDB.get_workspace_at`."""
        place = self.locate(directory)
        with self._store.provider.read() as tx:
            rows = _all(tx)
            found = _at(rows.values(), place)
            if found is None:
                return None
            head = rows.get(found.merged_into or "", found)
            group = [row.id for row in rows.values() if head.id in (row.id, row.merged_into)]
            counts = _session_counts(tx, OWNER, group)
        return _record(head, rows.values(), counts)

    def names(self) -> dict[str, str]:
        """See `SessionDB.get_workspace_names`."""
        with self._store.provider.read() as tx:
            rows = _all(tx)
        return {row.id: rows.get(row.merged_into or "", row).name for row in rows.values()}

    def locate(self, directory: str | os.PathLike[str]) -> Place:
        """Return the place of a directory, with the first commit if it decides the workspace."""
        from hermes_sessions.storage import working_directory  # Starts programs; rarely needed.

        place = working_directory.locate(directory)
        if place.repo_root is None:
            return place
        with self._store.provider.read() as tx:
            is_known = _with_identity(tx, place.identities()[0]) is not None
        # The history of a project with a remote is asked once, when the remote is new.
        if place.remote is not None and is_known:
            return place
        return place._replace(first_commit=working_directory.find_first_commit(place))

    def rename(self, workspace_id: str, name: str) -> None:
        """See `SessionDB.rename_workspace`."""
        cleaned = workspace_name(name)

        def work(tx: WriteTransaction) -> None:
            _require(tx, workspace_id)
            tx.run("UPDATE workspaces SET name = ? WHERE id = ?", (cleaned, workspace_id))

        self._store.provider.write(work)

    def move(self, workspace_id: str, directory: str | os.PathLike[str]) -> None:
        """See `SessionDB.move_workspace`."""
        place = self.locate(directory)
        identity = place.identities()[0]

        def work(tx: WriteTransaction) -> None:
            _require(tx, workspace_id)
            other = _with_identity(tx, identity)
            if other is not None and other.id != workspace_id:
                raise InvalidInput(
                    f"{place.root} is the workspace {other.name!r} ({other.id}) already. Merge the "
                    f"two instead."
                )
            tx.run(
                "UPDATE workspaces SET identity = ?, path = ? WHERE id = ?",
                (identity, place.root, workspace_id),
            )

        self._store.provider.write(work)

    def merge(self, workspace_id: str, into: str) -> None:
        """See `SessionDB.merge_workspaces`."""

        def work(tx: WriteTransaction) -> None:
            merged, target = _require(tx, workspace_id), _require(tx, into)
            if merged.id == target.id:
                raise InvalidInput("A workspace cannot be merged into itself. Name another one.")
            tx.run(
                "UPDATE workspaces SET merged_into = ? WHERE id = ? OR merged_into = ?",
                (target.id, merged.id, merged.id),
            )

        self._store.provider.write(work)

    def separate(self, workspace_id: str) -> int:
        """See `SessionDB.separate_workspaces`."""

        def work(tx: WriteTransaction) -> int:
            _require(tx, workspace_id)
            return tx.run(
                "UPDATE workspaces SET merged_into = NULL WHERE merged_into = ?", (workspace_id,)
            )

        return self._store.provider.write(work)

    def ids_of(self, reference: str, scope: Scope = OWNER) -> list[str]:
        """Return all ids that sessions of a workspace have, [] if there is none."""
        with self._store.provider.read() as tx:
            return workspace_ids(tx, [reference], scope)[reference]


def workspace_of(tx: WriteTransaction, place: Place, now: float) -> str:
    """Return the id of the workspace of a place; add it if it is new, with the earlier sessions of
    the same directory that have none.

    A project that has got a repository or a remote since keeps its workspace.
    """
    identities = place.identities()
    rows = tx.all(
        f"SELECT {names(COLUMNS)} FROM workspaces "
        f"WHERE identity IN ({placeholders(len(identities))}) ORDER BY created_at, id",
        identities,
    )
    known = _at(map(_Workspace._make, rows), place)
    if known is None:
        workspace_id = _insert(tx, place, now)
        # Sessions of programs that recorded the directory alone.
        tx.run(
            "UPDATE sessions SET workspace_id = ? "
            "WHERE workspace_id IS NULL AND (git_repo_root = ? OR cwd = ?)",
            (workspace_id, place.root, place.root),
        )
        return workspace_id
    if (known.identity, known.path) != (identities[0], place.root):
        tx.run(
            "UPDATE workspaces SET identity = ?, path = ? WHERE id = ?",
            (identities[0], place.root, known.id),
        )
    return known.id


def imported_workspace(tx: WriteTransaction, stated: WorkspaceIdentity, now: float) -> str:
    """Return the id of the workspace that an export names; add it if there is none like it."""
    identity = stated["identity"]
    known = _with_identity(tx, identity) if identity is not None else None
    known = known or _find(tx, stated["id"])
    if known is not None:
        return known.id
    _add(tx, _Workspace(stated["id"], stated["name"], identity, stated["path"], now, None))
    return stated["id"]


def exported_workspace(tx: ReadTransaction, workspace_id: str) -> WorkspaceIdentity | None:
    """Return what an export says about a workspace."""
    row = _find(tx, workspace_id)
    return None if row is None else _identity_of(row)


def workspace_ids(
    tx: ReadTransaction, references: Iterable[str], scope: Scope = OWNER
) -> dict[str, list[str]]:
    """Return for each id or name of a workspace all ids that sessions in it have."""
    wanted = list(references)
    if not wanted:
        return {}
    rows = _all(tx)
    if not scope.is_owner:
        visible = _session_counts(tx, scope)
        rows = {key: row for key, row in rows.items() if key in visible}
    found: dict[str, list[str]] = {}
    for reference in wanted:
        name = reference.casefold()
        heads = {
            row.id for row in rows.values() if row.id == reference or row.name.casefold() == name
        }
        heads |= {rows[head].merged_into or head for head in heads}
        found[reference] = [
            row.id for row in rows.values() if row.id in heads or row.merged_into in heads
        ]
    return found


def remove_unused_workspace(tx: WriteTransaction, workspace_id: str) -> None:
    """Delete a workspace, and those that were merged with it, once no session is in any of them."""
    row = _find(tx, workspace_id)
    if row is None:
        return
    head = row.merged_into or row.id
    group = "SELECT id FROM workspaces WHERE id = ? OR merged_into = ?"
    if (
        tx.one(f"SELECT 1 FROM sessions WHERE workspace_id IN ({group}) LIMIT 1", (head, head))
        is None
    ):
        tx.run("DELETE FROM workspaces WHERE id = ? OR merged_into = ?", (head, head))


def _at(rows: Iterable[_Workspace], place: Place) -> _Workspace | None:
    """Return the workspace of a place: by its identity, or the one that was here before the project
    had a repository or a remote.
    """
    identity, *weaker = place.identities()
    before = None
    for row in rows:
        if row.identity == identity:
            return row
        if row.identity in weaker and row.path == place.root:
            before = row
    return before


def _insert(tx: WriteTransaction, place: Place, now: float) -> str:
    identity = place.identities()[0]
    salt = 0
    while True:
        text = f"{identity}\n{now}\n{salt}".encode("utf-8", "surrogatepass")
        workspace_id = f"w-{blake2b(text, digest_size=6).hexdigest()}"
        if _find(tx, workspace_id) is None:
            break
        salt += 1
    _add(tx, _Workspace(workspace_id, place.name(), identity, place.root, now, None))
    return workspace_id


def _add(tx: WriteTransaction, row: _Workspace) -> None:
    tx.run(f"INSERT INTO workspaces ({names(COLUMNS)}) VALUES ({placeholders(len(COLUMNS))})", row)


def _all(tx: ReadTransaction) -> dict[str, _Workspace]:
    rows = tx.all(f"SELECT {names(COLUMNS)} FROM workspaces ORDER BY created_at, id")
    return {row[0]: _Workspace._make(row) for row in rows}


def _find(tx: ReadTransaction, workspace_id: str) -> _Workspace | None:
    row = tx.one(f"SELECT {names(COLUMNS)} FROM workspaces WHERE id = ?", (workspace_id,))
    return _Workspace._make(row) if row else None


def _with_identity(tx: ReadTransaction, identity: str) -> _Workspace | None:
    row = tx.one(
        f"SELECT {names(COLUMNS)} FROM workspaces WHERE identity = ? ORDER BY created_at, id",
        (identity,),
    )
    return _Workspace._make(row) if row else None


def _require(tx: ReadTransaction, workspace_id: str) -> _Workspace:
    row = _find(tx, workspace_id)
    if row is None:
        raise NotFound(f"There is no workspace {workspace_id!r}. List them: list_workspaces().")
    if row.merged_into is not None:
        raise InvalidInput(
            f"The workspace {row.name!r} was merged into {row.merged_into!r}. Use that one."
        )
    return row


def _session_counts(
    tx: ReadTransaction, scope: Scope, only: Sequence[str] | None = None
) -> dict[str, tuple[int, float]]:
    """Return for each workspace, or only for some, the number of its sessions and their last
    activity.
    """
    seen, params = scope_condition(scope)
    if only is not None:
        seen, params = f"{seen} AND workspace_id IN ({placeholders(len(only))})", (*params, *only)
    rows = tx.all(
        f"SELECT workspace_id, COUNT(*), MAX(last_active) FROM sessions "
        f"WHERE workspace_id IS NOT NULL AND {VISIBLE} AND {seen} GROUP BY workspace_id",
        params,
    )
    return {row[0]: (row[1], row[2] or 0.0) for row in rows}


def _record(
    row: _Workspace, rows: Iterable[_Workspace], counts: dict[str, tuple[int, float]]
) -> WorkspaceRecord:
    merged = [other for other in rows if other.merged_into == row.id]
    members = [counts[one.id] for one in (row, *merged) if one.id in counts]
    return {
        **_identity_of(row),
        "created_at": row.created_at,
        "sessions": sum(number for number, _ in members),
        "last_active": max((active for _, active in members), default=None),
        "merged": [_identity_of(other) for other in merged],
    }


def _identity_of(row: _Workspace) -> WorkspaceIdentity:
    return {"id": row.id, "name": row.name, "identity": row.identity, "path": row.path}
