"""Writing the session that is being talked in to a file."""

from __future__ import annotations

from pathlib import Path

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.jsonl import write_jsonl
from hermes_sessions.storage.sessiondb import SessionDB


def export_session(db: SessionDB, session_id: str, name: str) -> Path:
    """Write a session as JSON Lines to *name*, or to a file named after it; return the path.

    Raises:
        InvalidInput: the file is there already, or cannot be written.
    """
    path = Path(name or f"{session_id}.jsonl").expanduser()
    record = db.export_session(session_id)
    try:
        with path.open("xb") as file:
            write_jsonl([record] if record else [], file)
    except FileExistsError:
        raise InvalidInput(f"{path} is there already. Name another file: /export NAME") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written ({error.strerror}).") from error
    return path
