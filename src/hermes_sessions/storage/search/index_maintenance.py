"""Keep the search index up to date with the messages, without delaying any write.

Messages are indexed in the order of their ids up to a mark; messages above it are not indexed yet.
Triggers add changes and deletions below the mark to a queue, whichever program makes them. On
databases with concurrent writers, ids do not become visible in order, so triggers add new messages
to the queue as well; the mark is then only the highest indexed id. Texts are read and encoded
first; then a short transaction stores them and moves the mark, so that other writers can work in
between. An index that is damaged, or that another version of the segmenter made, is rebuilt.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from hermes_sessions.storage.batches import MAX_WORK_SECONDS, StallDetector, stuck_message
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import (
    ReadTransaction,
    WriteTransaction,
    placeholders,
)
from hermes_sessions.storage.repositories.rows import names
from hermes_sessions.storage.search.index_port import IndexDamaged, IndexDocument, SearchIndex
from hermes_sessions.storage.search.message_texts import texts_of, time_of
from hermes_sessions.storage.store_context import StoreContext
from hermes_sessions.text.token_encoder import document
from hermes_sessions.text.tokenizer import SEGMENTER_VERSION

logger = Logger(__name__)

#: The most messages and characters in one transaction: few enough that other writers wait only some
#: ten milliseconds, and enough that less than 1 % of messages are stored while a transaction runs.
_BATCH: Final = 200
_BATCH_CHARACTERS: Final = 400_000
#: The number of transactions after which one step of merging follows.
_STEPS_TO_TIDY: Final = 2
#: Seconds by which timestamps may disagree with the order of ids, because clocks differ and writers
#: wait for each other. Beyond it, the order counts as broken.
_MAX_DISORDER: Final = 30.0


class _Message(NamedTuple):
    """The columns of a message on which its document depends."""

    id: int
    timestamp: Any
    content: Any
    content_type: str | None
    tool_name: str | None
    tool_calls: Any

    @property
    def tokens(self) -> str:
        """What the index stores of the message."""
        texts = texts_of(self.content, self.content_type, self.tool_name, self.tool_calls)
        return document(texts).tokens

    @property
    def time(self) -> float:
        """When it was written, 0 if that is not known."""
        return time_of(self.timestamp)


_COLUMNS: Final = names(_Message._fields)


class _State(NamedTuple):
    """The row of ``search_state``."""

    segmenter: int
    indexed_through: int
    newest: float
    ordered_from: int
    disorder: float


_NO_STATE: Final = _State(0, 0, 0.0, 0, 0.0)
_STATE: Final = f"SELECT {names(_State._fields)} FROM search_state"
#: Used as the mark on databases where the queue contains every message that is not indexed.
_NO_MARK: Final = 2**62


@dataclass(frozen=True, slots=True)
class IndexLag:
    """How far the index lags behind the messages."""

    #: Messages up to this id are indexed, except those in the queue.
    through: int
    #: Messages above the mark and in the queue.
    pending: int
    #: Messages in the queue.
    queued: int = 0
    #: Titles that changed since they were indexed.
    titles: int = 0
    #: Messages with ids below 1, which only other programs write. The index uses such numbers for
    #: titles, so it never contains these messages.
    outside: int = 0
    #: Above this id, later messages have higher ids; below it, imports may have broken the order.
    ordered_from: int = 0
    #: The most seconds by which a message above that id is older than one with a lower id.
    disorder: float = 0.0
    #: Whether the index can be queried; if not, it must be rebuilt.
    usable: bool = True

    @property
    def complete(self) -> bool:
        """Whether the index contains everything it can; True for an empty store."""
        return self.pending == 0 and self.titles == 0

    @property
    def not_indexed(self) -> int:
        """The number of messages that are not in the index or changed since they were indexed."""
        return self.pending + self.outside


@dataclass(frozen=True, slots=True)
class _Batch:
    """The documents that the next transaction stores, read and encoded before it begins."""

    state: _State
    #: The mark after this batch is stored.
    last: int
    #: By message id: the row as it was read, and its tokens.
    encoded: dict[int, tuple[_Message, str]] = field(default_factory=dict)

    def document(self, message: _Message) -> IndexDocument:
        """Return a message's document, encoded again if the message changed since it was read."""
        known, tokens = self.encoded.get(message.id, (None, ""))
        return IndexDocument(message.id, tokens if message == known else message.tokens)


#: Returned instead of a batch: the index must be rebuilt first, because it is damaged or because
#: another version of the segmenter made it.
_DAMAGED: Final = _Batch(_NO_STATE, 0)
_OUTDATED: Final = _Batch(_NO_STATE, 0)
#: Returned instead of a number of messages: the index was reset. `_MAX_RESETS` bounds how often
#: that may happen in one call of `catch_up`.
_RESET: Final = -1
_MAX_RESETS: Final = 3
_WORK: Final = "Updating the search index"


class IndexMaintenance:
    """Reads the state of the index and updates, merges and rebuilds it."""

    def __init__(self, store: StoreContext, index: SearchIndex) -> None:
        self._store = store
        self._index = index
        self._has_mark = store.provider.dialect.ids_in_order
        #: Locks the state, so that processes that index wait for each other.
        self._for_update = store.provider.dialect.for_update
        self._locked_state = _STATE + self._for_update

    def lag(self, tx: ReadTransaction, *, is_damaged: bool = False) -> IndexLag:
        """Return how far the index lags; a damaged index lacks everything."""
        outside = _count(tx, "SELECT COUNT(*) FROM messages WHERE id < 1")
        state = None if is_damaged else self._usable_state(tx)
        if state is None:
            return IndexLag(
                through=0,
                pending=_count(tx, "SELECT COUNT(*) FROM messages WHERE id > 0"),
                titles=_count(tx, "SELECT COUNT(*) FROM sessions WHERE title IS NOT NULL"),
                outside=outside,
                usable=False,
            )
        _, through, _, ordered_from, disorder = state
        queued = above = _count(tx, "SELECT COUNT(*) FROM search_queue")
        if self._has_mark:
            above += _count(tx, "SELECT COUNT(*) FROM messages WHERE id > ?", through)
        return IndexLag(
            through=int(through) if self._has_mark else _NO_MARK,
            pending=above,
            queued=queued,
            titles=_count(tx, "SELECT COUNT(*) FROM search_titles WHERE stale = 1"),
            outside=outside,
            ordered_from=int(ordered_from),
            disorder=float(disorder),
        )

    def catch_up(
        self,
        limit: int | None = None,
        *,
        patience: float | None = None,
        seconds: float = MAX_WORK_SECONDS,
        step_seconds: float = math.inf,
        is_unwanted: Callable[[], bool] = lambda: False,
        on_step: Callable[[int], None] = lambda _: None,
    ) -> int:
        """Index up to *limit* messages and titles (all by default); return the number indexed.

        Stops early when *is_unwanted* returns True, after *seconds*, or when other processes keep
        undoing the work; `lag` returns what remains. *patience* bounds each wait for other writers,
        *step_seconds* all waits of one step for the database. Each step is one transaction.

        Raises:
            StoreUnavailable: the store cannot be written now. Finished steps stay stored.
        """
        handled = steps = resets = 0
        progress = StallDetector(_WORK, self._count_remaining, seconds)
        while (limit is None or handled < limit) and not is_unwanted():
            try:
                steps += 1
                with self._store.provider.limit_waits(step_seconds):
                    if steps % _STEPS_TO_TIDY == 0:
                        # Merge a little at a time; otherwise the database merges all at once.
                        self.tidy_once(patience=patience)
                    step = self._step(patience)
            except IndexDamaged as error:
                if resets:
                    raise
                logger.warning("the search index is damaged and will be rebuilt: %s", error)
                with self._store.provider.limit_waits(step_seconds):
                    self.discard_index(patience=patience)
                step = _RESET
            if step is None:
                break
            if step == _RESET:
                resets += 1
                if resets > _MAX_RESETS:
                    logger.warning("%s", stuck_message(_WORK, self._count_remaining()))
                    break
                continue
            handled += step
            on_step(step)
            if not progress.goes_on(step):
                break
        return handled

    def _count_remaining(self) -> int:
        with self._store.provider.read() as tx:
            lag = self.lag(tx)
        return lag.pending + lag.titles

    def tidy(self) -> bool:
        """Merge the small pieces of the index and purge removed documents, in short steps.

        Rebuilds the index if a thorough check finds damage. Returns whether it was rebuilt.
        """
        with self._store.provider.read() as tx:
            damage = self._index.damage(tx)
        if damage is not None:
            logger.warning("the search index is damaged and will be rebuilt: %s", damage)
            self.discard_index()
            self.catch_up()
        self.compact()
        return damage is not None

    def compact(self) -> bool:
        """Purge all traces of removed documents from the index; return whether it finished."""
        until = time.monotonic() + MAX_WORK_SECONDS
        first = True
        while self._store.provider.write(partial(self._index.compact, first=first)):
            first = False
            if time.monotonic() >= until:
                logger.warning("stopped merging the search index because it took too long")
                return False
        return True

    def tidy_once(self, *, patience: float | None = None) -> None:
        """Do one short step of merging, in one transaction."""
        self._store.provider.write(self._index.tidy, patience=patience)

    def discard_index(self, *, patience: float | None = None) -> None:
        """Empty the index in one transaction; `catch_up` rebuilds it from the messages."""
        self._store.provider.write(self._reset, patience=patience, isolated=False)

    def _reset(self, tx: WriteTransaction) -> None:
        self._index.clear(tx)
        tx.run("DELETE FROM search_queue")
        if not self._has_mark:
            tx.run("INSERT INTO search_queue (message_id) SELECT id FROM messages ORDER BY id")
        tx.run("UPDATE search_titles SET stale = 1")
        tx.run("DELETE FROM search_state")
        tx.run(
            "INSERT INTO search_state "
            "(segmenter, indexed_through, newest, ordered_from, disorder) VALUES (?, ?, ?, ?, ?)",
            (SEGMENTER_VERSION, 0, 0.0, 0, 0.0),
        )

    def _reset_outdated(self, tx: WriteTransaction) -> None:
        # Another process may have reset it already, and have indexed the first messages.
        state = _read_state(tx, self._locked_state)
        if state is None or state.segmenter != SEGMENTER_VERSION:
            self._reset(tx)

    # ── one step ──────────────────────────────────────────────────────────────────────────────

    def _step(self, patience: float | None) -> int | None:
        """Index the next batch of messages and titles; return its size, `_RESET` if the index was
        reset instead, or None if nothing remains.
        """
        with self._store.provider.read() as tx:
            batch = self._read(tx)
        if batch is None:
            return None
        if batch is _DAMAGED:
            self.discard_index(patience=patience)
            return _RESET
        if batch is _OUTDATED:
            self._store.provider.write(self._reset_outdated, patience=patience, isolated=False)
            return _RESET
        return self._store.provider.write(
            partial(self._store_batch, batch=batch), patience=patience, isolated=False
        )

    def _read(self, tx: ReadTransaction) -> _Batch | None:
        """Read and encode the next batch: queued messages first, then messages above the mark."""
        if not self._index.is_sound(tx):
            return _DAMAGED
        state = _read_state(tx)
        if state is None or state.segmenter != SEGMENTER_VERSION:
            return _OUTDATED
        queued = tx.all("SELECT message_id FROM search_queue ORDER BY seq LIMIT ?", (_BATCH,))
        if queued:
            rows = tx.stream(
                f"SELECT {_COLUMNS} FROM messages WHERE id IN ({placeholders(len(queued))})",
                [message_id for (message_id,) in queued],
            )
            messages = map(_Message._make, rows)
            return _Batch(
                state, state.indexed_through, {each.id: (each, each.tokens) for each in messages}
            )
        encoded: dict[int, tuple[_Message, str]] = {}
        last, characters = state.indexed_through, 0
        for row in tx.stream(
            f"SELECT {_COLUMNS} FROM messages WHERE id > ? ORDER BY id LIMIT ?",
            (last if self._has_mark else _NO_MARK, _BATCH),
        ):
            message = _Message._make(row)
            last = message.id
            encoded[last] = (message, message.tokens)
            characters += sum(len(value) for value in message if isinstance(value, str))
            if characters > _BATCH_CHARACTERS:
                break
        if not encoded and tx.one("SELECT number FROM search_titles WHERE stale = 1") is None:
            return None
        return _Batch(state, last, encoded)

    def _usable_state(self, tx: ReadTransaction) -> _State | None:
        """Return the state of the index; None if it must be rebuilt."""
        if not self._index.is_sound(tx):
            return None
        state = _read_state(tx)
        return state if state is not None and state.segmenter == SEGMENTER_VERSION else None

    def _store_batch(self, tx: WriteTransaction, batch: _Batch) -> int:
        state = _read_state(tx, self._locked_state)
        if state is None or state.segmenter != SEGMENTER_VERSION:
            return 0  # Another process is rebuilding the index.
        handled = self._index_titles(tx) + self._index_queued(tx, batch, state)
        # If the state changed, another process has indexed these messages.
        if handled == 0 and state == batch.state and self._has_mark:
            handled = self._index_new(tx, batch)
        return handled

    def _index_new(self, tx: WriteTransaction, batch: _Batch) -> int:
        rows = tx.all(
            f"SELECT {_COLUMNS} FROM messages WHERE id > ? AND id <= ? ORDER BY id",
            (batch.state.indexed_through, batch.last),
        )
        messages = [_Message._make(row) for row in rows]
        self._index.add(tx, [batch.document(each) for each in messages])
        _move_mark(tx, batch.state, messages, batch.last)
        return len(messages)

    def _index_queued(self, tx: WriteTransaction, batch: _Batch, state: _State) -> int:
        queued = tx.all("SELECT seq, message_id FROM search_queue ORDER BY seq LIMIT ?", (_BATCH,))
        if not queued:
            return 0
        ids = sorted({message_id for _, message_id in queued if message_id > 0})
        messages: list[_Message] = []
        if ids:
            self._index.remove(tx, ids)
            rows = tx.all(
                f"SELECT {_COLUMNS} FROM messages WHERE id IN ({placeholders(len(ids))}) "
                f"ORDER BY id",
                ids,
            )
            messages = [_Message._make(row) for row in rows]
            self._index.add(tx, [batch.document(each) for each in messages])
        if not self._has_mark:
            new = [each for each in messages if each.id > state.indexed_through]
            messages = [each for each in messages if each.id <= state.indexed_through]
            if new:
                _move_mark(tx, state, new, new[-1].id)
        _note_moved(tx, messages)
        taken = [seq for seq, _ in queued]
        tx.run(f"DELETE FROM search_queue WHERE seq IN ({placeholders(len(taken))})", taken)
        return len(queued)

    def _index_titles(self, tx: WriteTransaction) -> int:
        # Lock the rows before reading the titles: a title that changes meanwhile is marked stale
        # again after this transaction.
        stale = tx.all(
            f"SELECT number, session_id FROM search_titles WHERE stale = 1 LIMIT ?"
            f"{self._for_update}",
            (_BATCH,),
        )
        if not stale:
            return 0
        titles: dict[str, str | None] = dict(
            tx.all(
                f"SELECT id, title FROM sessions WHERE id IN ({placeholders(len(stale))})",
                [session_id for _, session_id in stale],
            )
        )
        self._index.remove(tx, [-number for number, _ in stale])
        documents = []
        for number, session_id in stale:
            title = titles.get(session_id)
            if title is None:
                tx.run("DELETE FROM search_titles WHERE session_id = ?", (session_id,))
                continue
            documents.append(IndexDocument(-number, document([title]).tokens))
            tx.run("UPDATE search_titles SET stale = 0 WHERE number = ?", (number,))
        self._index.add(tx, sorted(documents, key=lambda item: item.number))
        return len(stale)


def _read_state(tx: ReadTransaction, sql: str = _STATE) -> _State | None:
    row = tx.one(sql)
    return None if row is None else _State._make(row)


def _move_mark(tx: WriteTransaction, state: _State, messages: list[_Message], mark: int) -> None:
    """Store the new mark, and how well the times of messages, given in the order of their ids,
    agree with the ids.
    """
    _, _, newest, ordered_from, disorder = state
    for message in messages:
        if message.time < newest - _MAX_DISORDER:
            ordered_from, disorder = message.id, 0.0
        else:
            disorder = max(disorder, newest - message.time)
        newest = max(newest, message.time)
    tx.run(
        "UPDATE search_state SET indexed_through = ?, newest = ?, ordered_from = ?, disorder = ?",
        (mark, newest, ordered_from, disorder),
    )


def _note_moved(tx: WriteTransaction, changed: list[_Message]) -> None:
    """Store by how much changed messages are out of order now."""
    added = sum(_disorder_of(tx, message) for message in changed)
    if not added:
        return
    newest = max(message.time for message in changed)
    tx.run(
        "UPDATE search_state SET disorder = disorder + ?, "
        "newest = CASE WHEN newest > ? THEN newest ELSE ? END",
        (added, newest, newest),
    )
    # A changed message may be newer than all above it, so order is certain only after the mark.
    tx.run(
        "UPDATE search_state SET ordered_from = indexed_through, disorder = 0 WHERE disorder > ?",
        (_MAX_DISORDER,),
    )


def _disorder_of(tx: ReadTransaction, message: _Message) -> float:
    """Return the seconds by which a message is older than its predecessor or newer than its
    successor.
    """
    select = "SELECT timestamp FROM messages WHERE id"
    before = tx.one(f"{select} < ? ORDER BY id DESC LIMIT 1", (message.id,))
    after = tx.one(f"{select} > ? ORDER BY id LIMIT 1", (message.id,))
    return max(
        0.0,
        time_of(before[0]) - message.time if before else 0.0,
        message.time - time_of(after[0]) if after else 0.0,
    )


def _count(tx: ReadTransaction, sql: str, *params: Any) -> int:
    row = tx.one(sql, params)
    return int(row[0]) if row else 0
