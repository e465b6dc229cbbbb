"""Export and import of sessions through the public API."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.sessiondb import SessionDB
from tests.storage.export_samples import everything, fill, ticking

Record = dict[str, Any]


@pytest.fixture
def source() -> Iterator[SessionDB]:
    with SessionDB(":memory:", clock=ticking()) as db:
        yield db


@pytest.fixture
def target() -> Iterator[SessionDB]:
    with SessionDB(":memory:", clock=ticking(1_800_000_000.0)) as db:
        yield db


def outcome(report: Record) -> Record:
    """The parts of a report that are not empty, without the lists of ids."""
    return {name: value for name, value in report.items() if value and not name.endswith("_ids")}


def texts(db: SessionDB, session_id: str) -> list[Any]:
    return [message["content"] for message in db.get_messages(session_id)]


def session(session_id: str, *messages: Record, **columns: Any) -> Record:
    """A record in the documented shape."""
    return {
        "id": session_id,
        "source": "cli",
        "started_at": 1_000.0,
        "messages": list(messages),
        **columns,
    }


def said(role: str, content: Any, **columns: Any) -> Record:
    return {"role": role, "content": content, "timestamp": 1_001.0, **columns}


# ── round trip ────────────────────────────────────────────────────────────────────────────────


def test_everything_comes_back_as_it_was_ids_included(source: SessionDB, target: SessionDB) -> None:
    fill(source)
    report = target.import_sessions(source.export_all())
    assert outcome(report) == {"ok": True, "imported": len(source.export_all())}
    assert everything(target) == everything(source)


def test_a_store_goes_on_after_an_import(source: SessionDB, target: SessionDB) -> None:
    fill(source)
    target.import_sessions(source.export_all())
    newest = max(m["id"] for record in source.export_all() for m in record["messages"])
    assert target.append_message("tip", "user", "next") > newest
    assert target.get_messages("tip")[-1]["ordinal"] == 2
    # What was rewound is still tied to its rewind.
    question = target.get_messages("rewound")[-1]
    target.rewind_to_message("rewound", question["id"])
    target.restore_rewound("rewound")
    assert texts(target, "rewound")[-1] == "another way"


def test_importing_again_changes_nothing(source: SessionDB, target: SessionDB) -> None:
    fill(source)
    records = source.export_all()
    target.import_sessions(records)
    before = everything(target)
    report = target.import_sessions(records)
    assert outcome(report) == {"ok": True, "skipped": len(records)}
    assert everything(target) == before


def test_one_session_and_one_family_are_exported_alone(source: SessionDB) -> None:
    fill(source)
    by_id = {record["id"]: record for record in source.export_all()}
    assert source.export_session("head") == by_id["head"]
    family = source.export_session_lineage("helper")
    assert [record["id"] for record in family] == ["parent", "helper", "branch", "moved"]
    assert family[0] == by_id["parent"]
    assert source.export_session("no such") is None
    assert source.export_session_lineage("no such") == []
    assert source.export_session("trashed") is None
    assert {r["source"] for r in source.iter_export("telegram")} == {"telegram"}


def test_an_export_is_one_state_although_others_write(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "s.db") as db:
        for number in range(5):
            db.create_session(f"s{number}", "cli")
        export = db.iter_export()
        next(export)
        for number in range(5):
            db.append_message(f"s{number}", "user", "too late")
        assert all(not record["messages"] for record in export)
        assert db.message_count() == 5


def test_a_generator_is_accepted(source: SessionDB, target: SessionDB) -> None:
    fill(source)
    target.import_sessions(record for record in source.export_all())
    assert target.export_all() == source.export_all()


# ── sessions that exist ───────────────────────────────────────────────────────────────────────


def test_a_session_that_had_grown_is_extended(source: SessionDB, target: SessionDB) -> None:
    fill(source)
    target.import_sessions(source.export_all())
    source.append_message("tip", "assistant", "more", tool_calls=[{"id": "x"}])
    source.append_message("tip", "user", "and more", external_id="ext-2")
    source.update_token_counts("tip", 5, model="m/2")
    source.end_session("tip", "cli_close")
    report = target.import_sessions(source.export_all())
    assert (report["extended_ids"], report["imported"]) == (["tip"], 0)
    assert everything(target) == everything(source)


def test_a_thread_comes_up_when_an_earlier_part_has_grown(
    source: SessionDB, target: SessionDB
) -> None:
    fill(source)
    target.import_sessions(source.export_all())
    source.append_message("head", "user", "very late")
    assert target.import_sessions(source.export_all())["extended_ids"] == ["head"]
    assert everything(target) == everything(source)


def test_what_was_taken_back_elsewhere_is_taken_back_here(
    source: SessionDB, target: SessionDB
) -> None:
    fill(source)
    target.import_sessions(source.export_all())
    question = source.list_recent_user_messages("rewound")[1]
    source.rewind_to_message("rewound", question["id"])
    assert target.import_sessions(source.export_all())["extended_ids"] == ["rewound"]
    assert everything(target) == everything(source)
    source.append_message("rewound", "user", "yet another way")
    assert target.import_sessions(source.export_all())["extended_ids"] == ["rewound"]
    assert everything(target) == everything(source)


def test_an_older_export_does_not_take_anything_back(source: SessionDB, target: SessionDB) -> None:
    fill(source)
    old = source.export_all()
    source.append_message("tip", "user", "newer")
    source.rewind_to_message("rewound", source.list_recent_user_messages("rewound")[0]["id"])
    target.import_sessions(source.export_all())
    before = everything(target)
    assert outcome(target.import_sessions(old)) == {"ok": True, "skipped": len(old)}
    assert everything(target) == before


def test_a_session_that_went_another_way_is_left_alone(
    source: SessionDB, target: SessionDB
) -> None:
    fill(source)
    target.import_sessions(source.export_all())
    source.append_message("tip", "user", "here")
    target.append_message("tip", "user", "there")
    before = everything(target)
    report = target.import_sessions(source.export_all())
    assert [conflict["id"] for conflict in report["conflicts"]] == ["tip"]
    assert "message 2 differs" in report["conflicts"][0]["reason"]
    assert everything(target) == before


def test_rewound_here_and_continued_there_is_a_conflict(
    source: SessionDB, target: SessionDB
) -> None:
    fill(source)
    target.import_sessions(source.export_all())
    target.rewind_to_message("rewound", target.list_recent_user_messages("rewound")[0]["id"])
    source.append_message("rewound", "user", "went on")
    report = target.import_sessions(source.export_all())
    assert [conflict["id"] for conflict in report["conflicts"]] == ["rewound"]


def test_a_session_in_the_trash_stays_there(source: SessionDB, target: SessionDB) -> None:
    fill(source)
    target.import_sessions(source.export_all())
    target.trash_sessions(["contents"])
    report = target.import_sessions(source.export_all())
    assert [conflict["id"] for conflict in report["conflicts"]] == ["contents"]
    assert "trash" in report["conflicts"][0]["reason"]
    assert target.get_session("contents") is None


def test_a_session_written_to_during_the_import_is_left_alone(
    source: SessionDB, target: SessionDB
) -> None:
    for name in ("a", "b"):
        source.create_session(name, "cli")
        source.append_message(name, "user", "one")
    target.import_sessions(source.export_all())
    source.append_message("a", "user", "two")
    source.append_message("b", "user", "two")
    records = source.export_all()

    class Meddler:
        passes = 0

        def __iter__(self) -> Iterator[Record]:
            self.passes += 1
            for record in records:
                yield record
                if self.passes == 2 and record["id"] == "b":
                    target.append_message("b", "user", "meanwhile")

    report = target.import_sessions(Meddler())
    assert report["extended_ids"] == ["a"]
    assert [conflict["id"] for conflict in report["conflicts"]] == ["b"]
    assert texts(target, "b") == ["one", "meanwhile"]
    assert texts(target, "a") == ["one", "two"]


# ── ids ───────────────────────────────────────────────────────────────────────────────────────


def test_taken_ids_are_replaced_and_order_over_sessions_stays(
    source: SessionDB, target: SessionDB
) -> None:
    target.create_session("own", "cli")
    own = [target.append_message("own", "user", f"own {n}") for n in range(40)]
    fill(source)
    source.append_message("tip", "user", "after the late message")
    target.import_sessions(source.export_all())
    for record in source.export_all():
        stored = target.export_session(record["id"])
        assert stored is not None
        assert [m["content"] for m in stored["messages"]] == [
            m["content"] for m in record["messages"]
        ]
        ids = [m["id"] for m in stored["messages"]]
        assert ids == sorted(ids)
        assert not set(ids) & set(own)
        for rewind in stored.get("rewinds", ()):
            by_ordinal = {m["ordinal"]: m["id"] for m in stored["messages"]}
            assert rewind["target_message_id"] == by_ordinal[rewind["target_ordinal"]]
    assert target.get_messages_as_conversation("tip", include_ancestors=True) == (
        source.get_messages_as_conversation("tip", include_ancestors=True)
    )
    again = target.import_sessions(source.export_all())
    assert again["skipped"] == len(source.export_all())


def test_an_interrupted_import_with_new_ids_is_continued_in_order(
    source: SessionDB, target: SessionDB
) -> None:
    target.create_session("own", "cli")
    for number in range(40):
        target.append_message("own", "user", f"own {number}")
    fill(source)
    source.append_messages("tip", [{"role": "user", "content": f"{n}"} for n in range(1_500)])
    records = source.export_all()
    assert records[0]["id"] == "tip"

    class Interrupted:
        passes = 0

        def __iter__(self) -> Iterator[Record]:
            self.passes += 1
            yield records[0]
            if self.passes == 2:
                raise KeyboardInterrupt
            yield from records[1:]

    with pytest.raises(KeyboardInterrupt):
        target.import_sessions(Interrupted())
    assert target.message_count("tip") == 1_501
    target.append_message("own", "user", "between the two runs")
    target.import_sessions(records)
    assert target.get_messages_as_conversation("tip", include_ancestors=True) == (
        source.get_messages_as_conversation("tip", include_ancestors=True)
    )


def test_others_append_while_ids_are_kept(target: SessionDB) -> None:
    target.create_session("other", "cli")
    records = [
        session(f"s{n}", *[said("user", f"{n}.{m}", id=100 * n + m + 1) for m in range(3)])
        for n in range(120)
    ]

    class Meddler:
        def __iter__(self) -> Iterator[Record]:
            for record in records:
                target.append_message("other", "user", "meanwhile")
                yield record

    target.import_sessions(Meddler())
    for record in records[2:]:
        stored = [m["id"] for m in target.get_messages(record["id"])]
        assert stored == sorted(stored)
    # Only what was taken before the import began could not be kept.
    kept = [
        r["id"] for r in records if target.get_messages(r["id"])[0]["id"] == r["messages"][0]["id"]
    ]
    assert len(kept) >= 118
    assert target.message_count("other") == 240


@pytest.mark.parametrize(
    "ids",
    [
        [2**63 - 1, 2**63 - 2],
        [2**63 - 2, 2**63 - 1],
        [5, 5],
        [0, 1],
        [-3, -2],
        [1, None],
    ],
)
def test_ids_that_cannot_be_kept_are_replaced(target: SessionDB, ids: list[Any]) -> None:
    messages = [said("user", str(number), id=number) for number in ids]
    target.import_sessions([session("s", *messages)])
    stored = [message["id"] for message in target.get_messages("s")]
    assert stored == sorted(stored)
    assert texts(target, "s") == [str(number) for number in ids]
    assert target.append_message("s", "user", "next") < 2**53


# ── titles ────────────────────────────────────────────────────────────────────────────────────


def test_a_taken_title_gets_the_next_number_and_is_reported(target: SessionDB) -> None:
    target.create_session("own", "cli")
    target.set_session_title("own", "Plan")
    records = [session("a", title="Plan"), session("b", title="Plan")]
    report = target.import_sessions(records)
    assert [target.get_session_title(i) for i in ("own", "a", "b")] == [
        "Plan",
        "Plan #2",
        "Plan #3",
    ]
    assert report["notes"] == [
        {"id": "a", "note": "title 'Plan' is taken; stored as 'Plan #2'"},
        {"id": "b", "note": "title 'Plan' is taken; stored as 'Plan #3'"},
    ]
    target.import_sessions([session("a", said("user", "grown"), title="Plan")])
    assert target.get_session_title("a") == "Plan #2"


def test_a_title_that_could_deceive_a_terminal_is_cleaned(target: SessionDB) -> None:
    report = target.import_sessions([session("a", title="\x1b[31mred\n"), session("b", title=" ")])
    assert target.get_session_title("a") == "[31mred"
    assert target.get_session_title("b") is None
    assert len(report["notes"]) == 2


@pytest.mark.parametrize(("length", "stored"), [(100, 100), (150, 150), (500, 100)])
def test_a_long_title_is_kept_as_far_as_possible(
    target: SessionDB, length: int, stored: int
) -> None:
    target.import_sessions([session("a", title="t" * length)])
    assert target.get_session_title("a") == "t" * stored


# ── lineage ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("order", list(itertools.permutations(("root", "middle", "leaf"))))
def test_parents_may_come_in_any_order(target: SessionDB, order: tuple[str, ...]) -> None:
    records = {
        "root": session("root", end_reason="compression", ended_at=1_100.0),
        "middle": session(
            "middle",
            parent_session_id="root",
            started_at=1_100.0,
            end_reason="branched",
            ended_at=1_200.0,
        ),
        "leaf": session("leaf", parent_session_id="middle", started_at=1_200.0),
    }
    report = target.import_sessions([records[name] for name in order])
    assert report["detached"] == 0
    assert [
        (s["id"], s["parent_session_id"], s["edge_kind"], s["conversation_id"])
        for s in target.list_conversation("leaf")
    ] == [
        ("root", None, None, "root"),
        ("middle", "root", "compression", "root"),
        ("leaf", "middle", "branch", "root"),
    ]
    assert target.get_compression_tip("root") == "middle"
    assert [s["id"] for s in target.list_sessions_rich()] == ["leaf", "middle"]


def test_a_missing_parent_is_reported_and_tied_when_it_comes(target: SessionDB) -> None:
    child = session("child", said("user", "x"), parent_session_id="parent", edge_kind="branch")
    report = target.import_sessions([child])
    assert report["detached"] == 1
    assert report["notes"] == [
        {"id": "child", "note": "parent 'parent' is not stored; kept without it"}
    ]
    found = target.get_session("child")
    assert found is not None
    assert (found["parent_session_id"], found["conversation_id"]) == (None, "child")
    report = target.import_sessions([child, session("parent")])
    assert (report["detached"], report["skipped"], report["imported"]) == (0, 1, 1)
    found = target.get_session("child")
    assert found is not None
    assert (found["parent_session_id"], found["edge_kind"]) == ("parent", "branch")
    assert found["conversation_id"] == "parent"


def test_circles_are_cut_and_reported(target: SessionDB) -> None:
    report = target.import_sessions(
        [
            session("a", parent_session_id="b"),
            session("b", parent_session_id="c"),
            session("c", parent_session_id="a"),
            session("self", parent_session_id="self"),
        ]
    )
    assert report["detached"] == 2
    assert {note["id"] for note in report["notes"]} >= {"self"}
    assert sorted(s["id"] for s in target.list_conversation("a")) == ["a", "b", "c"]
    assert target.import_sessions([session("self", parent_session_id="self")])["skipped"] == 1


def test_a_long_chain_arrives_newest_first(target: SessionDB) -> None:
    count = 300
    records = [
        session(
            f"s{n:03d}",
            said("user", f"part {n}", timestamp=1_000.0 + n),
            parent_session_id=f"s{n - 1:03d}" if n else None,
            started_at=1_000.0 + n,
            ended_at=1_001.0 + n,
            end_reason="compression",
        )
        for n in range(count)
    ]
    target.import_sessions(records[::-1])
    assert target.get_compression_tip("s000") == f"s{count - 1:03d}"
    (row,) = target.list_sessions_rich()
    assert (row["id"], row["_lineage_root_id"]) == (f"s{count - 1:03d}", "s000")
    assert len(target.get_compression_lineage("s000")) == count


# ── documented shapes ─────────────────────────────────────────────────────────────────────────


def documented_message(number: int, role: str, content: Any, **columns: Any) -> Record:
    names = (
        "tool_call_id tool_calls tool_name token_count finish_reason reasoning reasoning_content "
        "reasoning_details codex_reasoning_items codex_message_items"
    ).split()
    return {
        "id": number,
        "session_id": "old",
        "role": role,
        "content": content,
        "timestamp": 1_767_258_000.0 + number,
        **dict.fromkeys(names),
        **columns,
    }


def documented_session(**columns: Any) -> Record:
    """The 30 columns of 0.13, and what its export of everything adds."""
    texts_and_costs = (
        "user_id model_config system_prompt parent_session_id ended_at end_reason "
        "billing_provider billing_base_url billing_mode estimated_cost_usd actual_cost_usd "
        "cost_status cost_source pricing_version title handoff_state handoff_platform handoff_error"
    ).split()
    counters = (
        "message_count tool_call_count input_tokens output_tokens cache_read_tokens "
        "cache_write_tokens reasoning_tokens api_call_count"
    ).split()
    record: Record = {"id": "old", "source": "cli", "model": "m", "started_at": 1_767_258_000.0}
    record |= dict.fromkeys(texts_and_costs) | dict.fromkeys(counters, 0)
    assert len(record) == 30
    return record | {"last_active": 1_767_258_999.0} | columns


def test_an_export_of_0_13_is_understood(target: SessionDB) -> None:
    calls = [{"id": "c1", "function": {"name": "größe", "arguments": "{}"}}]
    messages = [
        documented_message(7, "user", "hello there"),
        documented_message(9, "assistant", None, tool_calls=calls, reasoning_details='[{"t": 1}]'),
        documented_message(10, "tool", [{"type": "text", "text": "x"}], tool_call_id="c1"),
    ]
    record = documented_session(
        model_config='{"a": 1}', message_count=3, tool_call_count=1, title="Old", messages=messages
    )
    report = target.import_sessions([record])
    assert outcome(report) == {"ok": True, "imported": 1}
    found = target.get_session("old")
    assert found is not None
    assert {k: found[k] for k in record.keys() & found.keys()} == {
        k: record[k] for k in record.keys() & found.keys()
    }
    stored = target.get_messages("old")
    for ours, theirs in zip(stored, messages, strict=True):
        assert {k: ours[k] for k in theirs} == theirs
    assert [message["ordinal"] for message in stored] == [1, 2, 3]
    (row,) = target.list_sessions_rich()
    assert (row["preview"], row["last_active"]) == ("hello there", 1_767_258_010.0)
    assert target.import_sessions([record])["skipped"] == 1


def test_an_export_of_0_19_is_understood(target: SessionDB) -> None:
    later = {
        "session_key": "agent:main:telegram:dm:99",
        "chat_id": None,
        "cwd": "/src/größe",
        "expiry_finalized": 0,
        "compression_fallback_streak": 2,
        "archived": 1,
        "rewind_count": 1,
    }
    flags: list[tuple[int | None, int]] = [(0, 1), (1, 0), (0, 0), (None, 0)]
    messages = [
        documented_message(
            n,
            "user",
            f"message {n}",
            active=active,
            compacted=compacted,
            observed=n % 2,
            api_content=None,
            platform_message_id=str(n),
            tool_calls=[{"id": "c"}],
        )
        for n, (active, compacted) in enumerate(flags, start=1)
    ]
    record = documented_session(**later, message_count=4, tool_call_count=4, messages=messages)
    target.import_sessions([record])
    stored = target.export_session("old")
    assert stored is not None
    # Replaced by a summary is not the same as taken back, and no flag means neither.
    assert [(m["active"], m["compacted"]) for m in stored["messages"]] == [
        (1, 1),
        (1, 0),
        (0, 0),
        (1, 0),
    ]
    assert (stored["message_count"], stored["tool_call_count"], stored["rewind_count"]) == (2, 2, 1)
    assert stored["archived_at"] == stored["last_active"]
    assert "extra" not in stored
    assert {
        name: stored[name] for name in ("session_key", "cwd", "compression_fallback_streak")
    } == {
        "session_key": "agent:main:telegram:dm:99",
        "cwd": "/src/größe",
        "compression_fallback_streak": 2,
    }
    assert [(m["platform_message_id"], m["observed"]) for m in stored["messages"]] == [
        (str(n), n % 2) for n in range(1, 5)
    ]
    with SessionDB(":memory:") as copy:
        copy.import_sessions(target.export_all())
        assert copy.export_all() == target.export_all()


@pytest.mark.parametrize(
    ("columns", "parent", "kind"),
    [
        (
            {"started_at": 1_100.0},
            {"end_reason": "compression", "ended_at": 1_100.0},
            "compression",
        ),
        ({"started_at": 1_099.0}, {"end_reason": "compression", "ended_at": 1_100.0}, None),
        (
            {"started_at": 1_099.0, "session_key": None},
            {"end_reason": "compression", "ended_at": 1_100.0},
            "compression",
        ),
        ({"started_at": 1_100.0}, {"end_reason": "branched", "ended_at": 1_100.0}, "branch"),
        ({"started_at": 1_100.0}, {"end_reason": "cli_close", "ended_at": 1_100.0}, None),
        ({"started_at": 1_100.0}, {}, None),
        ({"model_config": '{"_delegate_from": "p"}'}, {}, "subagent"),
        ({"model_config": {"_branched_from": "p"}}, {}, "branch"),
        ({"model_config": "not json"}, {}, None),
        (
            {"started_at": 1_100.0, "source": "tool"},
            {"end_reason": "compression", "ended_at": 1_100.0},
            None,
        ),
    ],
)
def test_why_a_documented_session_has_a_parent_follows_from_the_documented_rules(
    target: SessionDB, columns: Record, parent: Record, kind: str | None
) -> None:
    target.import_sessions(
        [session("child", parent_session_id="p", **columns), session("p", **parent)]
    )
    found = target.get_session("child")
    assert found is not None
    assert found["edge_kind"] == kind


def test_the_least_that_is_needed_is_an_id(target: SessionDB) -> None:
    report = target.import_sessions([{"id": "bare"}])
    assert report["ok"]
    found = target.get_session("bare")
    assert found is not None
    assert (found["source"], found["message_count"]) == ("unknown", 0)
    assert found["started_at"] > 1_800_000_000.0


# ── refusal ───────────────────────────────────────────────────────────────────────────────────


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (5, "must be an object"),
        (None, "must be an object"),
        ({}, "session id"),
        ({"id": ""}, "empty"),
        ({"id": "  "}, "blank"),
        ({"id": 7}, "text"),
        ({"id": "x" * 192}, "192"),
        (session("b", source=3), "source"),
        (session("b", source=""), "source"),
        (session("b", started_at="yesterday"), "started_at"),
        (session("b", started_at=float("nan")), "started_at"),
        (session("b", started_at=float("inf")), "started_at"),
        (session("b", started_at=10**400), "started_at"),
        (session("b", started_at=True), "started_at"),
        (session("b", title=["t"]), "title"),
        (session("b", model={"m": 1}), "model"),
        (session("b", input_tokens="many"), "input_tokens"),
        (session("b", input_tokens=2**64), "input_tokens"),
        (session("b", estimated_cost_usd=float("nan")), "estimated_cost_usd"),
        (session("b", edge_kind="cousin"), "cousin"),
        (session("b", parent_session_id=4), "parent session id"),
        (session("b", extra="text"), "extra"),
        (session("b", unknown={1, 2}), "extra"),
        (session("b", model_config=deep(100_000)), "model_config"),
        (session("b", messages="text"), "messages must be a list"),
        (session("b", messages=[1]), "Message 0"),
        (session("b", messages=[said("user", "a"), {"content": "x"}]), "Message 1: needs a role"),
        (session("b", messages=[said(5, "a")]), "role"),
        (session("b", messages=[said("user", "a", timestamp="now")]), "timestamp"),
        (session("b", messages=[said("user", "a", id="7")]), "id must be a whole number"),
        (session("b", messages=[said("user", "a", id=True)]), "id must be a whole number"),
        (session("b", messages=[said("user", "a", token_count="x")]), "token_count"),
        (session("b", messages=[said("user", "a", tool_name=[])]), "tool_name"),
        (session("b", messages=[said("user", "a", active=2)]), "active"),
        (session("b", messages=[said("user", "a", content_type="gzip")]), "gzip"),
        (session("b", messages=[said("user", deep(100_000))]), "content"),
        (session("b", messages=[said("user", "x" * 9_000_000)]), "over the limit"),
        (session("b", messages=[said("user", "a", ordinal=2)] * 2), "ordinals must be ascending"),
        (session("b", messages=[said("user", "a", external_id="e")] * 2), "appears twice"),
        (session("b", model_usage={"a": 1}), "model_usage"),
        (session("b", model_usage=[{"input_tokens": "x"}]), "input_tokens"),
        (session("b", rewinds=[{"target_ordinal": 1}]), "hidden_count"),
        (session("good"), "appears twice, first as number 1"),
    ],
)
def test_one_bad_session_refuses_all(target: SessionDB, bad: Any, problem: str) -> None:
    report = target.import_sessions([session("good", said("user", "fine")), bad])
    assert (report["ok"], report["imported"]) == (False, 0)
    (error,) = report["errors"]
    assert error["index"] == 1
    assert problem in error["error"]
    assert target.session_count() == 0


def test_every_problem_is_reported_with_its_place(target: SessionDB) -> None:
    records = [session("a"), {"id": ""}, session("b"), {"id": 4}]
    report = target.import_sessions(records)  # type: ignore[list-item]
    assert [error["index"] for error in report["errors"]] == [1, 3]


def test_ids_that_look_like_paths_or_sql_are_only_ids(tmp_path: Path) -> None:
    odd = ["../../etc/passwd", "/etc/shadow", "a\x00b", "'; DROP TABLE sessions; --", "..", "%s\n"]
    with SessionDB(tmp_path / "store" / "s.db") as db:
        db.import_sessions([session(i, said("user", i)) for i in odd])
        assert {record["id"] for record in db.export_all()} == set(odd)
        assert all(texts(db, i) == [i] for i in odd)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert all(path.name.startswith("s.db") for path in (tmp_path / "store").iterdir())


# ── size ──────────────────────────────────────────────────────────────────────────────────────


def test_a_long_session_is_written_in_short_transactions(
    target: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [said("user", f"{n}", id=n + 1) for n in range(3_500)]
    large = [said("user", "x" * 400_000, id=10_000 + n) for n in range(40)]
    write = target.provider.write
    written: list[int] = []

    def count(tx: WriteTransaction) -> int:
        row = tx.one("SELECT COUNT(*) FROM messages")
        return int(row[0]) if row else 0

    def watched(work: Callable[[WriteTransaction], Any]) -> Any:
        before = write(count)
        result = write(work)
        written.append(write(count) - before)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(target.provider, "write", watched)
        target.import_sessions([session("long", *messages), session("large", *large)])
    assert sum(written) == 3_540
    assert max(written) <= 1_000
    assert sum(1 for number in written if number) >= 7
    assert [m["id"] for m in target.get_messages("long")] == list(range(1, 3_501))
    assert target.import_sessions([session("long", *messages)])["skipped"] == 1


def test_memory_does_not_grow_with_the_number_of_sessions(tmp_path: Path) -> None:
    def peak_of_export(sessions: int) -> int:
        with SessionDB(tmp_path / f"{sessions}.db", durability="normal") as db:
            for number in range(sessions):
                db.create_session(f"s{number}", "cli")
                db.append_messages(
                    f"s{number}", [{"role": "user", "content": "text " * 40} for _ in range(100)]
                )
        # A reader indexes nothing in the background, and a first export loads what it needs: both
        # would be measured, too.
        with SessionDB(tmp_path / f"{sessions}.db", read_only=True) as db:
            db.export_session("s0")
            tracemalloc.start()
            try:
                assert sum(len(record["messages"]) for record in db.iter_export()) == 100 * sessions
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    assert peak_of_export(200) < 1.5 * peak_of_export(10)
