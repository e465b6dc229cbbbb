"""Lanes are copied with history, turns and mailbox, but without leases and processes."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.model.lane import LaneKey
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.lanes import Lanes
from hermes_sessions.storage.repositories.leases import Holder
from hermes_sessions.storage.repositories.processes import Processes
from hermes_sessions.storage.repositories.turns import Turns
from tests.servers.test_lease_migration import older_store
from tests.storage.transfer.stores import KINDS, NewStore, compared, move, opened, rows

WAYS = [("sqlite", kind) for kind in KINDS] + [("postgresql", "mysql"), ("mysql", "sqlite")]


def make_lane(db: SessionDB, chat: str, *texts: str) -> None:
    """A lane with two turns, one never finished, and a mailbox."""
    session_id = f"session of {chat}"
    db.create_session(session_id, "telegram")
    lanes = Lanes(db.store)
    key = LaneKey("main", "telegram", "dm", chat)
    lane = db.provider.write(lambda tx: lanes.ensure(tx, "bot", key, now=1.5))
    process = Processes(db.store).register("bot", "gateway")
    lease = db.take_lease(session_id, Holder(process.id, "the gateway"))
    turns = Turns(db.store)
    turns.end(turns.start(lane.id, lease, session_id), "completed")
    running = turns.start(lane.id, lease, session_id)

    def fill(tx: WriteTransaction) -> None:
        tx.run("UPDATE lanes SET session_id = ? WHERE id = ?", (session_id, lane.id))
        tx.run(
            "INSERT INTO lane_transitions (lane_id, at, action, facts) VALUES (?, ?, ?, ?)",
            (lane.id, 2.0, "create", '{"chat": "漓江 \\u0000"}'),
        )
        for number, text in enumerate(texts):
            put(tx, lane.id, chat, text, running.id if number == 0 else None)
        tx.run(
            "INSERT INTO identities (platform, alias, canonical, decided_at) VALUES (?, ?, ?, ?)",
            ("whatsapp", f"alias {chat}", chat, 3.25),
        )
        tx.run(
            "INSERT INTO senders (namespace, platform, sender_id, status, created_at) "
            "VALUES (?, ?, ?, ?, ?)",
            ("bot", "telegram", chat, "allowed", 4.5),
        )

    db.provider.write(fill)


def put(tx: WriteTransaction, lane_id: int, chat: str, text: str, turn_id: int | None) -> None:
    tx.run(
        "INSERT INTO mailbox (lane_id, dedupe, kind, text, status, turn_id, received_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            lane_id,
            f"{chat} {text}",
            "message",
            text,
            "waiting" if turn_id is None else "running",
            turn_id,
            5.0,
        ),
    )


def seen(url: str) -> dict[str, Any]:
    """What is waiting and what happened, by session, with what belongs together."""
    return {
        "waiting": rows(
            url,
            "SELECT l.session_id, m.text, m.status, t.started_at IS NOT NULL FROM mailbox m "
            "JOIN lanes l ON l.id = m.lane_id LEFT JOIN turns t ON t.id = m.turn_id "
            "AND t.lane_id = m.lane_id AND t.ended_at IS NULL ORDER BY l.session_id, m.id",
        ),
        "turns": rows(
            url,
            "SELECT l.session_id, t.outcome FROM turns t JOIN lanes l ON l.id = t.lane_id "
            "ORDER BY l.session_id, t.id",
        ),
        "history": rows(
            url,
            "SELECT l.session_id, t.action, t.facts FROM lane_transitions t "
            "JOIN lanes l ON l.id = t.lane_id ORDER BY l.session_id, t.id",
        ),
        "people": rows(url, "SELECT alias, canonical, decided_at FROM identities ORDER BY alias"),
        "senders": rows(url, "SELECT sender_id, status FROM senders ORDER BY sender_id"),
    }


@pytest.mark.parametrize(("first", "second"), WAYS)
def test_everything_of_a_lane(new_store: NewStore, first: str, second: str) -> None:
    source, target = new_store(first), new_store(second)
    with opened(source) as db:
        make_lane(db, "7", "one", "two")
        make_lane(db, "8")
    report = move(source, target)
    assert report.differences == []
    assert compared(source, target).differences == []
    found = seen(target)
    assert [(row[1], row[2], bool(row[3])) for row in found["waiting"]] == [
        ("one", "running", True),
        ("two", "waiting", False),
    ]
    assert [outcome for _, outcome in found["turns"]] == ["completed", None] * 2
    assert found["history"] == seen(source)["history"] != []
    assert found["people"] == seen(source)["people"] != []
    assert [sender for sender, _ in found["senders"]] == ["7", "8"]
    for table in ("leases", "processes"):
        assert rows(target, f"SELECT * FROM {table}") == []
    with opened(target) as db:
        # No lease is held here.
        db.append_message("session of 7", "user", "goes on here")
        make_lane(db, "9", "three")
    assert len(seen(target)["waiting"]) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_catching_up(new_store: NewStore, kind: str) -> None:
    source, target = new_store("sqlite"), new_store(kind)
    with opened(source) as db:
        for chat in "123":
            make_lane(db, chat, "one")
    move(source, target)
    with opened(source) as db:
        [[lane_id]] = rows(source, "SELECT id FROM lanes WHERE chat_id = ?", "1")
        db.provider.write(lambda tx: put(tx, lane_id, "1", "later", None))
        db.provider.write(lambda tx: tx.run("DELETE FROM lanes WHERE chat_id = ?", ("2",)))
        db.provider.write(lambda tx: tx.run("DELETE FROM identities WHERE canonical = ?", ("2",)))
    assert move(source, target).differences == []
    found = seen(target)
    assert [row[1] for row in found["waiting"]] == ["one", "later", "one"]
    assert [row[1] for row in found["people"]] == ["1", "3"]
    assert rows(target, "SELECT COUNT(*) FROM turns") == [(4,)]
    assert compared(source, target).differences == []


def test_what_was_changed_in_the_target_stays(new_store: NewStore) -> None:
    source, target = new_store("sqlite"), new_store("sqlite")
    with opened(source) as db:
        make_lane(db, "1", "one")
        make_lane(db, "2", "one")
    move(source, target)
    with opened(target) as db:
        db.provider.write(lambda tx: tx.run("UPDATE lanes SET status = ?", ("suspended",)))
    with opened(source) as db:
        db.provider.write(
            lambda tx: tx.run("UPDATE lanes SET display_name = ? WHERE chat_id = ?", ("Ann", "1"))
        )
    first, second = move(source, target).differences
    assert first.id.startswith("lanes bot ")
    assert first.what == second.what == "was changed in the target after it was copied"
    assert rows(target, "SELECT DISTINCT status FROM lanes") == [("suspended",)]
    assert [difference.what for difference in compared(source, target).differences] == [
        "differs",
        "differs",
    ]


@pytest.mark.parametrize(("merge", "expected"), [("skip", ["theirs"]), ("overwrite", ["ours"])])
def test_merging(new_store: NewStore, merge: Any, expected: list[str]) -> None:
    source, target = new_store("sqlite"), new_store("sqlite")
    with opened(target) as db:
        make_lane(db, "0", "other")
        make_lane(db, "1", "theirs")
    with opened(source) as db:
        make_lane(db, "1", "ours")
        make_lane(db, "2", "new")
    move(source, target, merge=merge)
    found = {row[0]: row[1] for row in seen(target)["waiting"]}
    assert [found["session of 1"]] == expected
    assert (found["session of 0"], found["session of 2"]) == ("other", "new")


def test_only_in_one(new_store: NewStore) -> None:
    first, second = new_store("sqlite"), new_store("sqlite")
    for url, chat in ((first, "1"), (second, "2")):
        with opened(url) as db:
            make_lane(db, chat)
    found = [d.what for d in compared(first, second).differences if d.id.startswith("lanes")]
    assert found == ["only in the first", "only in the second"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_from_before_there_were_lanes(new_store: NewStore, kind: str) -> None:
    source, target = older_store(new_store, kind), new_store("sqlite")
    report = move(source, target)
    assert (report.sessions, report.messages, report.differences) == (2, 2, [])
    assert compared(source, target).differences == []
