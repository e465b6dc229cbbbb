"""Keeps the index in step with the messages, without any write waiting for it.

Messages are indexed in the order of their ids up to a mark; everything above the mark is not yet
indexed. Changes and deletions below the mark, by whoever, are noted in a queue by triggers. Work
happens in short transactions that read, encode and store a few messages and move the mark, so that
writers get their turn in between. If the index was made by another segmenter, it is started anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction, placeholders
from hermes_sessions.storage.searching.documents import DOCUMENT_COLUMNS, texts_of
from hermes_sessions.storage.searching.index import Document, SearchIndex
from hermes_sessions.storage.store import Store
from hermes_sessions.text.encode import document
from hermes_sessions.text.segment import SEGMENTER_VERSION

#: Messages, and characters of them, that one transaction handles.
_BATCH: Final = 100
_BATCH_CHARACTERS: Final = 400_000
#: Seconds by which clocks of several writers may differ without the order counting as broken.
_CLOCK_TOLERANCE: Final = 60.0
_COLUMNS: Final = ", ".join(("id", "active", *DOCUMENT_COLUMNS))


@dataclass(frozen=True, slots=True)
class Lag:
    """How far the index is behind."""

    #: Messages up to this id are indexed, but for those in the queue.
    through: int
    #: Messages above the mark and in the queue.
    pending: int
    #: Whether later messages have higher ids; imports can make it otherwise.
    in_time_order: bool = True

    @property
    def complete(self) -> bool:
        """Whether the index holds everything."""
        return self.pending == 0


class Upkeep:
    """The state of the index, and the work on it."""

    def __init__(self, store: Store, index: SearchIndex) -> None:
        self._store = store
        self._index = index

    def lag(self, tx: ReadTransaction) -> Lag:
        """Return how far the index is behind."""
        state = tx.one("SELECT indexed_through, in_time_order FROM search_state")
        through, in_time_order = state or (0, 1)
        above = tx.one("SELECT COUNT(*) FROM messages WHERE id > ?", (through,))
        queued = tx.one("SELECT COUNT(*) FROM search_queue")
        pending = (above[0] if above else 0) + (queued[0] if queued else 0)
        return Lag(int(through), pending, bool(in_time_order))

    def catch_up(self, limit: int | None = None) -> int:
        """Index up to *limit* messages (all without one); return how many were handled.

        Raises:
            StoreUnavailable: the store cannot be written now; what was done stays done.
        """
        handled = 0
        while limit is None or handled < limit:
            step = self._store.provider.write(self._step)
            if step == 0:
                break
            handled += step
        return handled

    def tidy(self) -> None:
        """Merge what the index wrote in small pieces, in short steps."""
        while self._store.provider.write(self._index.tidy):
            pass

    def tidy_once(self) -> None:
        """Do one short step of merging."""
        self._store.provider.write(self._index.tidy)

    def start_anew(self) -> None:
        """Forget the index; the next work builds it from the messages."""
        self._store.provider.write(self._reset)

    def _reset(self, tx: WriteTransaction) -> None:
        self._index.clear(tx)
        tx.run("DELETE FROM search_queue")
        tx.run("UPDATE search_titles SET stale = 1")
        tx.run(
            "UPDATE search_state SET segmenter = ?, indexed_through = 0, newest = 0, "
            "in_time_order = 1",
            (SEGMENTER_VERSION,),
        )

    def _step(self, tx: WriteTransaction) -> int:
        row = tx.one("SELECT segmenter FROM search_state")
        if row is None or row[0] != SEGMENTER_VERSION:
            self._reset(tx)
        return self._take_titles(tx) + (self._take_queue(tx) or self._take_new(tx))

    def _take_new(self, tx: WriteTransaction) -> int:
        state = tx.one("SELECT indexed_through, newest, in_time_order FROM search_state")
        through, newest, in_time_order = state or (0, 0.0, 1)
        documents: list[Document] = []
        last, characters, handled = through, 0, 0
        for row in tx.stream(
            f"SELECT {_COLUMNS}, timestamp FROM messages WHERE id > ? ORDER BY id LIMIT ?",
            (through, _BATCH),
        ):
            last = row[0]
            handled += 1
            documents += _documents(row[:-1])
            characters += len(row[2] or "")
            if row[-1] < newest - _CLOCK_TOLERANCE:
                in_time_order = 0
            newest = max(newest, row[-1])
            if characters > _BATCH_CHARACTERS:
                break
        if handled:
            self._index.add(tx, documents)
            tx.run(
                "UPDATE search_state SET indexed_through = ?, newest = ?, in_time_order = ?",
                (last, newest, in_time_order),
            )
        return handled

    def _take_queue(self, tx: WriteTransaction) -> int:
        queued = tx.all("SELECT seq, message_id FROM search_queue ORDER BY seq LIMIT ?", (_BATCH,))
        if not queued:
            return 0
        ids = sorted({row[1] for row in queued})
        self._index.remove(tx, ids)
        rows = tx.all(
            f"SELECT {_COLUMNS} FROM messages WHERE id IN ({placeholders(len(ids))}) ORDER BY id",
            ids,
        )
        self._index.add(tx, [item for row in rows for item in _documents(row)])
        tx.run("DELETE FROM search_queue WHERE seq <= ?", (queued[-1][0],))
        return len(queued)

    def _take_titles(self, tx: WriteTransaction) -> int:
        stale = tx.all(
            "SELECT t.number, t.session_id, s.title FROM search_titles t "
            "LEFT JOIN sessions s ON s.id = t.session_id WHERE t.stale = 1 LIMIT ?",
            (_BATCH,),
        )
        if not stale:
            return 0
        self._index.remove(tx, [-number for number, _, _ in stale])
        documents = []
        for number, session_id, title in stale:
            if title is None:
                tx.run("DELETE FROM search_titles WHERE session_id = ?", (session_id,))
                continue
            documents.append(Document(-number, document([title]).tokens))
            tx.run("UPDATE search_titles SET stale = 0 WHERE number = ?", (number,))
        self._index.add(tx, sorted(documents, key=lambda item: item.number))
        return len(stale)


def _documents(row: tuple[object, ...]) -> list[Document]:
    number, active, *columns = row
    if not active or not isinstance(number, int):
        return []
    return [Document(number, document(texts_of(tuple(columns))).tokens)]
