"""The store against a plain model: any sequence of calls, everything readable compared."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import summary_of
from tests.storage.reference_store import ReferenceMessage, ReferenceStore, Refused

NAMES = ("a", "b", "c", "d", "e")
TITLES = ("Plan", "Plan #2", "Plan #7", "plan", "Trip", "Plan #x")

names = st.sampled_from(NAMES)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "user", "assistant", "tool"])},
    optional={
        "content": st.one_of(
            st.none(),
            st.text(st.characters(codec=None), max_size=80),
            st.just([{"type": "text", "text": "part"}]),
        ),
        "tool_calls": st.lists(st.just({"id": "call"}), max_size=2),
        "external_id": st.sampled_from(["e1", "e2"]),
        "timestamp": st.floats(1_000, 4e9),
    },
)


class StoreMachine(RuleBasedStateMachine):
    """Calls the store and the model alike."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FrozenClock()
        self.model = ReferenceStore()
        self.folder: TemporaryDirectory[str] | None = None
        self.db = self.open()

    def open(self) -> SessionDB:
        return SessionDB(":memory:", clock=self.clock)

    def teardown(self) -> None:
        self.db.close()
        if self.folder is not None:
            self.folder.cleanup()

    def both(self, of_model: Callable[[], Any], of_store: Callable[[], Any]) -> Any:
        """Make both calls; return what the store returned, None when both refused."""
        expected = None
        try:
            expected = of_model()
        except Refused:
            with pytest.raises(HermesSessionsError):
                of_store()
            return None
        got = of_store()
        if expected is not None:
            assert got == expected
        return got

    # ── calls ─────────────────────────────────────────────────────────────────────────────────

    @initialize()
    def begin(self) -> None:
        """Start with one session, so that few calls hit an unknown session."""
        self.create("a", "cli", None, None, None)

    @rule(seconds=st.sampled_from([0.5, 1, 60, 86_400, -30]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(
        name=names,
        source=st.sampled_from(["cli", "telegram"]),
        model=st.sampled_from([None, "m1", "m2"]),
        parent=st.one_of(st.none(), names),
        kind=st.sampled_from([None, None, "compression", "branch", "subagent", "handoff"]),
    )
    def create(
        self, name: str, source: str, model: str | None, parent: str | None, kind: str | None
    ) -> None:
        now = self.clock()
        self.both(
            lambda: self.model.create(name, source, model, parent, kind, now),
            lambda: self.db.create_session(
                name, source, model=model, parent_session_id=parent, edge_kind=kind
            ),
        )

    @rule(name=names, reason=st.sampled_from(["compression", "branched", "done"]))
    def end(self, name: str, reason: str) -> None:
        self.model.end(name, reason, self.clock())
        self.db.end_session(name, reason)

    @rule(name=names)
    def reopen(self, name: str) -> None:
        self.model.reopen(name)
        self.db.reopen_session(name)

    @rule(name=names, tokens=st.integers(0, 10**12))
    def add_tokens(self, name: str, tokens: int) -> None:
        self.both(
            lambda: self.model.add_tokens(name, tokens, self.clock()),
            lambda: self.db.update_token_counts(name, input_tokens=tokens),
        )

    @rule(name=names, message=messages)
    def append(self, name: str, message: dict[str, Any]) -> None:
        given = self.both(
            lambda: self._append_to_model(name, [message]),
            lambda: [self.db.append_message(name, **message)],
        )
        self._learn_ids(name, given)

    @rule(name=names, batch=st.lists(messages, max_size=4))
    def append_batch(self, name: str, batch: list[dict[str, Any]]) -> None:
        if not batch:
            assert self.db.append_messages(name, batch) == []
            return
        given = self.both(
            lambda: self._append_to_model(name, batch),
            lambda: self.db.append_messages(name, batch),
        )
        self._learn_ids(name, given)

    @rule(name=names, batch=st.lists(messages, max_size=3))
    def replace(self, name: str, batch: list[dict[str, Any]]) -> None:
        self.both(
            lambda: self.model.replace(name, self._plain(batch)),
            lambda: self.db.replace_messages(name, batch),
        )
        self._learn_ids(name, None)

    @rule(name=names)
    def clear(self, name: str) -> None:
        self.model.clear(name)
        self.db.clear_messages(name)

    @rule(name=names, place=st.integers(0, 12))
    def rewind(self, name: str, place: int) -> None:
        session = self.model.visible.get(name)
        candidates = session.messages if session else []
        message_id = candidates[place % len(candidates)].id if candidates else 10**9
        self.both(
            lambda: self.model.rewind(name, message_id),
            lambda: self.db.rewind_to_message(name, message_id)["rewound_count"],
        )

    @rule(name=names)
    def restore_rewound(self, name: str) -> None:
        self.both(lambda: self.model.restore_rewound(name), lambda: self.db.restore_rewound(name))

    @rule(name=names, number=st.integers(0, 12))
    def restore_a_chosen_rewind(self, name: str, number: int) -> None:
        made = self.db.list_rewinds(name)
        if made:
            chosen = number % len(made)
            self.both(
                lambda: self.model.restore_rewound(name, chosen),
                lambda: self.db.restore_rewound(name, rewind_id=made[chosen]["id"]),
            )

    @rule(name=names, title=st.one_of(st.none(), st.sampled_from(TITLES)))
    def set_title(self, name: str, title: str | None) -> None:
        self.both(
            lambda: self.model.set_title(name, title),
            lambda: self.db.set_session_title(name, title),
        )

    @rule(name=names, title=st.sampled_from(TITLES))
    def set_auto_title(self, name: str, title: str) -> None:
        self.both(
            lambda: self.model.set_auto_title(name, title),
            lambda: self.db.set_auto_title_if_empty(name, title),
        )

    @rule(name=names, archived=st.booleans())
    def archive(self, name: str, archived: bool) -> None:
        self.both(
            lambda: self.model.archive(name, archived),
            lambda: self.db.set_session_archived(name, archived),
        )

    @rule(name=names)
    def trash(self, name: str) -> None:
        moved = self.model.trash(name, self.clock())
        assert set(self.db.trash_sessions([name])) == moved

    @rule(name=names)
    def restore(self, name: str) -> None:
        expected = self.model.restore(name)
        assert set(self.db.restore_sessions([name])) == set(expected)

    @rule()
    def purge_trash(self) -> None:
        assert self.db.purge_trash() == self.model.purge()

    @rule(name=names)
    def delete(self, name: str) -> None:
        self.both(lambda: self.model.delete(name), lambda: self.db.delete_session(name))

    @rule()
    def import_what_is_there(self) -> None:
        before = self.db.export_all()
        report = self.db.import_sessions(before)
        assert (report["ok"], report["skipped"]) == (True, len(before))
        assert self.db.export_all() == before

    @precondition(lambda self: self.model.visible.keys() == self.model.all.keys())
    @rule()
    def move_out_and_in_again(self) -> None:
        before = self.db.export_all()
        self.db.delete_sessions(record["id"] for record in before)
        assert self.db.session_count(include_archived=True) == 0
        report = self.db.import_sessions(json.loads(json.dumps(before)))
        assert (report["ok"], report["imported"]) == (True, len(before))
        assert self.db.export_all() == before

    # ── the model's side ──────────────────────────────────────────────────────────────────────

    def _plain(self, given: list[dict[str, Any]]) -> list[ReferenceMessage]:
        now = self.clock()
        return [
            ReferenceMessage(
                role=message["role"],
                content=message.get("content"),
                timestamp=message.get("timestamp", now + place * 1e-6),
                tool_calls=message.get("tool_calls") or None,
                external_id=message.get("external_id"),
            )
            for place, message in enumerate(given)
        ]

    def _append_to_model(self, name: str, given: list[dict[str, Any]]) -> None:
        self.model.append(name, self._plain(given))

    def _learn_ids(self, name: str, given: list[int] | None) -> None:
        """Take over the ids of new messages, and check that they come after all others."""
        session = self.model.visible.get(name)
        if session is None:
            return
        stored = self.db.get_messages(name, include_inactive=True)
        assert len(stored) == len(session.messages)
        known = [m.id for m in session.messages if m.id]
        for plain, message in zip(session.messages, stored, strict=True):
            if plain.id == 0:
                assert message["id"] > max(known, default=0)
                plain.id = message["id"]
        if given is not None:
            assert set(given) <= {m.id for m in session.messages}

    # ── what must be true after every call ────────────────────────────────────────────────────

    @invariant()
    def sessions_are_as_expected(self) -> None:
        for name in NAMES:
            plain, stored = self.model.visible.get(name), self.db.get_session(name)
            assert (plain is None) == (stored is None)
            if plain is None or stored is None:
                continue
            assert {key: stored[key] for key in FIELDS} == {
                key: getattr(plain, attribute) for key, attribute in FIELDS.items()
            }
            assert (stored["archived_at"] is not None) == plain.archived
            assert stored["conversation_id"] == self.model.root(name)
            assert self.db.get_session_title(name) == plain.title

    @invariant()
    def messages_are_as_expected(self) -> None:
        for name in NAMES:
            plain = self.model.visible.get(name)
            everything = plain.messages if plain else []
            stored = self.db.get_messages(name, include_inactive=True)
            assert [readable(message) for message in stored] == [
                (
                    m.id,
                    m.role,
                    m.content,
                    m.tool_calls,
                    m.timestamp,
                    m.external_id,
                    m.hidden_by is None,
                )
                for m in everything
            ]
            shown = self.db.get_messages(name)
            assert [m["id"] for m in shown] == [m.id for m in (plain.in_force if plain else [])]
            assert shown == [message for message in stored if message["active"]]
            replayed = self.db.get_messages_as_conversation(name)
            assert [m["role"] for m in replayed] == [m["role"] for m in shown]
            assert len(self.db.list_rewinds(name)) == (len(plain.rewinds) if plain else 0)

    @invariant()
    def summaries_are_true(self) -> None:
        rows = self.db.list_sessions_rich(limit=-1, include_children=True, include_archived=True)
        assert {row["id"] for row in rows} == self.model.visible.keys()
        for row in rows:
            expected = summary_of(self.db.get_messages(row["id"]), row["started_at"])
            newest = expected.pop("last_active")
            assert {key: row[key] for key in expected} == expected
            # A late message to an earlier part of a thread brings its tip up.
            alone = len(self.model.chain(row["id"])) == 1
            assert row["last_active"] == newest if alone else row["last_active"] >= newest
        assert self.db.message_count() == sum(row["message_count"] for row in rows)

    @invariant()
    def lists_show_every_thread_once(self) -> None:
        threads = self.model.threads()
        shown = {tip: head for tip, head in threads.items() if not self.model.all[tip].archived}
        rows = self.db.list_sessions_rich(limit=-1)
        assert {row["id"]: row.get("_lineage_root_id", row["id"]) for row in rows} == shown
        keys = [
            (row["last_active"], self.model.all[row["id"]].started_at, row["id"]) for row in rows
        ]
        assert keys == sorted(keys, reverse=True)
        for row in rows:
            head, tip = self.model.all[shown[row["id"]]], self.model.all[row["id"]]
            assert (row["source"], row["started_at"]) == (head.source, head.started_at)
            assert (row["title"], row["model"]) == (tip.title, tip.model)
        by_start = self.db.list_sessions_rich(limit=-1, order_by_last_active=False)
        starts = [(row["started_at"], row.get("_lineage_root_id", row["id"])) for row in by_start]
        assert starts == sorted(starts, reverse=True)
        assert sorted(map(str, by_start)) == sorted(map(str, rows))
        archived = self.db.list_sessions_rich(limit=-1, archived_only=True)
        assert {row["id"] for row in archived} == threads.keys() - shown.keys()
        visible = self.model.visible.values()
        assert self.db.session_count() == sum(not session.archived for session in visible)
        flat = self.db.search_sessions(limit=-1)
        assert {row["id"] for row in flat} == self.model.visible.keys()

    @invariant()
    def lineage_is_as_expected(self) -> None:
        for name in NAMES:
            if name in self.model.visible:
                assert self.db.get_compression_tip(name) == self.model.tip(name)
                assert set(self.db.get_compression_lineage(name)) == self.model.chain(name)
                family = {
                    n for n in self.model.visible if self.model.root(n) == self.model.root(name)
                }
                assert {row["id"] for row in self.db.list_conversation(name)} == family
            else:
                assert self.db.get_compression_tip(name) == name
                assert self.db.get_compression_lineage(name) == []

    @invariant()
    def titles_are_as_expected(self) -> None:
        active = {row["id"]: row["last_active"] for row in self.db.search_sessions(limit=-1)}
        for title in TITLES:
            holder = self.model.holder_of(title)
            found = self.db.get_session_by_title(title)
            assert (found and found["id"]) == (holder and holder.id)
            assert self.db.get_next_title_in_lineage(title) == self.model.next_title(title)
            variants = [
                session.id
                for session in self.model.visible.values()
                if session.title == title or is_numbered(session.title, title)
            ]
            resolved = self.db.resolve_session_by_title(title)
            if variants:
                assert resolved in variants
                assert active[resolved or ""] == max(active[name] for name in variants)
            else:
                assert resolved is None

    @invariant()
    def the_trash_is_as_expected(self) -> None:
        rows = self.db.list_trash()
        in_trash = self.model.all.keys() - self.model.visible.keys()
        assert {row["id"] for row in rows} == in_trash
        for row in rows:
            plain = self.model.all[row["id"]]
            assert (row["title"], row["trashed_at"]) == (plain.title_in_trash, plain.trashed_at)
        times = [row["trashed_at"] for row in rows]
        assert all(later >= earlier for later, earlier in itertools.pairwise(times))


FIELDS = {
    "id": "id",
    "source": "source",
    "model": "model",
    "parent_session_id": "parent",
    "edge_kind": "kind",
    "started_at": "started_at",
    "ended_at": "ended_at",
    "end_reason": "end_reason",
    "title": "title",
    "input_tokens": "input_tokens",
    "rewind_count": "rewind_count",
}


def readable(message: dict[str, Any]) -> tuple[Any, ...]:
    columns = ("id", "role", "content", "tool_calls", "timestamp", "external_id")
    return (*(message[column] for column in columns), bool(message["active"]))


def is_numbered(title: str | None, base: str) -> bool:
    start, mark, number = (title or "").rpartition(" #")
    return bool(mark) and number.isdecimal() and start.lower() == base.lower()


class FileMachine(StoreMachine):
    """The same on a file, closed and opened again at any time."""

    def open(self) -> SessionDB:
        if self.folder is None:
            self.folder = TemporaryDirectory(prefix="hermes-model-")
        return SessionDB(Path(self.folder.name) / "state.db", clock=self.clock, durability="normal")

    @rule()
    def reopen_the_store(self) -> None:
        self.db.close()
        self.db = self.open()


BUDGET = settings.default.max_examples if settings.default else 100
TestInMemory = StoreMachine.TestCase
TestInMemory.settings = settings(max_examples=max(BUDGET // 6, 1), stateful_step_count=40)
TestInFile = FileMachine.TestCase
TestInFile.settings = settings(max_examples=max(BUDGET // 16, 1), stateful_step_count=40)
