"""Export and import of sessions as plain records."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.fixtures import OpenStore
from hermes_sessions_testing.conformance.helpers import (
    assert_summary_is_true,
    branch,
    compress,
    contents,
    exchange,
    ids,
    session,
)

Record = dict[str, Any]


def a_rich_store(db: SessionDB, clock: FrozenClock) -> None:
    """Fill a store with one of everything that an export must carry."""
    db.create_session("root", "cli", model="m", model_config={"a": "é"}, user_id="u")
    exchange(db, "root", "question", "answer")
    db.append_message("root", "user", [{"type": "text", "text": "日本"}], external_id="e-1")
    call = {"id": "call_1", "function": {"name": "f", "arguments": "{}"}}
    db.append_message("root", "assistant", None, tool_calls=[call], reasoning_details=[{"a": 1}])
    db.append_message("root", "tool", "result", tool_call_id="call_1", tool_name="f")
    db.update_token_counts("root", input_tokens=5, model="m", estimated_cost_usd=0.5)
    db.record_auxiliary_usage("root", "title", model="n", input_tokens=7)
    db.set_session_title("root", "Plan")
    compress(db, clock, "root", "tip")
    added = [*exchange(db, "tip", "one", "two"), *exchange(db, "tip", "three", "four")]
    db.rewind_to_message("tip", added[2])
    branch(db, clock, "tip", "fork", source="telegram")
    db.create_session("helper", "cli", parent_session_id="fork", edge_kind="subagent")
    clock.advance(1)
    db.create_session("archived", "cli")
    db.set_session_archived("archived")


def emptied(db: SessionDB) -> None:
    """Delete every session for good."""
    db.delete_sessions([row["id"] for row in db.search_sessions(limit=-1)])
    assert db.export_all() == []


def through_json(records: Sequence[Mapping[str, Any]]) -> list[Record]:
    """Return the records as they come back from a file."""
    read: list[Record] = json.loads(json.dumps(records))
    return read


class TestExport:
    """An export contains everything, as plain values."""

    def test_one_session(self, db: SessionDB) -> None:
        """Behaviour 78: the session record with its messages; None for an unknown one."""
        db.create_session("s", "cli")
        exchange(db, "s", "question", "answer")
        exported = db.export_session("s")
        assert exported is not None
        stored = session(db, "s")
        assert {name: dict[str, Any](exported)[name] for name in stored} == stored
        messages = db.get_messages("s")
        for got, expected in zip(exported["messages"], messages, strict=True):
            assert {name: dict[str, Any](got)[name] for name in expected} == expected
        assert db.export_session("missing") is None

    def test_all_sessions(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 78: newest activity first, children included, with last_active."""
        db.create_session("a", "cli")
        clock.advance(1)
        db.create_session("b", "telegram", parent_session_id="a", edge_kind="subagent")
        clock.advance(1)
        exchange(db, "a", "question")
        exported = db.export_all()
        assert ids(exported) == ["a", "b"]
        assert [len(record["messages"]) for record in exported] == [2, 0]
        assert exported[1]["last_active"] == clock() - 1
        assert exported[0]["last_active"] >= clock()
        assert ids(db.export_all("telegram")) == ["b"]
        assert db.export_all("missing") == []
        assert list(db.iter_export()) == exported

    def test_a_conversation(self, db: SessionDB, clock: FrozenClock) -> None:
        """Every session of the family, oldest first."""
        db.create_session("root", "cli")
        compress(db, clock, "root", "tip")
        branch(db, clock, "tip", "fork")
        db.create_session("stranger", "cli")
        assert ids(db.export_session_lineage("tip")) == ["root", "tip", "fork"]
        assert db.export_session_lineage("missing") == []

    def test_an_export_is_json(self, db: SessionDB, clock: FrozenClock) -> None:
        """Plain values all the way down."""
        a_rich_store(db, clock)
        exported = db.export_all()
        assert through_json(exported) == exported

    def test_some_sessions_go_out(self, db: SessionDB, clock: FrozenClock) -> None:
        """By source, time, title and scope; no character of a title is a wildcard."""
        times = {}
        for name, title in (("a", "Ärger 100%"), ("b", "ärger"), ("c", None)):
            times[name] = clock.advance(days=1)
            db.create_session(name, "cli", user_id=name)
            db.set_session_title(name, title)
        db.create_session("d", "telegram", started_at=times["a"])
        assert ids(db.iter_export("telegram")) == ["d"]
        assert ids(db.iter_export(since=times["b"])) == ["c", "b"]
        assert ids(db.iter_export(until=times["c"], since=times["b"])) == ["b"]
        assert ids(db.iter_export(title="ÄRGER")) == ["b", "a"]
        assert ids(db.iter_export(title="%")) == ["a"]
        assert ids(db.iter_export(scope=Scope(user_id="c"))) == ["c"]


class TestImport:
    """An import restores an export, once."""

    @pytest.mark.parametrize("blank", ["", "  ", "\t"])
    def test_blank_ids_of_old_come_back(
        self, db: SessionDB, clock: FrozenClock, blank: str
    ) -> None:
        """New sessions cannot have a blank id; a stored one can be used and imported."""
        db.create_session("s", "cli")
        exchange(db, "s", "question", "answer")
        compress(db, clock, "s", "child")
        text = json.dumps(db.export_all()).replace('"s"', json.dumps(blank))
        emptied(db)
        assert db.import_sessions(json.loads(text))["imported"] == 2
        exchange(db, blank, "another")
        assert contents(db.get_messages(blank)) == ["question", "answer", "another", "ok"]
        assert db.get_compression_tip(blank) == "child"
        before = db.export_all()
        emptied(db)
        assert db.import_sessions(through_json(before))["ok"] is True
        assert db.export_all() == before

    def test_there_and_back(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 98: sessions, messages, usage, rewinds and lineage are as they were."""
        a_rich_store(db, clock)
        before = db.export_all()
        listed = db.list_sessions_rich(include_archived=True)
        emptied(db)
        clock.advance(days=1)
        report = db.import_sessions(through_json(before))
        assert (report["ok"], report["imported"], report["errors"]) == (True, 5, [])
        assert db.export_all() == before
        assert db.list_sessions_rich(include_archived=True) == listed
        assert db.get_compression_tip("root") == "tip"
        assert ids(db.list_conversation("helper")) == ["root", "tip", "fork", "helper"]
        for name in ("root", "archived", "fork"):
            assert_summary_is_true(db, name)

    def test_in_any_order(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 98: children may come before their parents, and one at a time."""
        a_rich_store(db, clock)
        before = db.export_all()
        emptied(db)
        for record in sorted(before, key=lambda record: str(record["id"])):
            assert db.import_sessions([record])["ok"] is True
        db.import_sessions(reversed(before))
        assert db.export_all() == before

    def test_importing_again(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 98: existing sessions are skipped."""
        a_rich_store(db, clock)
        before = db.export_all()
        for _ in range(2):
            report = db.import_sessions(iter(before))
            assert (report["ok"], report["imported"], report["skipped"]) == (True, 0, 5)
            assert db.export_all() == before
        emptied(db)
        assert db.import_sessions(before)["imported"] == 5
        assert db.import_sessions(before)["skipped"] == 5
        assert db.export_all() == before

    @pytest.mark.parametrize(
        "bad",
        [
            {"id": "", "source": "cli", "messages": []},
            {"id": "  ", "source": "cli", "messages": []},
            {"source": "cli", "messages": []},
            {"id": "x" * 200, "source": "cli", "messages": []},
            {"id": "bad", "source": "cli", "messages": "none"},
            {"id": "bad", "source": "cli", "messages": [{"content": "no role"}]},
            {"id": "bad", "source": "cli", "started_at": "noon", "messages": []},
            {"id": "bad", "source": "cli", "edge_kind": "friend", "messages": []},
            {"id": "good", "source": "cli", "messages": []},
            "not a record",
        ],
        ids=lambda bad: repr(bad)[:40],
    )
    def test_one_bad_session(self, db: SessionDB, bad: Any) -> None:
        """Behaviour 98: one invalid id refuses the import; the error names it and the reason."""
        message = {"role": "user", "content": "hi", "timestamp": 1.0}
        good = {"id": "good", "source": "cli", "started_at": 1.0, "messages": [message]}
        report = db.import_sessions([good, bad])
        assert report["ok"] is False
        assert report["imported"] == 0
        (error,) = report["errors"]
        assert error["index"] == 1
        assert error["error"]
        assert db.session_count() == 0
        report = db.import_sessions([good, bad], leave_out_invalid=True)
        assert (report["ok"], report["imported"], report["errors"]) == (False, 1, [error])
        assert ids(db.search_sessions()) == ["good"]

    def test_a_session_that_grew(self, db: SessionDB) -> None:
        """The longer transcript wins, in either direction."""
        db.create_session("s", "cli")
        exchange(db, "s", "1", "2")
        short = db.export_session("s")
        exchange(db, "s", "3", "4")
        long = db.export_session("s")
        assert short is not None
        assert long is not None
        emptied(db)
        db.import_sessions([short])
        report = db.import_sessions([long])
        assert (report["ok"], report["extended"], report["imported"]) == (True, 1, 0)
        assert contents(db.get_messages("s")) == ["1", "2", "3", "4"]
        assert_summary_is_true(db, "s")
        report = db.import_sessions([short])
        assert (report["ok"], report["skipped"], report["extended"]) == (True, 1, 0)
        assert contents(db.get_messages("s")) == ["1", "2", "3", "4"]

    def test_another_session_under_the_same_id(self, db: SessionDB) -> None:
        """It is left unchanged and reported."""
        db.create_session("s", "cli")
        exchange(db, "s", "mine", "yes")
        before = db.export_all()
        other = copy.deepcopy([dict[str, Any](record) for record in before])
        other[0]["messages"][0]["content"] = "yours"
        other.append({"id": "t", "source": "cli", "started_at": 1.0, "messages": []})
        report = db.import_sessions(other)
        assert [conflict["id"] for conflict in report["conflicts"]] == ["s"]
        assert report["imported"] == 1
        assert [record for record in db.export_all() if record["id"] == "s"] == before

    def test_a_title_that_is_taken(self, db: SessionDB) -> None:
        """Titles stay unique; the session that comes in gets the next number."""
        db.create_session("s", "cli")
        db.set_session_title("s", "Plan")
        exported = db.export_all()
        emptied(db)
        db.create_session("t", "cli")
        db.set_session_title("t", "Plan")
        assert db.import_sessions(exported)["imported"] == 1
        assert db.get_session_title("t") == "Plan"
        assert db.get_session_title("s") == "Plan #2"

    def test_ids_of_messages(self, db: SessionDB) -> None:
        """Imported messages never replace others, and later appends come after them."""
        db.create_session("s", "cli")
        exchange(db, "s", "mine")
        exported = db.export_all()
        emptied(db)
        db.create_session("t", "cli")
        exchange(db, "t", "yours")
        db.import_sessions(exported)
        added = db.append_message("t", "user", "more")
        everything = [*ids(db.get_messages("s")), *ids(db.get_messages("t"))]
        assert len(set(everything)) == 5
        assert added == max(everything)

    def test_records_of_the_documented_shape(self, db: SessionDB, clock: FrozenClock) -> None:
        """The documented columns are sufficient; others get defaults."""
        report = db.import_sessions(
            [
                {
                    "id": "old",
                    "source": "cli",
                    "started_at": 1_700_000_000.0,
                    "title": "Old",
                    "message_count": 2,
                    "messages": [
                        {"id": 7, "role": "user", "content": "hi", "timestamp": 1_700_000_001.0},
                        {
                            "id": 9,
                            "role": "assistant",
                            "content": "yo",
                            "tool_calls": '[{"id": "call_1"}]',
                            "timestamp": 1_700_000_002.0,
                        },
                    ],
                },
                {"id": "bare"},
            ]
        )
        assert (report["ok"], report["imported"]) == (True, 2)
        old = session(db, "old")
        assert (old["title"], old["message_count"], old["tool_call_count"]) == ("Old", 2, 1)
        assert [message["tool_calls"] for message in db.get_messages("old")][1] == [
            {"id": "call_1"}
        ]
        assert db.list_sessions_rich()[1]["last_active"] == 1_700_000_002.0
        assert session(db, "bare")["started_at"] == clock()
        assert session(db, "bare")["source"] == "unknown"

    def test_lineages_that_make_no_sense(self, db: SessionDB) -> None:
        """Unknown parents are dropped and cycles are broken; no session is lost."""
        report = db.import_sessions(
            [
                {"id": "a", "source": "cli", "started_at": 1.0, "parent_session_id": "b"},
                {"id": "b", "source": "cli", "started_at": 2.0, "parent_session_id": "a"},
                {"id": "c", "source": "cli", "started_at": 3.0, "parent_session_id": "nobody"},
            ]
        )
        assert (report["ok"], report["imported"]) == (True, 3)
        assert session(db, "c")["parent_session_id"] is None
        parents = [session(db, name)["parent_session_id"] for name in ("a", "b")]
        assert parents.count(None) == 1
        assert ids(db.list_conversation("a")) == ["a", "b"]

    def test_a_session_in_the_trash(self, db: SessionDB) -> None:
        """An import neither restores a trashed session nor loses it."""
        db.create_session("s", "cli")
        exchange(db, "s", "question")
        exported = db.export_all()
        db.trash_sessions(["s"])
        report = db.import_sessions(exported)
        assert report["imported"] == 0
        assert db.get_session("s") is None
        db.restore_sessions(["s"])
        assert db.export_all() == exported

    def test_nothing_to_import(self, db: SessionDB) -> None:
        """Importing an empty list changes nothing."""
        report = db.import_sessions([])
        assert (report["ok"], report["imported"], report["errors"]) == (True, 0, [])

    def test_many_sessions(self, db: SessionDB) -> None:
        """An import larger than one transaction."""
        records = [
            {
                "id": f"s{number:03}",
                "source": "cli",
                "started_at": float(number),
                "messages": [
                    {"role": "user", "content": f"{number}/{n}", "timestamp": number + n / 100}
                    for n in range(3_000 if number == 60 else 10)
                ],
            }
            for number in range(120)
        ]
        report = db.import_sessions(records)
        assert (report["ok"], report["imported"]) == (True, 120)
        assert db.message_count() == 119 * 10 + 3_000
        for name in ("s000", "s060", "s119"):
            assert_summary_is_true(db, name)
        assert contents(db.get_messages("s060"))[-1] == "60/2999"
        assert db.import_sessions(records)["skipped"] == 120


class TestImportLimits:
    """An import obeys the limits of its handle."""

    def test_a_message_over_the_limit(self, db: SessionDB, open_another: OpenStore) -> None:
        """An oversized message refuses the import before any write."""
        limited = open_another(max_message_bytes=1_000)
        message = {"role": "user", "content": "x" * 2_000, "timestamp": 1.0}
        report = limited.import_sessions(
            [
                {"id": "fine", "source": "cli", "started_at": 1.0, "messages": []},
                {"id": "s", "source": "cli", "started_at": 1.0, "messages": [message]},
            ]
        )
        assert report["ok"] is False
        assert report["errors"][0]["index"] == 1
        assert db.session_count() == 0
