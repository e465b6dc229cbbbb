"""Finds the session that a reference names: an id, the beginning of one, or a title.

An exact id wins, then an exact title, then the only id that begins with the text, then the title
family (``my project`` stands for the most recently active of its numbered variants). Any other
reference is an error that lists the candidates or the closest names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hermes_sessions.errors import InvalidInput, InvalidTitle, NotFound
from hermes_sessions.model.message import preview_of
from hermes_sessions.model.title import sanitize_title
from hermes_sessions.storage.sessiondb import SessionDB

_PAGE = 20
#: A session without a user message among the first this many is not a dialogue.
_PREVIEW_SEARCHED = 200


def preview_of_session(db: SessionDB, session_id: str) -> str:
    """Return the beginning of the first user message, "" if there is none."""
    for start in range(0, _PREVIEW_SEARCHED, _PAGE):
        page = db.get_messages(session_id, limit=_PAGE, offset=start)
        for message in page:
            if message["role"] == "user" and message["content"] is not None:
                return preview_of(message["content"])
        if len(page) < _PAGE:
            break
    return preview_of(None)


Record = Mapping[str, Any]

#: How many candidates an ambiguous reference shows.
_CANDIDATES_SHOWN = 10
#: How many of the latest sessions are searched for similar names.
_COMPARED = 1000
_SUGGESTED = 3
#: A single letter is part of nearly every title.
_PART_AT_LEAST = 2


def find_session(db: SessionDB, reference: str) -> Record:
    """Return the session that *reference* names.

    Raises:
        NotFound: no session matches; the message suggests similar names.
        InvalidInput: several match; the message lists them.
    """
    exact = db.get_session(reference) or _with_title(db, reference)
    if exact is not None:
        return exact
    ids = db.find_session_ids(reference, limit=_CANDIDATES_SHOWN + 1) if reference else []
    if len(ids) > 1:
        raise InvalidInput(_ambiguous(reference, _records(db, ids)))
    variant = ids[0] if ids else db.resolve_session_by_title(reference)
    session = db.get_session(variant) if variant else None
    if session is None:
        raise NotFound(_not_found(db, reference))
    return session


def find_in_trash(trash: Sequence[Record], reference: str) -> Record:
    """Return the session of *trash* that *reference* names; raises like `find_session`."""
    for column in ("id", "title"):
        for session in trash:
            # If one title was deleted twice, the most recent comes first.
            if session[column] == reference:
                return session
    matches = [s for s in trash if reference and s["id"].lower().startswith(reference.lower())]
    if len(matches) > 1:
        raise InvalidInput(_ambiguous(reference, matches))
    if not matches:
        raise NotFound(
            f"{reference!r} is not in the trash.{_nearest(reference, trash)} "
            f"To list the trash, run: hermes sessions trash"
        )
    return matches[0]


def _with_title(db: SessionDB, reference: str) -> Record | None:
    try:
        # Normalised as stored, so that a title copied from elsewhere is found.
        title = sanitize_title(reference)
    except InvalidTitle:
        return None
    return db.get_session_by_title(title) if title else None


def _records(db: SessionDB, ids: Iterable[str]) -> list[Record]:
    return [session for session in map(db.get_session, ids) if session is not None]


def _ambiguous(reference: str, candidates: Sequence[Mapping[str, Any]]) -> str:
    shown = [
        f"  {session['id']}  {session.get('title') or '(' + str(session['source']) + ')'}"
        for session in candidates[:_CANDIDATES_SHOWN]
    ]
    if len(candidates) > _CANDIDATES_SHOWN:
        shown.append("  ... and more")
    return "\n".join([f"{reference!r} matches several sessions. Use more of the id:", *shown])


def _not_found(db: SessionDB, reference: str) -> str:
    if any(reference in {session["id"], session["title"]} for session in db.list_trash()):
        from hermes_sessions.cli.render.shell_commands import command_on

        return (
            f"{reference!r} is in the trash. To restore it, run: {command_on('restore', reference)}"
        )
    latest = db.list_sessions_rich(
        limit=_COMPARED, include_children=True, include_archived=True, compact_rows=True
    )
    return (
        f"No session matches {reference!r}.{_nearest(reference, latest)} "
        f"To list sessions, run: hermes sessions list"
    )


def _nearest(reference: str, sessions: Iterable[Mapping[str, Any]]) -> str:
    from difflib import get_close_matches

    typed = reference.strip().lower()
    names: dict[str, str] = {}
    of_part: list[str] = []
    for session in sessions:
        for name in (session["id"], session["title"]):
            if name:
                names.setdefault(name.lower(), name)
        title = (session["title"] or "").lower()
        # A part of a title is a strong hint, however long the rest of the title is.
        if len(typed) >= _PART_AT_LEAST and typed in title:
            of_part.append(title)
    of_part.sort(key=lambda title: not title.startswith(typed))
    alike = get_close_matches(typed, names, n=_SUGGESTED)
    near = list(dict.fromkeys([*of_part, *alike]))[:_SUGGESTED]
    return f" Did you mean {' or '.join(repr(names[name]) for name in near)}?" if near else ""
