"""Import of files from older installations: ``sessions.json`` and ``{session_id}.jsonl``
transcripts.

They are imported once, before the new version writes there. Existing database rows stay as they
are. An entry or transcript that cannot be read is skipped and reported; the entry stays in the
file.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from hermes_sessions.errors import InvalidInput
from hermes_sessions.lifecycle.host_files import SESSIONS_JSON
from hermes_sessions.lifecycle.lane_dependencies import LaneDependencies
from hermes_sessions.lifecycle.lane_updates import TransitionCause, record
from hermes_sessions.lifecycle.session_entry import SessionEntry
from hermes_sessions.lifecycle.transcript_messages import stored_form
from hermes_sessions.model.ids import require_id
from hermes_sessions.model.lane import LaneKey, LaneNotice, normalise_whatsapp, parse_key
from hermes_sessions.storage.codec import from_json, to_json
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories import lane_sessions
from hermes_sessions.storage.repositories.lanes import NO_SESSION
from hermes_sessions.storage.repositories.meta import Meta
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.transfer.copy_ledger import identity

# The files in which older installations stored which WhatsApp ids belong to the same user.
#
# ``<home>/whatsapp/session/lid-mapping-<id>.json``, and the same with ``_reverse``, each contain
# another id of the user in their name. They are only read. Nothing outside that directory is read,
# neither through a name with slashes nor through a link.


_MAX_BYTES: Final = 4096
#: A user has two or three ids; files that link more are damaged or forged.
_MAX_ALIASES: Final = 16


_ID: Final = r"[A-Za-z0-9@.+-]{1,128}"


_FILE: Final = re.compile(rf"lid-mapping-({_ID}?)(?:_reverse)?\.json")


class LidMapping:
    """The mapping files of one home directory; they may be missing."""

    def __init__(self, home: Path) -> None:
        self._directory = home / "whatsapp" / "session"

    def aliases_of(self, identifier: str) -> tuple[str, ...]:
        """Return the ids of the same user, the given one first, each once."""
        found = [normalise_whatsapp(identifier)]
        for alias in found:
            for name in (f"lid-mapping-{alias}.json", f"lid-mapping-{alias}_reverse.json"):
                other = self._read(name) if len(found) < _MAX_ALIASES else None
                if other and other not in found:
                    found.append(other)
        return tuple(found)

    def people(self) -> Iterator[tuple[str, ...]]:
        """Yield the ids of every user in the files, each user once."""
        seen: set[str] = set()
        for name in self._names():
            match = _FILE.fullmatch(name)
            if match and match[1] not in seen:
                aliases = self.aliases_of(match[1])
                seen.update(aliases)
                if len(aliases) > 1:
                    yield aliases

    def _names(self) -> list[str]:
        try:
            return sorted(path.name for path in self._directory.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            logger.warning("Cannot list %s: %s", self._directory, error.strerror)
            return []

    def _read(self, name: str) -> str | None:
        """Return the id in a file, or None if it is missing or unusable."""
        if not _FILE.fullmatch(name):
            return None
        try:
            content = _content(self._directory / name)
            value = None if content is None else json.loads(content)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            logger.warning("Skipped %s: it cannot be read (%s)", name, type(error).__name__)
            return None
        text = str(value) if isinstance(value, (str, int)) else ""
        alias = normalise_whatsapp(text)
        return alias if re.fullmatch(_ID, alias) else None


def _content(path: Path) -> bytes | None:
    # A link could lead elsewhere and a pipe never ends, so opening must refuse both.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        content = file.read(_MAX_BYTES + 1)
    return content if len(content) <= _MAX_BYTES else None


logger = Logger(__name__)

_SESSION_ID: Final = re.compile(r"\d{8}_\d{6}_[0-9a-f]{6,8}")
#: Lines that describe a transcript instead of being messages.
_NO_MESSAGES: Final = frozenset({"session_meta"})


class SkippedItem(NamedTuple):
    """An entry or a file that was not imported."""

    #: A key of ``sessions.json``, or the name of a file.
    what: str
    why: str


class ImportReport(NamedTuple):
    """The result of an import from an older installation."""

    #: Imported lanes.
    entries: int = 0
    #: Sessions whose messages were imported from files.
    transcripts: int = 0
    skipped: tuple[SkippedItem, ...] = ()
    #: Why ``sessions.json`` as a whole cannot be read; it is then left alone.
    unreadable: str | None = None


class LegacyFiles:
    """The files of an older installation in a directory."""

    def __init__(self, directory: Path, db: SessionDB, deps: LaneDependencies) -> None:
        self._directory = directory
        self._db = db
        self._deps = deps
        self._meta = Meta(deps.store)

    @cached_property
    def _mark(self) -> str:
        """The key under which the database records that these files were imported.

        It includes the database: after a migration to another one, the lanes are imported from the
        file that the first one wrote.
        """
        return _named("sessions_json_imported", [self._deps.namespace, *self._import_identity])

    @property
    def _import_identity(self) -> list[str]:
        return [
            platform.node(),
            os.path.realpath(self._directory),
            identity(self._deps.store.provider),
        ]

    def owner(self) -> str:
        """Return the bot that owns these files: the first of several in one directory.

        Otherwise one bot would import the lanes of another, and users of both would continue with
        one bot a conversation they had with the other.
        """
        mark = _named("sessions_json_owner", self._import_identity)
        return self._meta.find(mark) or self._deps.store.provider.write(
            lambda tx: self._own(tx, mark)
        )

    def _own(self, tx: WriteTransaction, mark: str) -> str:
        row = tx.one('SELECT value FROM state_meta WHERE "key" = ?', (mark,))
        if row is not None:
            return str(row[0])
        self._meta.put(tx, mark, self._deps.namespace)
        return self._deps.namespace

    def are_there(self) -> bool:
        """Tell whether the directory has any importable file."""
        has_transcripts = next(self._directory.glob("*.jsonl"), None) is not None
        return has_transcripts or (self._directory / SESSIONS_JSON).exists()

    def import_once(self) -> ImportReport | None:
        """Import the files unless that was done before; None if there is nothing to do.

        Raises:
            StoreError: the database failed; the next start tries again.
        """
        if not self.are_there():
            return None
        transcripts = sorted(self._directory.glob("*.jsonl"))
        if self._meta.find(self._mark) is not None:
            return None
        try:
            found = self._read()
        except (OSError, ValueError, RecursionError) as error:
            report = ImportReport(unreadable=str(error))
        else:
            report = self._take_over(found, transcripts)
        self._tell(report)
        return report

    def kept_entries(self) -> dict[str, Any]:
        """Return the unreadable entries of ``sessions.json``, to be written there again."""
        remembered = from_json(self._meta.find(self._mark), {})
        kept = remembered.get("kept") if isinstance(remembered, dict) else None
        return kept if isinstance(kept, dict) else {}

    def _read(self) -> dict[str, Any]:
        try:
            # Tolerate a name cut inside a character and an editor's byte order mark.
            file = self._directory / SESSIONS_JSON
            text = file.read_text(encoding="utf-8-sig", errors="surrogateescape")
        except FileNotFoundError:
            return {}
        found = json.loads(text)
        if not isinstance(found, dict):
            raise InvalidInput(f"it contains a {type(found).__name__} instead of an object")
        return found

    def _take_over(self, found: dict[str, Any], transcripts: Iterable[Path]) -> ImportReport:
        entries: dict[str, tuple[SessionEntry, LaneKey]] = {}
        skipped: list[SkippedItem] = []
        for name, value in found.items():
            if name.startswith("_"):
                continue  # A comment for readers, which later versions write.
            try:
                entry = SessionEntry.from_dict(value)
                require_id(entry.session_id)
                entries[name] = entry, _key_of(self._deps, entry)
            except InvalidInput as error:
                skipped.append(SkippedItem(name, str(error)))
        imported = self._import_transcripts(
            transcripts, {entry.session_id: entry for entry, _ in entries.values()}, skipped
        )
        kept = {name: found[name] for name, _ in skipped if name in found}

        def work(tx: WriteTransaction) -> int:
            taken = sum(_add(tx, self._deps, entry, key) for entry, key in entries.values())
            self._meta.put(tx, self._mark, to_json({"entries": taken, "kept": kept}))
            return taken

        taken = self._deps.store.provider.write(work, isolated=False)
        return ImportReport(taken, imported, tuple(skipped))

    def _import_transcripts(
        self, files: Iterable[Path], entries: Mapping[str, SessionEntry], skipped: list[SkippedItem]
    ) -> int:
        wanted = {
            file.stem: file
            for file in files
            if file.stem in entries or _SESSION_ID.fullmatch(file.stem)
        }
        with self._deps.store.provider.read() as tx:
            known = lane_sessions.find_many(tx, wanted)
        imported = 0
        for session_id, file in wanted.items():
            if session_id in known:
                continue
            try:
                self._import_transcript(session_id, file, entries.get(session_id))
                imported += 1
            except (OSError, ValueError, RecursionError) as error:
                skipped.append(SkippedItem(file.name, str(error)))
        return imported

    def _import_transcript(self, session_id: str, file: Path, entry: SessionEntry | None) -> None:
        origin = entry.origin if entry else None
        messages = list(_messages(file))
        known = [message["timestamp"] for message in messages if "timestamp" in message]
        started = entry.created_at.timestamp() if entry else file.stat().st_mtime
        began = min([started, *known])
        # Messages without a time get the time of the one before.
        latest = began
        for message in messages:
            latest = message.setdefault("timestamp", latest)
        result = self._db.import_sessions(
            [
                {
                    "id": session_id,
                    "source": origin.platform.value if origin else "unknown",
                    "user_id": origin and (origin.user_id_alt or origin.user_id),
                    "started_at": began,
                    # A session without a lane is no longer in use.
                    "ended_at": None if entry else latest,
                    "end_reason": None if entry else "imported",
                    "messages": messages,
                }
            ],
            leave_out_invalid=True,
        )
        if result["errors"]:
            raise InvalidInput(result["errors"][0]["error"])

    def _tell(self, report: ImportReport) -> None:
        file = self._directory / SESSIONS_JSON
        if report.unreadable is not None:
            logger.warning(
                "%s cannot be read and is left alone: %s. Repair or remove it.",
                file,
                report.unreadable,
            )
        for what, why in report.skipped:
            logger.warning("%s: %s was not imported: %s", self._directory, what, why)
        if report.entries or report.transcripts:
            logger.info(
                "%s: imported %d lanes and %d transcripts",
                self._directory,
                report.entries,
                report.transcripts,
            )


def _named(what: str, facts: list[str]) -> str:
    return f"{what}:{hashlib.sha256(to_json(facts).encode()).hexdigest()}"


def _messages(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the messages of a transcript; a truncated last line is ignored.

    Raises:
        InvalidInput: any other line is not a message.
    """
    lines = file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            if number == len(lines):
                return
            raise InvalidInput(f"line {number} is not JSON: {error}") from error
        role = value.get("role") if isinstance(value, dict) else None
        if isinstance(role, str) and role in _NO_MESSAGES:
            continue
        yield stored_form(value)


def _key_of(deps: LaneDependencies, entry: SessionEntry) -> LaneKey:
    """Return the key of an entry; older keys did not escape colons in their parts.

    Raises:
        InvalidInput: not a valid key.
    """
    if entry.origin is not None:
        key = deps.key_of(entry.origin)
        parts = (key.chat_id, key.thread_id, key.participant_id)
        plain = ["agent", key.profile, key.platform, key.chat_type, *filter(None, parts)]
        if entry.session_key in {key.render(), ":".join(plain)}:
            return key
    return parse_key(entry.session_key)


def _add(tx: WriteTransaction, deps: LaneDependencies, entry: SessionEntry, key: LaneKey) -> bool:
    """Create the lane of an entry unless it exists; return whether it was created."""
    used = entry.updated_at.timestamp()
    lane = deps.lanes.ensure(tx, deps.namespace, key, now=used, origin=entry.origin)
    if lane.session_id != NO_SESSION:
        return False
    record(
        tx,
        deps,
        lane,
        TransitionCause("import", SESSIONS_JSON, "import"),
        deps.store.clock(),
        to_session_id=entry.session_id,
    )
    changes: dict[str, Any] = {
        "session_id": entry.session_id,
        "created_at": entry.created_at.timestamp(),
        "updated_at": used,
        "display_name": entry.display_name,
        "last_prompt_tokens": entry.last_prompt_tokens,
        "notice": _notice(entry),
        "finalized_at": used if entry.expiry_finalized else None,
    }
    if entry.suspended:
        changes |= {"status": "suspended", "status_at": used}
    elif entry.resume_pending:
        marked = entry.last_resume_marked_at
        changes |= {
            "status": "resume_pending",
            "status_reason": entry.resume_reason,
            "status_at": marked.timestamp() if marked else used,
        }
    deps.lanes.change(tx, lane, **changes)
    return True


def _notice(entry: SessionEntry) -> LaneNotice | None:
    at = entry.created_at.timestamp()
    if entry.was_auto_reset:
        return LaneNotice("auto_reset", entry.auto_reset_reason, entry.reset_had_activity, None, at)
    return LaneNotice("fresh_reset", None, at=at) if entry.is_fresh_reset else None
