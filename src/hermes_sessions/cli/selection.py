"""The selection of sessions by their labels and their workspace.

Several commands share it. `cli.options` declares its options: ``--tag``, ``--not-tag``, ``--meta``,
``--workspace`` and ``--here``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hermes_sessions.errors import HermesSessionsError, InvalidInput, NotFound
from hermes_sessions.storage.sessiondb import SessionDB

if TYPE_CHECKING:
    from hermes_sessions.storage.records import WorkspaceRecord
    from hermes_sessions.text.query.filters import SearchConditions


class DirectoryIsGone(HermesSessionsError):
    """The current directory was deleted."""


class Selection(NamedTuple):
    """The sessions that these options select."""

    tags: tuple[str, ...] = ()
    exclude_tags: tuple[str, ...] = ()
    #: Keys and values, as they were typed.
    metadata: tuple[tuple[str, str], ...] = ()
    #: The id of a workspace, or a text that is not one.
    workspace: str | None = None

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the verbs that list, export and prune."""
        return {
            "tags": self.tags,
            "exclude_tags": self.exclude_tags,
            "metadata": dict(self.metadata),
            "workspace": self.workspace,
        }

    def narrowed(self, conditions: "SearchConditions") -> "SearchConditions":
        """Return the conditions of a search with these added."""
        from dataclasses import replace

        return replace(
            conditions,
            tags=self.tags,
            exclude_tags=self.exclude_tags,
            metadata=self.metadata,
            workspaces=() if self.workspace is None else (self.workspace,),
        )


EVERYTHING: Final = Selection()


class SelectionOptions(NamedTuple):
    """The values of the options; `read` needs the store."""

    tags: tuple[str, ...] = ()
    exclude_tags: tuple[str, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    workspace: str | None = None
    here: bool = False

    def read(self, db: SessionDB) -> Selection:
        """Return the selection.

        Raises:
            NotFound, InvalidInput: no workspace matches, or several do.
        """
        workspace = self.workspace
        if self.here:
            workspace = workspace_here(db)
        elif workspace is not None:
            workspace = find_workspace(db, workspace)["id"]
        return Selection(self.tags, self.exclude_tags, self.metadata, workspace)

    def __bool__(self) -> bool:
        return self.given() is not None

    def given(self) -> str | None:
        """Return the name of an option that was given, or None."""
        names = ("tag", "not-tag", "meta", "workspace", "here")
        return next((name for name, value in zip(names, self, strict=True) if value), None)


NO_OPTIONS: Final = SelectionOptions()


def current_directory() -> str:
    """Return the current directory.

    Raises:
        DirectoryIsGone: it was deleted.
    """
    try:
        return str(Path.cwd())
    except OSError as error:
        raise DirectoryIsGone(
            "The current directory does not exist any more. Change to another one."
        ) from error


def workspace_here(db: SessionDB) -> str:
    """Return the id of the workspace of the current directory; its path if it is none yet, so that
    nothing is found.
    """
    directory = current_directory()
    workspace = db.get_workspace_at(directory)
    return directory if workspace is None else workspace["id"]


def find_workspace(db: SessionDB, reference: str) -> "WorkspaceRecord":
    """Return the workspace that a name, an id or a directory means.

    Raises:
        NotFound: none does.
        InvalidInput: several do; the message lists them.
    """
    found = db.find_workspaces(reference)
    if not found and ("/" in reference or reference in (".", "..")):
        workspace = db.get_workspace_at(reference)
        found = [workspace] if workspace is not None else []
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(
            f"There is no workspace {reference!r}. To list them, run: hermes workspaces list"
        )
    listed = "\n".join(f"  {w['id']}  {w['path'] or w['identity']}" for w in found)
    raise InvalidInput(f"{reference!r} is the name of several workspaces. Use the id:\n{listed}")


def columns_of_labels(db: SessionDB, sessions: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return what a list shows of the labels of its sessions: a column of tags and one of
    workspaces, each only if a session has any.
    """
    columns: dict[str, list[str]] = {}
    if any(session["tags"] for session in sessions):
        columns["Tags"] = [", ".join(session["tags"]) for session in sessions]
    if any(session["workspace_id"] for session in sessions):
        names = db.get_workspace_names()
        columns["Workspace"] = [names.get(s["workspace_id"] or "", "") for s in sessions]
    return columns
