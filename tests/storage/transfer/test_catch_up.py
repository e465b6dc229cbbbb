"""A second run copies every change of the source since the first."""

from __future__ import annotations

import random

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.storage.session_copy.parents import place_all_conversations
from tests.storage.export_samples import ticking
from tests.storage.transfer.stores import KINDS, NewStore, compared, exported_content, move, opened

_EDGES = ("compression", "branch", "subagent", "handoff")
_TITLES = [f"title {number}" for number in range(6)]


class Life:
    """Random use of a store."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._made = 0
        self._clock = ticking()

    def advance(self, url: str, steps: int) -> None:
        verbs = [
            *[self._create] * 4,
            *[self._append] * 5,
            *[self._rename] * 3,
            self._delete,
            self._trash,
            self._rewind,
            self._archive,
            self._end,
            self._replace,
            self._count,
            self._note,
        ]
        with opened(url, clock=self._clock) as db:
            for _ in range(steps):
                self._random.choice(verbs)(db)

    def _any(self, db: SessionDB) -> str | None:
        ids = [row["id"] for row in db.search_sessions(limit=1000)]
        return self._random.choice(ids) if ids else None

    def _create(self, db: SessionDB) -> None:
        self._made += 1
        parent = self._any(db) if self._random.random() < 0.6 else None
        # Ids that sort before, between and after those of their parents.
        name = f"{self._random.randrange(1000):03} {self._made}"
        edge = self._random.choice(_EDGES) if parent else None
        try:
            db.create_session(name, "cli", parent_session_id=parent, edge_kind=edge)
        except HermesSessionsError:
            return  # One of that name came from the other store, and is in the trash.
        self._append(db)

    def _append(self, db: SessionDB) -> None:
        if session_id := self._any(db):
            for _ in range(self._random.randrange(4)):
                db.append_message(session_id, "user", f"words {self._random.random()}")

    def _rename(self, db: SessionDB) -> None:
        if session_id := self._any(db):
            title = self._random.choice(_TITLES)
            holder = db.get_session_by_title(title)
            if holder is not None:
                db.set_session_title(holder["id"], None)
            db.set_session_title(session_id, title)

    def _delete(self, db: SessionDB) -> None:
        if session_id := self._any(db):
            db.delete_session(session_id)

    def _trash(self, db: SessionDB) -> None:
        if session_id := self._any(db):
            db.trash_sessions([session_id])
        if self._random.random() < 0.5:
            db.restore_sessions([row["id"] for row in db.list_trash()])

    def _rewind(self, db: SessionDB) -> None:
        if session_id := self._any(db):
            asked = db.list_recent_user_messages(session_id)
            if asked:
                db.rewind_to_message(session_id, self._random.choice(asked)["id"])
            elif db.list_rewinds(session_id):
                try:
                    db.restore_rewound(session_id)
                except HermesSessionsError:
                    return  # It has changed since.

    def _archive(self, db: SessionDB) -> None:
        if session_id := self._any(db):
            db.set_session_archived(session_id, self._random.random() < 0.7)

    def _end(self, db: SessionDB) -> None:
        if session_id := self._any(db):
            db.end_session(session_id, "compression")

    def _replace(self, db: SessionDB) -> None:
        if session_id := self._any(db):
            db.replace_messages(session_id, [{"role": "user", "content": "summary"}])

    def _count(self, db: SessionDB) -> None:
        if session_id := self._any(db):
            db.update_token_counts(session_id, 1, 2, "model", estimated_cost_usd=0.01)

    def _note(self, db: SessionDB) -> None:
        db.set_meta(f"key {self._random.randrange(5)}", self._random.random())


#: What depends on the database is seen soon.
RUNS = [("sqlite", seed) for seed in range(4)]
RUNS += [(kind, 0) for kind in KINDS if kind != "sqlite"]


@pytest.mark.parametrize(("kind", "seed"), RUNS)
def test_a_source_in_use(new_store: NewStore, kind: str, seed: int, long_run: bool) -> None:
    source, target, life = new_store("sqlite"), new_store(kind), Life(seed)
    for round_ in range(12 if long_run else 6):
        life.advance(source, 25)
        # Sometimes only what was active a moment ago is taken along.
        since = 1_700_000_000.0 + round_ * 40 if round_ % 3 == 2 else None
        report = move(source, target, since=since)
        assert report.differences == []
        if since is None:
            assert compared(source, target).differences == []
    move(source, target)
    assert exported_content(source) == exported_content(target)


def placement(db: SessionDB) -> list[tuple[object, ...]]:
    with db.provider.read() as tx:
        return tx.all(
            "SELECT id, conversation_id, chain_id, tip_id, listed, last_active FROM sessions "
            "ORDER BY id"
        )


@pytest.mark.parametrize("merge", ["skip", "overwrite"])
@pytest.mark.parametrize(("kind", "seed"), RUNS)
def test_stores_that_come_together(new_store: NewStore, kind: str, seed: int, merge: str) -> None:
    source, target, here = new_store("sqlite"), new_store(kind), Life(seed)
    here.advance(source, 50)
    if seed % 2:
        move(source, target)
    here.advance(source, 30)
    # With the same seed, both have some ids in common.
    Life(seed if seed < 2 else seed + 100).advance(target, 50)
    assert move(source, target, merge=merge).differences == []
    with opened(target) as db:
        with db.provider.read() as tx:
            assert not tx.all(
                "SELECT c.id FROM sessions c JOIN sessions p ON p.id = c.parent_session_id "
                "WHERE c.conversation_id <> p.conversation_id"
            )
        before = placement(db)
        place_all_conversations(db.provider)
        assert placement(db) == before
        assert db.search("words", relax=False).report.complete
    again = move(source, target, merge=merge)
    assert (again.copied, again.removed, again.differences) == (0, 0, [])
