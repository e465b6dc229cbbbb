"""Options that select sessions by their labels and their workspace.

Several commands share them: ``--tag``, ``--not-tag``, ``--meta``, ``--workspace`` and ``--here``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

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

    def narrowed(self, conditions: SearchConditions) -> SearchConditions:
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

    tags: tuple[str, ...]
    exclude_tags: tuple[str, ...]
    metadata: tuple[tuple[str, str], ...]
    workspace: str | None
    here: bool

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


def selection_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command these options, and their values as *selection*."""

    def command(**values: Any) -> None:
        given = SelectionOptions(**{name: values.pop(name) for name in SelectionOptions._fields})
        if given.here and given.workspace is not None:
            raise click.UsageError("--here and --workspace cannot be combined.")
        function(**values, selection=given)

    functools.update_wrapper(command, function)
    decorated: Callable[..., None] = command
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _tags(_context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> Any:
    from hermes_sessions.model.labels import normalize_tag

    try:
        return tuple(map(normalize_tag, value))
    except InvalidInput as error:
        raise click.BadParameter(str(error), param=parameter) from error


def _pairs(_context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> Any:
    pairs = [text.partition("=") for text in value]
    for text, (key, sign, _) in zip(value, pairs, strict=True):
        if not key or not sign:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE.", param=parameter)
    return tuple((key, wanted) for key, _, wanted in pairs)


_OPTIONS = (
    click.option(
        "--tag",
        "tags",
        metavar="NAME",
        multiple=True,
        callback=_tags,
        help="Only sessions with this tag. Can be repeated: all must be there.",
    ),
    click.option(
        "--not-tag",
        "exclude_tags",
        metavar="NAME",
        multiple=True,
        callback=_tags,
        help="Only sessions without this tag. Can be repeated.",
    ),
    click.option(
        "--meta",
        "metadata",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_pairs,
        help="Only sessions whose metadata has this value. Can be repeated.",
    ),
    click.option(
        "--workspace",
        metavar="NAME",
        help="Only sessions of this workspace: a name, an id or a directory.",
    ),
    click.option("--here", is_flag=True, help="Only sessions of the current directory's project."),
)


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


def find_workspace(db: SessionDB, reference: str) -> WorkspaceRecord:
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
