"""Writing the session that is being talked in to a file."""

from __future__ import annotations

import os
from pathlib import Path

from hermes_sessions.cli.files import FileRefused, written_whole
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.sessions.export_formats import FORMS, JSONL, form_of, write_as
from hermes_sessions.cli.store import is_file_of_store
from hermes_sessions.storage.sessiondb import SessionDB


def export_session(db: SessionDB, session_id: str, asked: str) -> Path:
    """Write a session to a file; return its path.

    *asked* is what was typed: a form (jsonl, md, html), the name of a file, both, or nothing. A
    file that is not named is called after the session; a form that is not named is that of the
    file.

    Raises:
        FileRefused: the file is there already, belongs to the store, or cannot be written.
    """
    first, _, rest = asked.strip().partition(" ")
    form = first.lower() if first.lower() in FORMS else None
    name = rest.strip() if form else asked.strip()
    # Not by `Path.expanduser`, which fails on a name such as ~1.md that is nobody's home.
    path = Path(os.path.expanduser(name or f"{session_id}.{form or JSONL}"))  # noqa: PTH111
    try:
        is_taken, is_of_store = path.exists(), is_file_of_store(str(path))
    except (OSError, ValueError) as error:  # a name no file can have, or a place nobody may look at
        why = getattr(error, "strerror", None) or error
        raise FileRefused(f"{one_line(str(path))} cannot be written: {why}.") from error
    if is_taken:
        raise FileRefused(f"{path} is there already. Name another file: /export NAME")
    if is_of_store:
        raise FileRefused(f"{path} belongs to the store itself. Choose another name.")
    record = db.export_session(session_id)
    with written_whole(str(path), replace=False) as file:
        write_as(form or form_of(path.name), [record] if record else [], file)
    return path
