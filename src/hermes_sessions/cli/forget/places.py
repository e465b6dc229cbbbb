"""All places around a store in which something of somebody may be."""

from __future__ import annotations

from pathlib import Path

from hermes_sessions.agent.chat_spool import keeping_directory
from hermes_sessions.cli.forget.history import InputHistory
from hermes_sessions.config.settings import Settings
from hermes_sessions.gateway.spool_erasure import spools_of
from hermes_sessions.lifecycle.file_erasure import IndexEntries, RestartCounts
from hermes_sessions.storage.care.erasure.coordinator import Erasure, Place
from hermes_sessions.storage.care.erasure.file_places import Copies, Transcripts
from hermes_sessions.storage.care.erasure.in_backups import Backups
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.transfer.copy_ledger import identity

#: Where the prompt of a chat keeps what was typed, in the home.
HISTORY_FILE = "chat_history"


def erasure_of(db: SessionDB, settings: Settings) -> Erasure:
    """Return what erases on the configured store, and everywhere around it."""
    home = settings.home
    sessions = home / "sessions"
    places: list[Place] = [
        InputHistory(db.store, home / HISTORY_FILE),
        spools_of(home, db.store, [keeping_directory(home)]),
        IndexEntries(sessions),
        RestartCounts(home),
        Transcripts(sessions),
        Backups(settings.backups.directory, identity(db.provider)),
    ]
    file = db.provider.describe().get("path")
    if file:
        places.append(Copies(Path(file)))
    return Erasure(db.store, places)
