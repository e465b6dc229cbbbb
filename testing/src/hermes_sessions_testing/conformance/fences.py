"""Fences: only the holder of a conversation can write to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hermes_sessions.errors import ConversationHeld, StaleFence, UnknownSession
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import (
    bases_of,
    branch,
    compress,
    contents,
    ids,
    say,
    session,
)

#: Every method that changes the transcript of session "s", given its first message.
Change = Callable[[SessionDB, int, "int | None"], Any]
CHANGES: dict[str, Change] = {
    "append": lambda db, _, fence: db.append_message("s", "user", "x", fence=fence),
    "append by external id": lambda db, _, fence: db.append_message(
        "s", "user", "x", external_id="e", fence=fence
    ),
    "append many": lambda db, _, fence: db.append_messages(
        "s", [{"role": "user", "content": "x"}], fence=fence
    ),
    "replace": lambda db, _, fence: db.replace_messages(
        "s", [{"role": "user", "content": "x"}], fence=fence
    ),
    "replace what is in force": lambda db, _, fence: db.replace_messages(
        "s", [], active_only=True, fence=fence
    ),
    "compact": lambda db, _, fence: db.archive_and_compact("s", [], fence=fence),
    "clear": lambda db, _, fence: db.clear_messages("s", fence=fence),
    "soft clear": lambda db, _, fence: db.clear_messages("s", soft=True, fence=fence),
    "pop": lambda db, _, fence: db.pop_message("s", fence=fence),
    "replace the end": lambda db, _, fence: db.replace_suffix(
        "s", expected_revision=None, keep=1, messages=[], fence=fence
    ),
    "rewind": lambda db, first, fence: db.rewind_to_message("s", first, fence=fence),
    "restore": lambda db, _, fence: db.restore_rewound("s", fence=fence),
    "continue": lambda db, _, fence: db.continue_session("s", "t", fence=fence),
    "create": lambda db, _, fence: db.create_session(
        "t", "cli", parent_session_id="s", edge_kind="compression", fence=fence
    ),
}
every_change = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())


def _state(db: SessionDB) -> Any:
    kept = ("message_count", "rewind_count", "end_reason")
    return (
        contents(db.get_messages("s", include_inactive=True)),
        [session(db, "s")[name] for name in kept],
        db.get_session("t"),
    )


class TestFences:
    """The database compares the token of the holder at every write."""

    @every_change
    def test_the_holder_writes(self, db: SessionDB, change: Change) -> None:
        """With the token, every write succeeds."""
        first = say(db, "s", "one", "two")[0]
        lease = db.take_lease("s", "a chat")
        before = _state(db)
        change(db, first, lease.token)
        assert _state(db) != before or change is CHANGES["restore"]

    @every_change
    def test_others_are_told_who_holds_it(self, db: SessionDB, change: Change) -> None:
        """Without a token nothing is written; the error names holder, start and next step."""
        first = say(db, "s", "one", "two")[0]
        before = _state(db)
        lease = db.take_lease("s", "the gateway on host1")
        told = "held by the gateway on host1 since 2025-01-15 12:00:00 UTC"
        with pytest.raises(ConversationHeld, match=told) as raised:
            change(db, first, None)
        assert "sqlite3.IntegrityError" in bases_of(raised.value)
        assert (raised.value.holder, raised.value.until) == (lease.holder, lease.expires_at)
        assert _state(db) == before

    @every_change
    @pytest.mark.parametrize("off", [-1, 1])
    def test_a_token_that_is_not_the_one(self, db: SessionDB, change: Change, off: int) -> None:
        """An old or invented token is refused, regardless of the holder."""
        first = say(db, "s", "one", "two")[0]
        before = _state(db)
        lease = db.take_lease("s", "a chat")
        with pytest.raises(StaleFence):
            change(db, first, lease.token + off)
        db.release_lease(lease)
        for token in (lease.token, lease.token + off):
            with pytest.raises(StaleFence):
                change(db, first, token)
        assert _state(db) == before

    @every_change
    def test_an_expired_lease_is_taken_away(
        self, db: SessionDB, clock: FrozenClock, change: Change
    ) -> None:
        """A writer without a token succeeds; the late holder is refused afterwards."""
        first = say(db, "s", "one", "two")[0]
        lease = db.take_lease("s", "a chat", ttl=60)
        clock.advance(60)
        change(db, first, None)
        before = contents(db.get_messages("s"))
        with pytest.raises(StaleFence):
            db.append_message("s", "assistant", "late", fence=lease.token)
        with pytest.raises(StaleFence):
            db.renew_lease(lease)
        assert contents(db.get_messages("s")) == before
        assert db.take_lease("s", "another").token > lease.token

    def test_an_expired_lease_that_nobody_wanted(self, db: SessionDB, clock: FrozenClock) -> None:
        """The expired holder can still write if no other process has written."""
        say(db, "s", "one")
        lease = db.take_lease("s", "a chat", ttl=60)
        clock.advance(3600)
        db.append_message("s", "assistant", "two", fence=lease.token)
        db.renew_lease(lease, ttl=60)
        with pytest.raises(ConversationHeld):
            db.append_message("s", "user", "no")
        assert contents(db.get_messages("s")) == ["one", "two"]

    def test_unknown_sessions(self, db: SessionDB) -> None:
        """An unknown session cannot be held."""
        for fence in (None, 7):
            with pytest.raises(UnknownSession):
                db.append_message("missing", "user", "x", fence=fence)
            with pytest.raises(UnknownSession):
                db.append_messages("missing", [{"role": "user", "content": "x"}], fence=fence)
        db.clear_messages("missing")
        with pytest.raises(UnknownSession):
            db.take_lease("missing", "a chat")
        assert db.lease_of("missing") is None

    def test_titles_and_usage_are_not_fenced(self, db: SessionDB) -> None:
        """Others can set title and usage; only the transcript has a single writer."""
        say(db, "s", "one")
        db.take_lease("s", "a chat")
        assert db.set_session_title("s", "a title")
        db.update_token_counts("s", input_tokens=3)
        db.end_session("s", "user_exit")
        assert session(db, "s")["input_tokens"] == 3


class TestHeldChains:
    """A lease covers a session and its continuations, whatever happens to the chain."""

    def test_a_continuation_is_held_with_it(self, db: SessionDB) -> None:
        """The same token writes to both; what others write is refused in both."""
        say(db, "a", "one")
        lease = db.take_lease("a", "a chat")
        summary = [{"role": "user", "content": "in short"}]
        db.continue_session("a", "b", summary, fence=lease.token)
        for name in ("a", "b"):
            db.append_message(name, "assistant", "yes", fence=lease.token)
            with pytest.raises(ConversationHeld):
                db.append_message(name, "assistant", "no")
            held = db.lease_of(name)
            assert held is not None
            assert (held.chain_id, held.token, held.holder) == ("a", lease.token, "a chat")
        db.release_lease(lease)
        for name in ("a", "b"):
            db.append_message(name, "user", "free again")

    def test_a_continuation_that_is_created(self, db: SessionDB, clock: FrozenClock) -> None:
        """As in agents without `continue_session`: the parent's end reason gives the edge kind."""
        say(db, "a", "one")
        lease = db.take_lease("a", "a chat")
        with pytest.raises(ConversationHeld):
            compress(db, clock, "a", "b")
        compress(db, clock, "a", "c", fence=lease.token)
        db.append_message("c", "user", "yes", fence=lease.token)
        assert db.get_session("b") is None

    def test_taken_at_any_session_of_the_chain(self, db: SessionDB, clock: FrozenClock) -> None:
        """The lease covers all of them."""
        say(db, "a", "one")
        compress(db, clock, "a", "b")
        compress(db, clock, "b", "c")
        lease = db.take_lease("b", "a chat")
        assert (lease.chain_id, lease.session_id) == ("a", "b")
        for name in ("a", "b", "c"):
            db.append_message(name, "user", "yes", fence=lease.token)
            with pytest.raises(ConversationHeld):
                db.take_lease(name, "another")

    def test_branches_and_subagents_are_others(self, db: SessionDB, clock: FrozenClock) -> None:
        """A lease on a session does not cover its branches, nor the reverse."""
        say(db, "a", "one")
        branch(db, clock, "a", "b")
        db.create_session("sub", "cli", parent_session_id="a", edge_kind="subagent")
        trunk = db.take_lease("a", "a chat")
        for name in ("b", "sub"):
            db.append_message(name, "user", "free")
            own = db.take_lease(name, "another chat")
            with pytest.raises(StaleFence):
                db.append_message(name, "user", "no", fence=trunk.token + 1_000_000)
            db.append_message(name, "user", "yes", fence=own.token)
        db.create_session("new branch", "cli", parent_session_id="a", edge_kind="branch")
        db.append_message("new branch", "user", "free")

    def test_what_is_held_does_not_join_another_chain(
        self, db: SessionDB, clock: FrozenClock
    ) -> None:
        """Refused until the lease is released or has expired."""
        say(db, "a", "one")
        say(db, "b", "two")
        lease = db.take_lease("b", "a chat", ttl=60)
        with pytest.raises(ConversationHeld):
            db.create_session("b", "cli", parent_session_id="a", edge_kind="compression")
        db.append_message("b", "user", "mine", fence=lease.token)
        clock.advance(60)
        db.create_session("b", "cli", parent_session_id="a", edge_kind="compression")
        assert db.get_compression_lineage("b") == ["a", "b"]
        assert db.take_lease("a", "a chat").token > lease.token

    @pytest.mark.parametrize("gone", ["a", "b"])
    def test_nothing_is_taken_out_of_it(self, db: SessionDB, clock: FrozenClock, gone: str) -> None:
        """A held session is neither trashed nor deleted, unless its holder is gone."""
        say(db, "a", "one")
        compress(db, clock, "a", "b")
        db.create_session("free", "cli")
        lease = db.take_lease("a", "a chat", ttl=60)
        with pytest.raises(ConversationHeld):
            db.trash_sessions(["free", gone])
        with pytest.raises(ConversationHeld):
            db.delete_session(gone)
        assert db.list_trash() == []
        clock.advance(60)
        assert db.delete_session(gone)
        left = "b" if gone == "a" else "a"
        with pytest.raises(StaleFence):
            db.append_message(left, "user", "late", fence=lease.token)
        db.append_message(left, "user", "free")

    def test_a_subagent_that_is_held_keeps_its_parent(self, db: SessionDB) -> None:
        """A held subagent protects its parent, which would delete it."""
        say(db, "a", "one")
        db.create_session("sub", "cli", parent_session_id="a", edge_kind="subagent")
        lease = db.take_lease("sub", "a worker")
        with pytest.raises(ConversationHeld, match="a worker"):
            db.delete_session("a")
        db.release_lease(lease)
        assert db.delete_session("a")

    def test_the_trash_gives_back_what_belongs_to_it(
        self, db: SessionDB, clock: FrozenClock
    ) -> None:
        """A later part is covered at once; an earlier one waits until the lease ends."""
        say(db, "a", "one")
        compress(db, clock, "a", "b")
        db.trash_sessions(["b"])
        lease = db.take_lease("a", "a chat")
        db.restore_sessions(["b"])
        with pytest.raises(ConversationHeld):
            db.append_message("b", "user", "no")
        db.append_message("b", "user", "yes", fence=lease.token)
        db.release_lease(lease)
        db.trash_sessions(["a"])
        lease = db.take_lease("b", "a chat", ttl=60)
        with pytest.raises(ConversationHeld):
            db.restore_sessions(["a"])
        clock.advance(60)
        assert db.restore_sessions(["a"]) == ["a"]
        db.append_message("b", "user", "free")
        assert db.take_lease("b", "a chat").token > lease.token

    def test_pruning_leaves_it_alone(self, db: SessionDB, clock: FrozenClock) -> None:
        """Held conversations are not pruned, whatever their age; expired leases do not count."""
        say(db, "a", "one")
        compress(db, clock, "a", "b")
        db.end_session("b", "done")
        db.take_lease("b", "a chat", ttl=86_400 * 200)
        clock.advance(days=100)
        assert db.list_prune_candidates(1) == []
        assert db.prune_sessions(1) == 0
        clock.advance(days=100)
        assert ids(db.list_prune_candidates(1)) == ["a", "b"]
        assert db.prune_sessions(1) == 2

    def test_a_ghost_that_is_held(self, db: SessionDB, clock: FrozenClock) -> None:
        """A held ghost is kept, because a write is expected; the other is deleted."""
        for name in ("held", "ghost"):
            db.create_session(name, "tui")
            db.end_session(name, "done")
        lease = db.take_lease("held", "a chat", ttl=86_400 * 3)
        clock.advance(days=2)
        assert db.prune_empty_ghost_sessions() == 1
        db.append_message("held", "user", "mine", fence=lease.token)

    def test_an_import_leaves_it_alone(self, db: SessionDB) -> None:
        """It is skipped with a reason; the other sessions are imported."""
        say(db, "a", "one")
        short = db.export_session("a")
        db.append_message("a", "assistant", "two")
        grown = db.export_session("a")
        say(db, "next", "three")
        other = db.export_session("next")
        assert short is not None
        assert grown is not None
        assert other is not None
        continues = {**other, "parent_session_id": "a", "edge_kind": "compression"}
        db.delete_sessions(["a", "next"])
        db.import_sessions([short])
        lease = db.take_lease("a", "a chat", ttl=60)
        result = db.import_sessions([grown, {**other, "id": "free", "messages": []}, continues])
        assert result["imported_ids"] == ["free"]
        assert [conflict["id"] for conflict in result["conflicts"]] == ["a", "next"]
        assert "held by a chat" in result["conflicts"][0]["reason"]
        db.append_message("a", "user", "mine", fence=lease.token)
        assert contents(db.get_messages("a")) == ["one", "mine"]

    def test_a_name_that_is_used_again(self, db: SessionDB, clock: FrozenClock) -> None:
        """A lease on the deleted session does not cover the new one."""
        say(db, "s", "one")
        old = db.take_lease("s", "a chat", ttl=1)
        clock.advance(1)
        db.delete_session("s")
        say(db, "s", "another story")
        new = db.take_lease("s", "a chat")
        assert new.token > old.token
        with pytest.raises(StaleFence):
            db.append_message("s", "user", "late", fence=old.token)
