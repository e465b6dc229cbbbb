"""Writing the session that is being talked in to a file."""

from __future__ import annotations

from pathlib import Path

from hermes_sessions.cli.files import FileRefused, written_whole
from hermes_sessions.cli.sessions.forms import FORMS, JSONL, form_of, write_as
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
    path = Path(name or f"{session_id}.{form or JSONL}").expanduser()
    if path.exists():
        raise FileRefused(f"{path} is there already. Name another file: /export NAME")
    if is_file_of_store(str(path)):
        raise FileRefused(f"{path} belongs to the store itself. Choose another name.")
    record = db.export_session(session_id)
    with written_whole(str(path), replace=False) as file:
        write_as(form or form_of(path.name), [record] if record else [], file)
    return path
