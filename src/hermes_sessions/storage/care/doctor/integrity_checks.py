"""Checks of integrity: readable tables, sound pages, a sound and current search index, a
write-ahead log that was removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from hermes_sessions.errors import StoreCorrupt
from hermes_sessions.storage.care.doctor.check_runner import Check, ExaminedStore
from hermes_sessions.storage.care.doctor.report import Finding, Note, OpenStore, utc_text
from hermes_sessions.storage.care.health import State
from hermes_sessions.storage.codec import from_json
from hermes_sessions.storage.file_inspection import Damage
from hermes_sessions.storage.provider import ReadTransaction
from hermes_sessions.storage.provider_registry import file_care

#: Unindexed messages that a search can scan without a noticeable delay.
_BEHIND: Final = 10_000
#: Each reads a column that no index has, so that the row itself is read.
_ENDS: Final = {
    "sessions": "SELECT model_config FROM sessions ORDER BY id {} LIMIT 1",
    "messages": "SELECT role FROM messages ORDER BY id {} LIMIT 1",
}


def _readable(subject: ExaminedStore) -> Iterable[Finding]:
    """Read the first and the last row of the main tables.

    If neither can be read, no command can list or write, so the store counts as down.
    """
    for table, sql in _ENDS.items():
        failures: list[StoreCorrupt] = []
        for direction in ("ASC", "DESC"):
            try:
                with subject.read() as tx:
                    tx.one(sql.format(direction))
            except StoreCorrupt as error:
                failures.append(error)
        if len(failures) > 1:
            what = f"The table {table} cannot be read: {failures[0]}"
            yield Finding.of("damaged-page", what, state=State.DOWN)
            return
        if failures:
            raise failures[0]


def _pages(subject: ExaminedStore) -> Iterable[Finding | Note]:
    """Check as many pages as the time limit allows."""
    if subject.file is None:
        yield from _on_server(subject)
        return
    found = subject.file.check_pages(until=subject.until, thorough=subject.is_thorough)
    if not found.is_complete:
        yield Note(
            f"Checked {found.checked:,} of {found.total:,} pages within the time limit. "
            f"To check all: hermes doctor --full"
        )
    for condition, damages in _sorted(found.damages).items():
        first = damages[0]
        where = f" in {first.name}" if first.name else ""
        more = f" (and {len(damages) - 1} more)" if len(damages) > 1 else ""
        yield Finding.of(condition, f"{subject.path}{where}: {first.words}{more}.")


def _sorted(damages: Iterable[Damage]) -> dict[str, list[Damage]]:
    found: dict[str, list[Damage]] = {}
    for damage in damages:
        # Both can be rebuilt from the tables, even if a damaged page keeps them from being dropped.
        is_derived = damage.is_index or damage.is_search
        found.setdefault("damaged-index" if is_derived else "damaged-page", []).append(damage)
    return found


def _on_server(subject: ExaminedStore) -> Iterable[Finding | Note]:
    """Ask the server, which checks its own pages."""
    checks = subject.server
    if checks is None:
        return
    if checks.damaged_pages is not None:
        with subject.read() as tx:
            row = tx.one(checks.damaged_pages)
        if row is not None and row[0]:
            yield Finding.of(
                "damaged-page", f"The server counted {row[0]} damaged pages in {subject.location}."
            )
    if checks.check_tables is not None and subject.is_thorough:
        with subject.read() as tx:
            rows = tx.all(checks.check_tables)
        for table, _, kind, words in rows:
            if str(kind).lower() == "error" or (kind == "status" and words != "OK"):
                yield Finding.of("damaged-page", f"{table}: {words}.")
    elif checks.check_tables is not None:
        yield Note("To have the server check its tables: hermes doctor --full")


# ── the search index ──────────────────────────────────────────────────────────────────────────


def _search(subject: ExaminedStore) -> Iterable[Finding]:
    index = subject.index
    if index is None:
        return
    with subject.read() as tx:
        what = None if index.is_sound(tx) else "a test query fails"
        if what is None and subject.is_thorough:
            what = index.damage(tx)
    if what is not None:
        if subject.file is not None:
            subject.file.require_unchanged_during_inspection()
        yield Finding.of(
            "damaged-search-index", f"The search index of {subject.location}: {what}.", _rebuild
        )


def _rebuild(open_store: OpenStore) -> str:
    with open_store() as db:
        done = db.optimize_search(rebuild=True)
    return f"Rebuilt the search index from {done['indexed']} messages and titles."


def pending(tx: ReadTransaction, *, has_mark: bool) -> int:
    """Return how many messages are not indexed yet.

    With *has_mark*, all messages above the index's mark count, too.
    """
    queued = tx.one("SELECT COUNT(*) FROM search_queue")
    number = int(queued[0]) if queued else 0
    if has_mark:
        above = tx.one(
            "SELECT COUNT(*) FROM messages "
            "WHERE id > (SELECT MAX(indexed_through) FROM search_state)"
        )
        number += int(above[0]) if above else 0
    return number


def _behind(subject: ExaminedStore) -> Iterable[Finding]:
    with subject.read() as tx:
        number = pending(tx, has_mark=subject.is_file)
    if number > _BEHIND:
        yield Finding.of("index-behind", f"{number:,} messages are not indexed yet.", _catch_up)


def _catch_up(open_store: OpenStore) -> str:
    with open_store() as db:
        done = db.optimize_search()
    return f"Indexed {done['indexed']} messages and titles."


def _removed_logs(subject: ExaminedStore) -> Iterable[Finding]:
    with subject.read() as tx:
        row = tx.one(
            'SELECT value FROM state_meta WHERE "key" = ?', (file_care().removed_logs_key,)
        )
    match from_json(row[0] if row else None, None):
        case {"count": int(count), "last": float(last)}:
            times = "once" if count == 1 else f"{count:,} times"
            yield Finding.of(
                "removed-log",
                f"{subject.path}-wal was removed while in use {times}, last on {utc_text(last)}.",
                partial(_acknowledge, row[0] if row else None),
            )


def _acknowledge(note: str | None, open_store: OpenStore) -> str:
    # Only this note: one written since then is not known to the user yet.
    sql = 'DELETE FROM state_meta WHERE "key" = ? AND value = ?'
    key = file_care().removed_logs_key
    with open_store() as db:
        db.store.provider.write(lambda tx: tx.run(sql, (key, note)))
    return "Acknowledged. The doctor reports it if it happens again."


READABILITY_CHECKS: Final = (Check(("damaged-page",), _readable),)
SEARCH: Final = (
    Check(("damaged-search-index",), _search),
    Check(("index-behind",), _behind),
)
REMOVED_LOG: Final = (Check(("removed-log",), _removed_logs),)
#: Uses all the time that is left, so it runs last.
PAGES: Final = (Check(("damaged-page", "damaged-index"), _pages, needs="store"),)
