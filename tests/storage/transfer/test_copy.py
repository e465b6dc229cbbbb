"""A copy equals its source on every database."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from hermes_sessions.errors import TransferRefused
from hermes_sessions.storage.provider_registry import open_url
from hermes_sessions.storage.transfer.comparison import plan
from hermes_sessions.storage.transfer.run import Transfer
from tests.storage.export_samples import everything, fill, ticking
from tests.storage.transfer.stores import (
    KINDS,
    NewStore,
    compared,
    copy_of,
    exported,
    exported_content,
    move,
    opened,
    rows,
)


def filled(url: str) -> str:
    return copy_of(fill_all, url)


def fill_all(url: str) -> None:
    with opened(url, clock=ticking()) as db:
        fill(db)
        db.set_meta("theme", "dunkel 漓江 \x00")
        db.provider.write(
            lambda tx: tx.run(
                'INSERT INTO foreign_rows (origin, table_name, row_key, "row") VALUES (?, ?, ?, ?)',
                ("elsewhere", "kanban", "1", "{}"),
            )
        )


# The way back is the other pair's way there.
@pytest.mark.parametrize(
    ("first", "second"), list(itertools.combinations_with_replacement(KINDS, 2))
)
def test_there_and_back_again(new_store: NewStore, first: str, second: str) -> None:
    source, middle, end = filled(new_store(first)), new_store(second), new_store(first)
    there = move(source, middle)
    back = move(middle, end)
    assert exported(source) == exported(middle) == exported(end)
    for report in (there, back):
        assert report.differences == []
        assert (report.sessions, report.messages) == (report.copied, report.copied_messages)
        assert report.indexed == report.messages > 0
    for other in (middle, end):
        assert compared(source, other).differences == []
        with opened(source, read_only=True) as left, opened(other, read_only=True) as right:
            assert everything(left) == everything(right)
            assert left.list_trash() == right.list_trash()
            assert right.get_meta("theme") == "dunkel 漓江 \x00"
            assert right.search("漓江", relax=False).hits
            assert right.search_index_status()["complete"]
    assert rows(end, "SELECT row_key FROM foreign_rows WHERE table_name = ?", "kanban") == [("1",)]


@pytest.mark.parametrize("kind", KINDS)
def test_life_goes_on_in_the_target(new_store: NewStore, kind: str) -> None:
    source, target = filled(new_store("sqlite")), new_store(kind)
    move(source, target)
    [[last]] = rows(target, "SELECT MAX(id) FROM messages")
    with opened(target) as db:
        assert db.append_message("tip", "user", "goes on here") > last
        db.rewind_to_message("rewound", db.get_messages("rewound")[-1]["id"])
        assert db.restore_rewound("rewound", rewind_id=2) == 2
        assert db.append_message("tip", "user", "again", external_id="ext-1") <= last


@pytest.mark.parametrize("kind", KINDS)
def test_again_changes_nothing(new_store: NewStore, kind: str) -> None:
    source, target = filled(new_store("sqlite")), new_store(kind)
    first = move(source, target)
    again = move(source, target)
    assert (again.copied, again.removed, again.differences) == (0, 0, [])
    assert (again.sessions, again.messages) == (first.sessions, first.messages)


def test_the_source_is_not_written(new_store: NewStore, tmp_path: Path) -> None:
    source = filled(new_store("sqlite"))
    path = Path(source.removeprefix("sqlite:///"))
    before = path.read_bytes()
    move(source, new_store("sqlite"))
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", KINDS)
def test_what_changed_in_the_source_is_copied_again(new_store: NewStore, kind: str) -> None:
    source, target = filled(new_store("sqlite")), new_store(kind)
    move(source, target)
    with opened(source) as db:
        db.append_message("tip", "user", "later")
        # Titles change hands, and one goes to a session that is new.
        db.set_session_title("head", None)
        db.set_session_title("tip", "Projekt 漓江")
        db.set_session_title("branch", "helped")
        db.create_session("a new one", "cli", parent_session_id="tip", edge_kind="branch")
        db.set_session_title("a new one", "Projekt 漓江 #2")
        db.append_message("a new one", "user", "first words")
        db.create_session("zz parent", "cli")
        db.create_session("0 child", "cli", parent_session_id="zz parent", edge_kind="subagent")
        db.delete_session("contents")
        db.delete_session("parent")
        db.set_meta("theme", "hell")
    report = move(source, target)
    assert report.differences == []
    assert report.removed >= 2
    assert exported(source) == exported(target)
    assert compared(source, target).differences == []
    assert move(source, target).copied == 0


def test_since_looks_only_at_what_was_active(new_store: NewStore) -> None:
    source, target = filled(new_store("sqlite")), new_store("sqlite")
    move(source, target)
    with opened(source, clock=lambda: 1_800_000_000.0) as db:
        db.append_message("tip", "user", "later")
        db.append_message("head", "user", "earlier", timestamp=1_500_000_000.0)
        db.set_session_title("rewound", "renamed")
    report = move(source, target, since=1_800_000_000.0)
    assert (report.sessions, report.copied, report.differences) == (1, 1, [])
    assert {each.id for each in compared(source, target).differences} == {"head", "rewound"}
    report = move(source, target)
    assert (report.copied, report.differences) == (2, [])
    assert exported(source) == exported(target)


def test_since_brings_the_parents_along(new_store: NewStore) -> None:
    source, target = new_store("sqlite"), new_store("sqlite")
    with opened(source, clock=lambda: 1000.0) as db:
        db.create_session("s1", "cli")
        db.create_session("s0", "cli", parent_session_id="s1", edge_kind="branch")
    with opened(source, clock=lambda: 2000.0) as db:
        db.append_message("s0", "user", "now")
    report = move(source, target, since=1500.0)
    assert report.differences == []
    assert rows(target, "SELECT id, parent_session_id FROM sessions ORDER BY id") == [
        ("s0", "s1"),
        ("s1", None),
    ]


class Interfering:
    """Writes to the source when a copy has come so far."""

    def __init__(self, url: str, phase: str) -> None:
        self._url = url
        self._phase = phase
        self._done = False

    def __call__(self, phase: str, done: int, total: int) -> None:
        if phase == self._phase and not self._done:
            self._done = True
            with opened(self._url) as db:
                db.append_message("tip", "user", f"while {phase}")
                db.append_message("contents", "user", "here, too")
                db.create_session("0 new", "cli", parent_session_id="tip", edge_kind="branch")
                db.delete_session("empty")


@pytest.mark.parametrize("phase", ["Copying", "Comparing"])
def test_a_source_that_is_written_meanwhile(new_store: NewStore, phase: str) -> None:
    source, target = filled(new_store("sqlite")), new_store("sqlite")
    report = move(source, target, on_progress=Interfering(source, phase))
    assert report.differences == []
    assert move(source, target).differences == []
    assert exported(source) == exported(target)
    assert compared(source, target).differences == []


def test_a_session_that_never_rests_is_reported(new_store: NewStore) -> None:
    source, target = filled(new_store("sqlite")), new_store("sqlite")
    written = open_url(source)

    class Restless:
        """The source, with another program that writes before every read."""

        def __getattr__(self, name: str) -> object:
            if name == "read":
                written.write(
                    lambda tx: tx.run(
                        "UPDATE sessions SET api_call_count = api_call_count + 1 WHERE id = ?",
                        ("tip",),
                    )
                )
            return getattr(written, name)

    with opened(target) as db:
        report = Transfer(Restless(), db.provider).run()  # type: ignore[arg-type]
    written.close()
    assert report.differences == [("tip", "changed while it was copied")]
    assert move(source, target).differences == []


# ── what the target's users did is kept ───────────────────────────────────────────────────────


def test_what_was_changed_in_the_target_is_not_overwritten(new_store: NewStore) -> None:
    source, target = filled(new_store("sqlite")), new_store("sqlite")
    move(source, target)
    with opened(target) as db:
        db.append_message("tip", "user", "written in the target")
        db.delete_session("empty")
        db.set_meta("theme", "bunt")
    with opened(source) as db:
        db.append_message("tip", "user", "written in the source")
        db.append_message("contents", "user", "new")
        db.set_meta("theme", "hell")
    report = move(source, target)
    assert dict(report.differences) == {
        "tip": "was changed in the target after it was copied",
        "empty": "was deleted from the target after it was copied",
        "state_meta theme": "was changed in the target after it was copied",
    }
    with opened(target) as db:
        assert db.get_messages("tip")[-1]["content"] == "written in the target"
        assert db.get_messages("contents")[-1]["content"] == "new"
        assert db.get_meta("theme") == "bunt"


def test_a_title_that_another_session_has_in_the_target(new_store: NewStore) -> None:
    source, target = filled(new_store("sqlite")), new_store("sqlite")
    move(source, target)
    with opened(target) as db:
        db.set_session_title("branch", "wanted")
    with opened(source) as db:
        db.set_session_title("parent", "wanted")
    for _ in range(2):
        assert dict(move(source, target).differences) == {
            "branch": "was changed in the target after it was copied",
            "parent": "has a title that another session of the target uses",
        }
    with opened(target) as db:
        assert db.get_session_title("branch") == "wanted"
        db.set_session_title("branch", None)
    assert move(source, target).differences == []
    # The title of "branch" is as it was, but it was changed, and its revision says so.
    assert exported_content(source) == exported_content(target)


def test_a_session_that_others_continue_in_the_target_is_not_removed(new_store: NewStore) -> None:
    source, target = filled(new_store("sqlite")), new_store("sqlite")
    move(source, target)
    with opened(target) as db:
        db.append_message("branch", "user", "goes on here")
    with opened(source) as db:
        db.delete_session("parent")
    report = move(source, target)
    assert dict(report.differences) == {
        "branch": "was changed in the target after it was copied",
        "parent": "was deleted from the source, but is still used in the target",
    }
    with opened(target) as db:
        assert db.get_messages("branch")[-1]["content"] == "goes on here"
        assert db.get_session("branch")["parent_session_id"] == "parent"  # type: ignore[index]
    # It stays like that.
    assert move(source, target).differences == report.differences


def test_a_session_made_in_the_target_refuses_another_run(new_store: NewStore) -> None:
    source, target = filled(new_store("sqlite")), new_store("sqlite")
    move(source, target)
    with opened(target) as db:
        db.create_session("made there", "cli")
    with pytest.raises(TransferRefused, match="holds 1 session that did not come from"):
        move(source, target)


def test_a_store_is_not_copied_to_itself(new_store: NewStore, tmp_path: Path) -> None:
    source = filled(new_store("sqlite"))
    link = tmp_path / "link.db"
    link.symlink_to(source.removeprefix("sqlite:///"))
    for other in (source, f"sqlite:///{link}"):
        with pytest.raises(TransferRefused, match="same store"):
            move(source, other)


# ── odd values ────────────────────────────────────────────────────────────────────────────────


def test_values_that_other_programs_left(new_store: NewStore) -> None:
    source, target = filled(new_store("sqlite")), new_store("postgresql")
    with opened(source) as db:
        db.provider.write(
            lambda tx: tx.run(
                "UPDATE messages SET content = ?, token_count = ? WHERE session_id = ?",
                ("größe".encode(), 3.0, "tip"),
            )
        )
    assert move(source, target).differences == []
    assert rows(
        target, "SELECT content, token_count FROM messages WHERE session_id = ?", "tip"
    ) == [("größe", 3)]


def test_a_value_that_fits_nowhere_is_named(new_store: NewStore) -> None:
    source = filled(new_store("sqlite"))
    with opened(source) as db:
        db.provider.write(
            lambda tx: tx.run(
                "UPDATE messages SET content = ? WHERE session_id = ?", (b"\xff", "tip")
            )
        )
    with pytest.raises(TransferRefused, match=r"Session tip: messages\.content holds b'\\xff'"):
        move(source, new_store("sqlite"))


# ── plans ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_writes_nothing(new_store: NewStore, kind: str) -> None:
    source, target = filled(new_store("sqlite")), new_store(kind)
    with opened(source, read_only=True) as db:
        alone = plan(db.provider, None)
        [[sessions, messages]] = rows(
            source,
            "SELECT (SELECT COUNT(*) FROM sessions), COUNT(*) FROM messages",
        )
        assert (alone.copied, alone.copied_messages) == (sessions, messages)
        with opened(target):
            pass
        with opened(target, read_only=True) as empty:
            assert plan(db.provider, empty.provider).copied == sessions
    assert rows(target, "SELECT COUNT(*) FROM sessions") == [(0,)]
    move(source, target)
    with opened(source) as db:
        db.append_message("tip", "user", "more")
    with opened(source, read_only=True) as db, opened(target, read_only=True) as other:
        assert plan(db.provider, other.provider).copied == 1


def test_long_sessions_take_several_transactions(new_store: NewStore) -> None:
    source, target = new_store("sqlite"), new_store("sqlite")
    with opened(source) as db:
        for name in ("a", "b", "c"):
            db.create_session(name, "cli")
            db.append_messages(name, [{"role": "user", "content": f"{n}"} for n in range(2500)])
        db.create_session("wide", "cli")
        for number in range(5):
            db.append_message("wide", "user", f"{number}" * 1_500_000)
    report = move(source, target)
    assert (report.sessions, report.messages, report.differences) == (4, 7505, [])
    assert exported(source) == exported(target)


def test_two_runs_at_once(new_store: NewStore) -> None:
    source, target = filled(new_store("sqlite")), new_store("sqlite")

    def another(phase: str, _done: int, _total: int) -> None:
        if phase == "Copying" and not rows(target, "SELECT 1 FROM foreign_rows LIMIT 1"):
            move(source, target)

    report = move(source, target, on_progress=another)
    assert report.differences == []
    assert exported(source) == exported(target)


def test_a_writer_who_takes_the_same_ids(new_store: NewStore) -> None:
    source, target = filled(new_store("sqlite")), new_store("sqlite")
    crowded = opened(target)

    class Crowded:
        """The target, with another program that writes before the first copy does."""

        def __getattr__(self, name: str) -> object:
            if name == "write" and crowded.get_session("quick") is None:
                crowded.create_session("quick", "cli")
                crowded.append_message("quick", "user", "takes the first id")
            return getattr(crowded.provider, name)

    with crowded, opened(source, read_only=True) as db:
        with pytest.raises(TransferRefused, match="Another transfer may be writing"):
            Transfer(db.provider, Crowded()).run()  # type: ignore[arg-type]
        assert crowded.session_count() == 1


def test_a_proven_session_is_noted_as_such(new_store: NewStore) -> None:
    source, target = filled(new_store("sqlite")), new_store("sqlite")
    move(source, target)
    with opened(target) as db:
        db.provider.write(
            lambda tx: tx.run(
                'UPDATE foreign_rows SET "row" = ? WHERE table_name = ?',
                ("begun", "transferred_sessions"),
            )
        )
    assert move(source, target, since=0.0).copied == 0
    with opened(target) as db:
        db.append_message("tip", "user", "mine")
    assert [each.id for each in move(source, target).differences] == ["tip"]
