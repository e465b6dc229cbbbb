"""Sizes of sessions and of the store, in bytes of stored text.

The database adds up the lengths of columns; no text is read. Indexes, free pages and other overhead
are not included, so the store is larger than these numbers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from hermes_sessions.model.lineage import SUBAGENT
from hermes_sessions.model.retention import CLASSES, SessionClass, retention_class
from hermes_sessions.storage.provider import ReadTransaction, placeholders
from hermes_sessions.storage.repositories.rows import MESSAGE_JSON, MESSAGE_TEXTS, MESSAGE_VALUES
from hermes_sessions.storage.repositories.trash import DELETION_PENDING
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import SpaceReport, SpaceShare, StoreSizes

_TEXTS: Final = ("content", *MESSAGE_TEXTS, *MESSAGE_JSON, *MESSAGE_VALUES)
_BYTES: Final = " + ".join(f"COALESCE(OCTET_LENGTH(m.{name}), 0)" for name in _TEXTS)
_CHUNK: Final = 500
#: Messages measured between two looks at the clock.
_MESSAGES_AT_ONCE: Final = 1_000
_ABOVE_ALL_IDS: Final = 2**63 - 1
#: Share of the time limit of `Sizes.space` for measuring texts.
_SHARE_OF_TEXTS: Final = 0.5


class Sizes:
    """Measures what takes up space."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def of_sessions(self, session_ids: Iterable[str]) -> dict[str, int]:
        """See `SessionDB.measure_sessions`."""
        wanted = dict.fromkeys(session_ids, 0)
        waiting = iter(list(wanted))
        with self._store.provider.read() as tx:
            while chunk := list(islice(waiting, _CHUNK)):
                rows = tx.all(
                    f"SELECT m.session_id, SUM({_BYTES}) FROM messages m "
                    f"WHERE m.session_id IN ({placeholders(len(chunk))}) GROUP BY m.session_id",
                    chunk,
                )
                wanted |= {session_id: int(size) for session_id, size in rows}
        return wanted

    def by_class(self) -> StoreSizes:
        """See `SessionDB.get_sizes`."""
        sources: Counter[str] = Counter()
        roles: Counter[str] = Counter()
        kinds: Counter[str] = Counter()
        with self._store.provider.read() as tx:
            for source, role, is_subagent, is_archived, is_trashed, size in tx.stream(
                f"SELECT s.source, m.role, "
                f"CASE WHEN s.edge_kind = ? THEN 1 ELSE 0 END AS subagent, "
                f"CASE WHEN s.archived_at IS NULL THEN 0 ELSE 1 END AS is_archived, "
                f"CASE WHEN s.trashed_at IS NULL THEN 0 ELSE 1 END AS trashed, SUM({_BYTES}) "
                f"FROM messages m JOIN sessions s ON s.id = m.session_id "
                f"WHERE s.trashed_at IS NULL OR s.trashed_at > ? "
                f"GROUP BY s.source, m.role, subagent, is_archived, trashed",
                (SUBAGENT, DELETION_PENDING),
            ):
                number = int(size)
                kinds["text_bytes"] += number
                if is_trashed:
                    kinds["trashed_bytes"] += number
                    continue
                sources[source] += number
                roles[role] += number
                kinds["subagent_bytes"] += number if is_subagent else 0
                kinds["archived_bytes"] += number if is_archived else 0
        return {
            "size_bytes": self._store.provider.size_bytes(),
            "text_bytes": kinds["text_bytes"],
            "subagent_bytes": kinds["subagent_bytes"],
            "archived_bytes": kinds["archived_bytes"],
            "trashed_bytes": kinds["trashed_bytes"],
            "sources": _largest_first(sources),
            "roles": _largest_first(roles),
        }

    def space(
        self, within: float | None = None, stopwatch: Callable[[], float] = time.monotonic
    ) -> SpaceReport:
        """See `SessionDB.get_space`."""
        start = stopwatch()

        def has_time(share: float = 1.0) -> bool:
            return within is None or stopwatch() < start + within * share

        classes: dict[str, Counter[str]] = {name: Counter() for name in CLASSES}
        sources: dict[str, Counter[str]] = {}
        with self._store.provider.read() as tx:
            for source, is_subagent, sessions, messages in tx.stream(
                "SELECT source, CASE WHEN edge_kind = ? THEN 1 ELSE 0 END AS subagent, COUNT(*), "
                "SUM(message_count) FROM sessions WHERE trashed_at IS NULL OR trashed_at > ? "
                "GROUP BY source, subagent",
                (SUBAGENT, DELETION_PENDING),
            ):
                counted = {"sessions": int(sessions), "messages": int(messages or 0)}
                classes[_class(source, is_subagent)].update(counted)
                sources.setdefault(source, Counter()).update(counted)
            texts = _measure_texts(tx, lambda: has_time(_SHARE_OF_TEXTS))
        for (source, is_subagent), size in texts.sizes.items():
            classes[_class(source, is_subagent)]["text_bytes"] += size
            sources.setdefault(source, Counter())["text_bytes"] += size
        space = self._store.provider.space(None if within is None else has_time)
        return {
            "size_bytes": self._store.provider.size_bytes(),
            "classes": {name: _facts(counts) for name, counts in classes.items()},
            "sources": {name: _facts(sources[name]) for name in sorted(sources)},
            "tables": _largest_first(Counter(space.tables)),
            "indexes": _largest_first(Counter(space.indexes)),
            "free_bytes": space.free_bytes,
            "log_bytes": space.log_bytes,
            "estimated": space.is_estimate,
            "uncounted_bytes": space.uncounted_bytes,
            "text_messages": texts.messages,
            "text_complete": texts.is_complete,
            "complete": texts.is_complete and not space.uncounted_bytes,
        }


class _Texts(NamedTuple):
    """Bytes of message text, by source and whether a subagent wrote it."""

    sizes: Counter[tuple[str, int]]
    #: Number of measured messages, the newest ones.
    messages: int
    #: Whether all messages were measured.
    is_complete: bool


def _measure_texts(tx: ReadTransaction, has_time: Callable[[], bool]) -> _Texts:
    sizes: Counter[tuple[str, int]] = Counter()
    messages = 0
    before = _ABOVE_ALL_IDS
    while has_time():
        rows = tx.all(
            f"SELECT s.source, CASE WHEN s.edge_kind = ? THEN 1 ELSE 0 END AS subagent, "
            f"CASE WHEN s.trashed_at IS NULL OR s.trashed_at > ? THEN 0 ELSE 1 END AS doomed, "
            f"SUM(t.size), COUNT(*), MIN(t.id) FROM (SELECT m.id, m.session_id, {_BYTES} AS size "
            f"FROM messages m WHERE m.id < ? ORDER BY m.id DESC LIMIT {_MESSAGES_AT_ONCE}) t "
            f"JOIN sessions s ON s.id = t.session_id GROUP BY s.source, subagent, doomed",
            (SUBAGENT, DELETION_PENDING, before),
        )
        for source, is_subagent, is_doomed, size, _, _ in rows:
            if not is_doomed:
                sizes[source, is_subagent] += int(size)
        found = sum(int(number) for *_, number, _ in rows)
        messages += found
        if found < _MESSAGES_AT_ONCE:
            return _Texts(sizes, messages, is_complete=True)
        before = min(int(lowest) for *_, lowest in rows)
    return _Texts(sizes, messages, is_complete=False)


def _class(source: str, is_subagent: int) -> SessionClass:
    return retention_class(source, SUBAGENT if is_subagent else None)


def _facts(counts: Counter[str]) -> SpaceShare:
    return {
        "sessions": counts["sessions"],
        "messages": counts["messages"],
        "text_bytes": counts["text_bytes"],
    }


def _largest_first(sizes: Counter[str]) -> dict[str, int]:
    return dict(sorted(sizes.items(), key=lambda item: (-item[1], item[0])))
