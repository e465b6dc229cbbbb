"""Tags and metadata of sessions."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput, UnknownSession
from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import branch, compress, ids, session

AWKWARD: dict[str, Any] = {
    "umlaut": "Gr\u00fc\u00dfe \U0001f680",
    "nested": {"umlaut": "no", "list": [1, None, True]},
    "quotes": 'a "b": "c",\n\\',
    "blank key ": "",
    "nul": "a\x00b\ud800",
    "null": None,
    "pi": 3.5,
}


class TestLabels:
    """Tags and metadata belong to a thread, and are used to select sessions."""

    def test_tags_are_added_and_removed(self, db: SessionDB) -> None:
        """Behaviour 117: each once, folded and sorted; every verb returns all of them."""
        db.create_session("s", "cli")
        assert session(db, "s")["tags"] == []
        assert db.add_tags("s", ["Zeta", "  needs\treview ", "zeta"]) == ["needs review", "zeta"]
        assert db.add_tags("s", ["Alpha"]) == ["alpha", "needs review", "zeta"]
        assert db.remove_tags("s", ["ZETA", "missing"]) == ["alpha", "needs review"]
        assert session(db, "s")["tags"] == ["alpha", "needs review"]
        assert db.list_sessions_rich()[0]["tags"] == ["alpha", "needs review"]
        assert db.set_tags("s", ["x"]) == ["x"]
        assert db.set_tags("s", []) == []
        assert session(db, "s")["tags"] == []

    def test_what_is_not_a_tag(self, db: SessionDB) -> None:
        """Behaviour 117: nothing changes when one of several is invalid."""
        db.create_session("s", "cli", tags=["kept"])
        for bad in ("", " ", "x" * 65, "a\x07b", "a\u202eb", "-x", "+x", 'a"b', "a\\b", 7):
            with pytest.raises(InvalidInput):
                db.add_tags("s", ["good", bad])  # type: ignore[list-item]
        with pytest.raises(InvalidInput):
            db.set_tags("s", "text")
        with pytest.raises(InvalidInput):
            db.add_tags("s", [f"t{number}" for number in range(100)])
        assert session(db, "s")["tags"] == ["kept"]
        assert db.add_tags("s", ["x" * 64]) == ["kept", "x" * 64]

    def test_metadata_is_merged(self, db: SessionDB) -> None:
        """Behaviour 117: keys are overwritten, None removes one, and the others stay."""
        db.create_session("s", "cli", metadata={"a": 1})
        assert session(db, "s")["metadata"] == db.get_metadata("s") == {"a": 1}
        assert db.update_metadata("s", AWKWARD) == db.get_metadata("s")
        without_null = {key: value for key, value in AWKWARD.items() if value is not None}
        assert db.get_metadata("s") == {"a": 1} | without_null
        assert db.update_metadata("s", {"a": None, "pi": 4}) == without_null | {"pi": 4}
        assert db.set_metadata("s", AWKWARD) == AWKWARD
        assert db.list_sessions_rich()[0]["metadata"] == AWKWARD
        assert db.update_metadata("s", {}) == AWKWARD
        assert db.set_metadata("s", {}) == {}

    def test_what_is_not_metadata(self, db: SessionDB) -> None:
        """Behaviour 117: nothing changes."""
        db.create_session("s", "cli", metadata={"a": 1})
        wrong: list[Any] = [[], "text", {1: "a"}, {"": 1}, {"a": object()}, {"a": float("nan")}]
        for bad in (*wrong, {"a": "x" * 70_000}):
            with pytest.raises(InvalidInput):
                db.update_metadata("s", bad)
            with pytest.raises(InvalidInput):
                db.create_session("new", "cli", metadata=bad or {1: 2})
        assert db.get_metadata("s") == {"a": 1}
        assert db.get_session("new") is None

    def test_unknown_sessions(self, db: SessionDB) -> None:
        """Behaviour 117: writes refuse them, reads find nothing; so with the trash."""
        db.create_session("s", "cli", tags=["x"], metadata={"a": 1})
        db.trash_sessions(["s"])
        for name in ("s", "missing"):
            with pytest.raises(UnknownSession):
                db.add_tags(name, ["x"])
            with pytest.raises(UnknownSession):
                db.set_metadata(name, {"a": 1})
            assert db.get_metadata(name) == {}
        assert db.list_tags() == {}
        db.restore_sessions(["s"])
        assert db.list_tags() == {"x": 1}

    def test_a_thread_has_one_set_of_labels(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 117: a continuation gets them, and any part changes all; branches do not."""
        db.create_session("a", "cli", tags=["x"], metadata={"k": 1})
        compress(db, clock, "a", "b")
        branch(db, clock, "b", "other")
        assert (session(db, "b")["tags"], db.get_metadata("b")) == (["x"], {"k": 1})
        assert (session(db, "other")["tags"], db.get_metadata("other")) == ([], {})
        db.add_tags("a", ["y"])
        db.update_metadata("b", {"l": 2})
        for name in ("a", "b"):
            assert session(db, name)["tags"] == ["x", "y"]
            assert db.get_metadata(name) == {"k": 1, "l": 2}
        db.continue_session("b", "c")
        assert session(db, "c")["tags"] == ["x", "y"]

    def test_a_later_create_fills_what_is_missing(self, db: SessionDB) -> None:
        """Behaviour 117: labels that the session has stay."""
        db.create_session("s", "cli")
        db.create_session("s", "cli", tags=["x"], metadata={"a": 1})
        db.create_session("s", "cli", tags=["y"], metadata={"b": 1})
        assert (session(db, "s")["tags"], db.get_metadata("s")) == (["x"], {"a": 1})

    def test_tags_are_counted(self, db: SessionDB) -> None:
        """Behaviour 117: the most frequent first, within the scope."""
        db.create_session("a", "cli", user_id="anna", tags=["x", "y"])
        db.create_session("b", "cli", tags=["b", "y"])
        assert list(db.list_tags().items()) == [("y", 2), ("b", 1), ("x", 1)]
        anna = Scope(user_id="anna")
        assert db.list_tags(scope=anna) == {"x": 1, "y": 1}
        db.set_metadata("b", {"k": 1})
        assert db.get_metadata("b", scope=anna) == {}

    def test_lists_select_by_labels(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 118: all tags, none of the excluded ones, all values; of the shown part."""
        db.create_session("a", "cli", tags=["x", "y"], metadata={"k": 1, "l": "Two"})
        clock.advance(1)
        db.create_session("b", "cli", tags=["x"], metadata={"k": "1", "in": {"l": "two"}})
        clock.advance(1)
        db.create_session("c", "cli", metadata={"k": True})

        def listed(**options: Any) -> list[str]:
            return ids(db.list_sessions_rich(**options))

        assert listed(tags=["X"]) == ["b", "a"]
        assert listed(tags=["x", "y"]) == ["a"]
        assert listed(exclude_tags=["y"]) == ["c", "b"]
        assert listed(tags=["x"], exclude_tags=["y"]) == ["b"]
        assert listed(metadata={"k": 1}) == ["b", "a"]
        assert listed(metadata={"k": True}) == listed(metadata={"k": "true"}) == ["c"]
        assert listed(metadata={"l": "two"}) == ["a"]
        assert listed(metadata={"k": 1, "l": "two"}, tags=["y"]) == ["a"]
        assert listed(metadata={"k": None}) == []
        clock.advance(1)
        compress(db, clock, "a", "a2")
        assert listed(tags=["y"]) == ["a2"]
        assert listed(tags=["y"], order_by_last_active=False) == ["a2"]
        assert set(listed(tags=["y"], include_children=True)) == {"a", "a2"}
        for bad in ({"k": [1]}, {"k": float("inf")}):
            with pytest.raises(InvalidInput):
                listed(metadata=bad)
        with pytest.raises(InvalidInput):
            listed(tags=[""])

    def test_exports_and_prunes_select_by_labels(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 118: a conversation is pruned if all its parts but subagents are selected."""
        db.create_session("a", "cli", tags=["x"], metadata={"k": 1})
        db.create_session("b", "cli", tags=["x", "keep"])
        db.create_session("c", "cli", tags=["x"])
        branch(db, clock, "c", "c2")
        db.create_session("agent", "cli", parent_session_id="a", edge_kind="subagent")
        for name in ("a", "b", "c", "c2", "agent"):
            db.end_session(name, "done")
        assert {record["id"] for record in db.iter_export(tags=["x"])} == {"a", "b", "c"}
        assert ids(db.iter_export(metadata={"k": 1})) == ["a"]
        clock.advance(days=100)
        options: dict[str, Any] = {"tags": ["x"], "exclude_tags": ["keep"]}
        assert set(ids(db.list_prune_candidates(**options))) == {"a", "agent"}
        assert db.list_prune_candidates(workspace="none") == []
        assert db.prune_sessions(**options) == 2
        assert set(ids(db.list_sessions_rich())) == {"b", "c", "c2"}

    def test_a_search_tells_what_labels_removed(self, db: SessionDB) -> None:
        """Behaviour 118: each tag and each key is counted by itself."""
        db.create_session("a", "cli", tags=["x"], metadata={"k": 1})
        db.append_message("a", "user", "plum")
        db.create_session("b", "cli", tags=["x", "y"])
        db.append_message("b", "user", "plum")
        report = db.search("plum tag:x tag:y meta.k:1").report
        assert (report.total, report.removed) == (0, {"tag y": 1, "meta.k": 1})
        assert db.search("plum -tag:y").report.removed == {"not tag y": 1}

    def test_labels_travel(self, db: SessionDB) -> None:
        """Behaviour 117: an export has them as values, and an import restores them."""
        db.create_session("s", "cli", tags=["x", "y"], metadata=AWKWARD)
        exported = db.export_session("s")
        assert exported is not None
        assert (exported["tags"], exported["metadata"]) == (["x", "y"], AWKWARD)
        db.delete_session("s")
        db.import_sessions([exported])
        assert session(db, "s")["tags"] == ["x", "y"]
        assert session(db, "s")["metadata"] == AWKWARD
        assert ids(db.list_sessions_rich(metadata={"pi": 3.5}, tags=["y"])) == ["s"]
        foreign = {"id": "f", "source": "cli", "tags": '["B", "a"]', "metadata": '{"k":1}'}
        db.import_sessions([foreign])
        assert ids(db.list_sessions_rich(metadata={"k": "1"}, tags=["a", "b"])) == ["f"]
