"""Lineage: why a session has a parent, chains, and what resuming one means."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from hermes_sessions.errors import HermesSessionsError, InvalidInput, UnknownSession
from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import (
    branch,
    compress,
    contents,
    exchange,
    ids,
    session,
)

# Continuations: a session continues under a new id, with a summary instead of its messages.


class TestContinuation:
    """Everything at once, or nothing."""

    def test_what_the_new_session_has(self, db: SessionDB) -> None:
        """Its parent's identity, the next title, the messages given."""
        db.create_session("a", "cli", model="m", user_id="ada", system_prompt="Be brief.")
        db.set_session_title("a", "my project")
        db.append_message("a", "user", "the long story of the pangolin")
        assert db.continue_session("a", "b", [{"role": "user", "content": "in short"}]) == "b"
        made, old = session(db, "b"), session(db, "a")
        kept = ("source", "user_id", "model", "system_prompt", "conversation_id")
        assert [made[name] for name in kept] == ["cli", "ada", "m", "Be brief.", "a"]
        assert (made["parent_session_id"], made["edge_kind"]) == ("a", "compression")
        assert (made["title"], old["title"]) == ("my project #2", "my project")
        assert contents(db.get_messages("b")) == ["in short"]
        assert (old["end_reason"], made["ended_at"]) == ("compression", None)
        assert made["message_count"] == 1

    def test_every_name_leads_to_the_newest(self, db: SessionDB) -> None:
        """By id or title of the family; the originals are still found."""
        db.create_session("a", "cli")
        db.set_session_title("a", "my project")
        db.append_message("a", "user", "the long story of the pangolin")
        db.continue_session("a", "b", [{"role": "user", "content": "in short"}])
        db.continue_session("b", "c", [{"role": "user", "content": "shorter"}])
        assert {db.resolve_resume_session_id(name) for name in "abc"} == {"c"}
        assert db.get_session_title("c") == "my project #3"
        assert db.resolve_session_by_title("my project") == "c"
        assert [hit["session_id"] for hit in db.search_messages("pangolin")] == ["a"]
        assert [row["id"] for row in db.list_sessions_rich()] == ["c"]

    def test_only_the_newest_can_be_continued(self, db: SessionDB) -> None:
        """Only under a new id; a refused call changes nothing."""
        db.create_session("a", "cli")
        db.create_session("x", "cli")
        db.continue_session("a", "b")
        with pytest.raises(InvalidInput, match="'b'"):
            db.continue_session("a", "c")
        with pytest.raises(InvalidInput, match="already"):
            db.continue_session("b", "x")
        with pytest.raises(UnknownSession):
            db.continue_session("unknown", "c")
        with pytest.raises(InvalidInput):
            db.continue_session("b", " ")
        with pytest.raises(InvalidInput):
            db.continue_session("b", "c", [{"role": "", "content": "x"}])
        session = db.get_session("b")
        assert session is not None
        assert session["ended_at"] is None
        assert db.get_session("c") is None

    def test_rivals(self, db: SessionDB) -> None:
        """One of them continues the session, the others are refused."""
        db.create_session("a", "cli")
        made: list[str] = []

        def work(name: str) -> None:
            with suppress(HermesSessionsError):
                made.append(db.continue_session("a", name))

        threads = [threading.Thread(target=work, args=(f"b{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 1
        assert db.get_compression_lineage("a") == ["a", *made]


def kind_of(db: SessionDB, session_id: str) -> str | None:
    """Return why a session has its parent."""
    kind: str | None = session(db, session_id)["edge_kind"]
    return kind


class TestLineage:
    """Edge kinds are stored, never inferred from timestamps."""

    @pytest.mark.parametrize("kind", ["compression", "branch", "subagent"])
    def test_a_child_is_its_parents_users(self, db: SessionDB, kind: str) -> None:
        """A continuation belongs to its parent's user unless a user is given."""
        anna = Scope(user_id="anna")
        db.create_session("a", "telegram", user_id="anna")
        db.create_session("child", "telegram", parent_session_id="a", edge_kind=kind)
        db.create_session("below", "telegram", parent_session_id="child", edge_kind=kind)
        db.create_session("other", "telegram", user_id="ben", parent_session_id="a", edge_kind=kind)
        db.create_session("late", "telegram")
        db.create_session("late", "telegram", parent_session_id="a", edge_kind=kind)
        users = {name: session(db, name)["user_id"] for name in ("child", "below", "other", "late")}
        assert users == {"child": "anna", "below": "anna", "other": "ben", "late": "anna"}
        assert db.get_session("below", scope=anna) is not None
        assert db.get_session("other", scope=anna) is None

    @pytest.mark.parametrize(
        ("source", "kind"),
        [("telegram", "handoff"), ("telegram", None), ("discord", "compression")],
    )
    def test_a_child_that_may_be_somebody_elses(
        self, db: SessionDB, source: str, kind: str | None
    ) -> None:
        """The same id can be another user on another platform, so no user is assumed."""
        db.create_session("a", "telegram", user_id="7")
        db.create_session("b", source, parent_session_id="a", edge_kind=kind)
        db.create_session("late", source)
        db.create_session("late", source, parent_session_id="a", edge_kind=kind)
        assert [session(db, name)["user_id"] for name in ("b", "late")] == [None, None]

    def test_a_compressed_thread_stays_in_its_users_list(
        self, db: SessionDB, clock: FrozenClock
    ) -> None:
        """Agents do not repeat the user when they compress a session."""
        db.create_session("a", "telegram", user_id="anna")
        compress(db, clock, "a", "b", source="telegram")
        assert ids(db.list_sessions_rich(scope=Scope(user_id="anna"))) == ["b"]

    def test_nothing_continues_an_unknown_session(self, db: SessionDB) -> None:
        """Behaviour 52: it is its own tip."""
        assert db.get_compression_tip("missing") == "missing"
        assert db.get_compression_lineage("missing") == []
        assert db.list_conversation("missing") == []
        assert db.get_conversation_root("missing") == "missing"

    def test_the_tip_of_a_chain(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 52: from every member, through every link."""
        db.create_session("a", "cli")
        compress(db, clock, "a", "b")
        compress(db, clock, "b", "c")
        db.create_session("alone", "cli")
        assert [db.get_compression_tip(name) for name in ("a", "b", "c")] == ["c", "c", "c"]
        assert db.get_compression_tip("alone") == "alone"
        assert db.get_compression_lineage("b") == ["a", "b", "c"]
        assert db.get_compression_lineage("alone") == ["alone"]

    def test_branches_and_subagents_are_no_continuations(
        self, db: SessionDB, clock: FrozenClock
    ) -> None:
        """Behaviour 52: only compression makes a chain."""
        db.create_session("a", "cli")
        db.create_session("helper", "cli", parent_session_id="a", edge_kind="subagent")
        branch(db, clock, "a", "fork")
        assert db.get_compression_tip("a") == "a"
        assert db.get_compression_lineage("a") == ["a"]

    def test_resuming_an_empty_head(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 53: the nearest descendant with messages; itself when it has some."""
        db.create_session("e1", "cli")
        clock.advance(1)
        db.create_session("e2", "cli", parent_session_id="e1")
        clock.advance(1)
        db.create_session("e3", "cli", parent_session_id="e2")
        assert db.resolve_resume_session_id("e1") == "e1"
        exchange(db, "e3", "hi")
        assert db.resolve_resume_session_id("e1") == "e3"
        exchange(db, "e1", "hi")
        assert db.resolve_resume_session_id("e1") == "e1"

    def test_resuming_a_compressed_session(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 53: resuming continues at the tip."""
        db.create_session("a", "cli")
        exchange(db, "a", "old")
        compress(db, clock, "a", "b")
        exchange(db, "b", "newer")
        compress(db, clock, "b", "c")
        exchange(db, "c", "newest")
        assert [db.resolve_resume_session_id(name) for name in "abc"] == ["c", "c", "c"]

    def test_resuming_nothing(self, db: SessionDB) -> None:
        """Behaviour 53: an unknown or empty id comes back as it is."""
        assert db.resolve_resume_session_id("missing") == "missing"
        assert db.resolve_resume_session_id("") == ""

    @pytest.mark.parametrize("kind", ["compression", "branch", "subagent", "handoff"])
    def test_a_stated_kind_is_kept(self, db: SessionDB, kind: str) -> None:
        """Whatever the parent's end would suggest."""
        db.create_session("a", "cli")
        db.create_session("b", "cli", parent_session_id="a", edge_kind=kind)
        assert kind_of(db, "b") == kind
        db.end_session("a", "branched" if kind == "compression" else "compression")
        db.create_session("c", "cli", parent_session_id="a", edge_kind=kind)
        assert kind_of(db, "c") == kind
        shown = {row["id"] for row in db.list_sessions_rich()}
        expected = {"compression": {"c"}, "subagent": {"a"}}.get(kind, {"a", "b", "c"})
        assert shown == expected

    def test_an_unstated_kind_follows_the_protocol(self, db: SessionDB, clock: FrozenClock) -> None:
        """How the parent ended, or a marker in the model configuration, says what is meant."""
        for name in ("a", "b", "c", "d", "e"):
            db.create_session(name, "cli")
        compress(db, clock, "a", "a2")
        branch(db, clock, "b", "b2")
        db.create_session("c2", "cli", parent_session_id="c")
        db.create_session("d2", "cli", parent_session_id="d", model_config={"_delegate_from": "d"})
        db.create_session("e2", "cli", parent_session_id="e", model_config={"_branched_from": "e"})
        kinds = [kind_of(db, name) for name in ("a2", "b2", "c2", "d2", "e2", "a")]
        assert kinds == ["compression", "branch", None, "subagent", "branch", None]

    def test_clocks_do_not_matter(self, db: SessionDB, clock: FrozenClock) -> None:
        """A continuation may start before its parent's end."""
        db.create_session("a", "cli")
        db.end_session("a", "compression")
        clock.advance(-3600)
        db.create_session("b", "cli", parent_session_id="a")
        assert db.get_compression_tip("a") == "b"
        assert ids(db.list_sessions_rich()) == ["b"]

    def test_what_cannot_be_an_edge(self, db: SessionDB) -> None:
        """An unknown kind, or a kind without a parent."""
        db.create_session("a", "cli")
        with pytest.raises(InvalidInput):
            db.create_session("b", "cli", parent_session_id="a", edge_kind="friend")
        with pytest.raises(InvalidInput):
            db.create_session("b", "cli", edge_kind="branch")
        assert db.get_session("b") is None

    def test_a_conversation_is_the_whole_family(self, db: SessionDB, clock: FrozenClock) -> None:
        """Its id is its first session's."""
        db.create_session("root", "cli")
        clock.advance(1)
        db.create_session("helper", "cli", parent_session_id="root", edge_kind="subagent")
        compress(db, clock, "root", "tip")
        branch(db, clock, "tip", "fork")
        db.create_session("stranger", "cli")
        family = ["root", "helper", "tip", "fork"]
        for name in family:
            assert db.get_conversation_root(name) == "root"
            assert ids(db.list_conversation(name)) == family
        assert ids(db.list_conversation("stranger")) == ["stranger"]
        assert session(db, "fork")["conversation_id"] == "root"

    def test_a_parent_found_later_joins_the_families(
        self, db: SessionDB, clock: FrozenClock
    ) -> None:
        """A session that was created before its parent was known, with children of its own."""
        db.create_session("root", "cli")
        clock.advance(1)
        db.create_session("child", "cli")
        clock.advance(1)
        db.create_session("grandchild", "cli", parent_session_id="child", edge_kind="compression")
        db.create_session("child", "cli", parent_session_id="root", edge_kind="compression")
        assert db.get_compression_lineage("root") == ["root", "child", "grandchild"]
        assert ids(db.list_sessions_rich()) == ["grandchild"]
        assert ids(db.list_conversation("grandchild")) == ["root", "child", "grandchild"]

    def test_no_circles(self, db: SessionDB) -> None:
        """A session does not become its own ancestor."""
        db.create_session("a", "cli")
        db.create_session("b", "cli", parent_session_id="a", edge_kind="compression")
        db.create_session("a", "cli", parent_session_id="b", edge_kind="compression")
        db.create_session("a", "cli", parent_session_id="a", edge_kind="compression")
        assert session(db, "a")["parent_session_id"] is None
        assert db.get_compression_tip("a") == "b"

    def test_no_circles_through_the_trash(self, db: SessionDB) -> None:
        """Nor through a trashed session, however the edge is created."""
        db.create_session("a", "cli")
        db.create_session("b", "cli", parent_session_id="a", edge_kind="branch")
        db.create_session("c", "cli", parent_session_id="b", edge_kind="branch")
        db.trash_sessions(["b"])
        db.create_session("a", "cli", parent_session_id="c", edge_kind="branch")
        db.import_sessions([{"id": "a", "source": "cli", "parent_session_id": "c"}])
        db.restore_sessions(["b"])
        assert session(db, "a")["parent_session_id"] is None
        assert db.get_conversation_root("c") == "a"

    def test_rival_continuations(self, db: SessionDB, clock: FrozenClock) -> None:
        """After two compressions of one session, the newer one is the tip, also in lists."""
        db.create_session("a", "cli")
        compress(db, clock, "a", "older")
        clock.advance(1)
        db.create_session("newer", "cli", parent_session_id="a")
        clock.advance(1)
        db.append_message("older", "user", "too late")
        assert db.get_compression_tip("a") == "newer"
        assert ids(db.list_sessions_rich()) == ["newer"]

    def test_late_messages_to_a_superseded_session(self, db: SessionDB, clock: FrozenClock) -> None:
        """They are stored in the addressed session, and move the thread up in lists."""
        db.create_session("a", "cli")
        exchange(db, "a", "question")
        compress(db, clock, "a", "b")
        clock.advance(1)
        db.create_session("other", "cli")
        clock.advance(1)
        db.append_message("a", "tool", "late result")
        assert db.message_count("a") == 3
        assert db.message_count("b") == 0
        assert ids(db.list_sessions_rich()) == ["b", "other"]
        assert db.list_sessions_rich()[0]["last_active"] == clock()

    def test_taking_back_keeps_what_a_late_message_raised(
        self, db: SessionDB, clock: FrozenClock
    ) -> None:
        """The newest part determines the thread's activity, whatever is rewound in another."""
        db.create_session("a", "cli")
        exchange(db, "a", "question")
        compress(db, clock, "a", "b")
        question, _ = exchange(db, "b", "more")
        clock.advance(1)
        db.create_session("other", "cli")
        late = clock.advance(1)
        asked_late = db.append_message("a", "user", "late")

        def thread() -> tuple[list[str], float]:
            rows = db.list_sessions_rich()
            return ids(rows), {row["id"]: row["last_active"] for row in rows}["b"]

        db.rewind_to_message("b", question)
        assert thread() == (["b", "other"], late)
        db.restore_rewound("b")
        assert thread() == (["b", "other"], late)
        db.replace_messages("b", [{"role": "user", "content": "x", "timestamp": late - 3}])
        assert thread() == (["b", "other"], late)
        db.clear_messages("b")
        assert thread() == (["b", "other"], late)
        db.append_message("b", "user", "sent earlier", timestamp=late - 3)
        assert thread() == (["b", "other"], late)
        db.rewind_to_message("a", asked_late)
        assert thread() == (["other", "b"], late - 3)
        db.restore_rewound("a")
        assert thread() == (["b", "other"], late)

    def test_orphaned_continuations_are_ended(self, db: SessionDB, clock: FrozenClock) -> None:
        """Those of a week or older that have messages and never reached a model."""
        for name in ("old", "older", "used", "empty", "ended"):
            db.create_session(name, "cli")
            compress(db, clock, name, f"{name}-2")
        db.create_session("no continuation", "cli")
        for name in ("old-2", "older-2", "used-2", "ended-2", "no continuation"):
            exchange(db, name, "hi")
        db.update_token_counts("used-2", api_call_count=1)
        db.end_session("ended-2", "cli_close")
        clock.advance(days=6)
        assert db.finalize_orphaned_compression_sessions() == 0
        db.create_session("young", "cli")
        compress(db, clock, "young", "young-2")
        exchange(db, "young-2", "hi")
        now = clock.advance(days=2)
        assert db.finalize_orphaned_compression_sessions() == 2
        for name in ("old-2", "older-2"):
            stored = session(db, name)
            assert (stored["end_reason"], stored["ended_at"]) == ("orphaned_compression", now)
        for name in ("used-2", "empty-2", "young-2", "no continuation"):
            assert session(db, name)["ended_at"] is None
        assert session(db, "ended-2")["end_reason"] == "cli_close"
        assert db.finalize_orphaned_compression_sessions() == 0
