"""Copying into a store that has its own sessions."""

from __future__ import annotations

import pytest

from hermes_sessions.errors import TransferRefused
from tests.storage.export_samples import fill, ticking
from tests.storage.transfer.stores import KINDS, NewStore, compared, move, opened, rows


def two_stores(new_store: NewStore, kind: str) -> tuple[str, str]:
    """Both have a session "both", other sessions, the same ids of messages and the same titles."""
    source, target = new_store("sqlite"), new_store(kind)
    with opened(source, clock=ticking()) as db:
        fill(db)
        db.create_session("both", "cli")
        db.append_message("both", "user", "as the source has it")
        db.create_session("here", "cli", parent_session_id="both", edge_kind="compression")
        db.append_message("here", "user", "a continuation")
        db.set_session_title("both", "mine")
        db.set_meta("known", "source")
        db.set_meta("new", "source")
    with opened(target, clock=ticking()) as db:
        db.create_session("both", "cli")
        db.append_message("both", "user", "as the target has it")
        db.create_session("another", "cli")
        db.append_messages("another", [{"role": "user", "content": f"{n}"} for n in range(20)])
        db.set_session_title("another", "Projekt 漓江")
        asked = db.append_message("another", "user", "take this back")
        db.rewind_to_message("another", asked)
        db.set_meta("known", "target")
    return source, target


@pytest.mark.parametrize("kind", KINDS)
def test_other_sessions_refuse_a_copy(new_store: NewStore, kind: str) -> None:
    source, target = two_stores(new_store, kind)
    with pytest.raises(TransferRefused, match=r"holds 2 sessions .* --merge skip .* overwrite"):
        move(source, target)
    assert rows(target, "SELECT COUNT(*) FROM sessions") == [(2,)]


@pytest.mark.parametrize("kind", KINDS)
def test_skip_leaves_what_is_there(new_store: NewStore, kind: str) -> None:
    source, target = two_stores(new_store, kind)
    report = move(source, target, merge="skip")
    assert (report.skipped, report.overwritten, report.differences) == (["both"], [], [])
    assert report.untitled == ["head"]
    with opened(target) as db:
        assert [m["content"] for m in db.get_messages("both")] == ["as the target has it"]
        assert (db.get_meta("known"), db.get_meta("new")) == ("target", "source")
        assert db.get_session_title("another") == "Projekt 漓江"
        # What was stored there is continued by what came.
        assert db.get_compression_tip("both") == "here"
        assert "both" not in {row["id"] for row in db.list_sessions_rich(limit=-1)}
    again = move(source, target, merge="skip")
    assert (again.copied, again.skipped, again.differences) == (0, ["both"], [])


@pytest.mark.parametrize("kind", KINDS)
def test_overwrite_replaces_what_is_in_both(new_store: NewStore, kind: str) -> None:
    source, target = two_stores(new_store, kind)
    report = move(source, target, merge="overwrite")
    assert (report.skipped, report.overwritten, report.differences) == ([], ["both"], [])
    with opened(target) as db, opened(source) as original:
        assert [m["content"] for m in db.get_messages("both")] == ["as the source has it"]
        assert (db.get_meta("known"), db.get_meta("new")) == ("source", "source")
        assert len(db.get_messages("another")) == 20
        for session_id in ("rewound", "contents", "both"):
            assert [m["content"] for m in db.get_messages(session_id, include_inactive=True)] == [
                m["content"] for m in original.get_messages(session_id, include_inactive=True)
            ]
        rewinds = db.list_rewinds("rewound")
        assert len(rewinds) == len(original.list_rewinds("rewound"))
        for rewind in rewinds:
            [[ordinal]] = rows(
                target, "SELECT ordinal FROM messages WHERE id = ?", rewind["target_message_id"]
            )
            assert rows(
                target, "SELECT target_ordinal FROM rewinds WHERE id = ?", rewind["id"]
            ) == [(ordinal,)]
        back = db.get_messages("rewound")[-1]["id"]
        db.rewind_to_message("rewound", back)
        assert db.restore_rewound("rewound", rewind_id=rewinds[-1]["id"]) == 2


def test_ids_that_are_free_are_kept(new_store: NewStore) -> None:
    source, target = new_store("sqlite"), new_store("sqlite")
    with opened(source) as db:
        for name in ("first", "second"):
            db.create_session(name, "cli")
            db.append_message(name, "user", name)
    with opened(target) as db:
        db.create_session("other", "cli")
        db.append_message("other", "user", "other")
    move(source, target, merge="skip")
    ids = dict(rows(target, "SELECT session_id, id FROM messages"))
    assert ids == {"other": 1, "first": 3, "second": 2}
    only_ids = {each.id: each.what for each in compared(source, target).differences}
    assert only_ids == {
        "first": "title, lineage or ids of messages differ",
        "other": "only in the second",
    }


def test_what_changed_in_the_source_comes_with_the_next_merge(new_store: NewStore) -> None:
    source, target = two_stores(new_store, "sqlite")
    move(source, target, merge="skip")
    with opened(source) as db:
        db.append_message("tip", "user", "more")
        db.delete_session("empty")
    with opened(target) as db:
        db.append_message("contents", "user", "changed in the target")
    report = move(source, target, merge="skip")
    assert (report.copied, report.removed, report.differences) == (1, 1, [])
    assert report.skipped == ["both", "contents"]
    assert move(source, target, merge="overwrite").overwritten == ["both", "contents"]


def test_what_was_renamed_in_the_target_is_not_removed(new_store: NewStore) -> None:
    source, target = two_stores(new_store, "sqlite")
    move(source, target, merge="skip")
    with opened(target) as db:
        db.set_session_title("contents", "of value")
    with opened(source) as db:
        db.delete_sessions(["contents", "empty"])
    report = move(source, target, merge="skip")
    assert (report.removed, report.differences) == (1, [])
    assert report.skipped == ["both", "contents"]
    with opened(target) as db:
        assert db.get_session_title("contents") == "of value"
