"""Erasing a user while a gateway runs, also from its spool files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.inbound_spool import Spool, spool_directory
from hermes_sessions.gateway.spool_erasure import ErasureFilter, spools_of
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.care.erasure.coordinator import Erasure
from hermes_sessions.storage.care.erasure.receipts import ErasureReceipts
from hermes_sessions.storage.care.erasure.targets import ErasureSubject
from hermes_sessions_testing.fake_servers.telegram.server import ANNA, BERT
from hermes_sessions_testing.scripted_model import Answer, RecordedRequest
from tests.care.erasure.disk_scan import found_in
from tests.care.erasure.scenario import everything
from tests.gateway.harness import PATIENCE, TelegramHarness, echo

TEAM = {"id": -100300, "type": "supergroup", "title": "Team"}
SECRET = "xylographer"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[TelegramHarness]:
    with TelegramHarness(tmp_path) as harness:
        telegram = harness.config["platforms"]["telegram"]
        telegram["allowed_users"] = [ANNA["id"], BERT["id"]]
        telegram["require_mention"] = False
        harness.config["group_sessions_per_user"] = False
        yield harness


def forget(harness: TelegramHarness, user: dict[str, object]) -> None:
    with SessionDB(harness.home / "state.db") as db:
        receipt = Erasure(db.store).forget(ErasureSubject("user", str(user["id"]), "telegram"))
        assert all(step.place == "store files" for step in receipt.pending), receipt


def test_a_room_continues_without_the_messages_of_an_erased_user(harness: TelegramHarness) -> None:
    harness.start()
    for number, (user, text) in enumerate(
        [(ANNA, f"I am a {SECRET}"), (BERT, "And I am Bert"), (ANNA, f"{SECRET}, as I said")], 1
    ):
        harness.telegram.write(text, user=dict(user), chat=TEAM)
        harness.wait_for_replies(number, TEAM["id"])
    harness.telegram.write(f"In private: {SECRET}", user=dict(ANNA))
    harness.wait_for_replies(1)
    forget(harness, dict(ANNA))
    asked = len(harness.model.requests)
    harness.telegram.write("What did I say?", user=dict(BERT), chat=TEAM)
    harness.wait_for_replies(4, TEAM["id"])
    seen = str([request.body for request in harness.model.requests[asked:]])
    assert (SECRET in seen, "And I am Bert" in seen) == (False, True)
    with SessionDB(harness.home / "state.db") as db:
        left = everything(db)
        assert SECRET not in left
        assert f"'{ANNA['id']}'" not in left
        assert f'"{ANNA["id"]}"' not in left


def test_an_answer_that_comes_too_late(harness: TelegramHarness) -> None:
    """The lane is closed while the model thinks: nothing is stored, and nothing is sent."""
    thinking, go_on = threading.Event(), threading.Event()

    def slowly(request: RecordedRequest) -> Answer | None:
        if SECRET in str(request.body) and "title" not in str(request.body["messages"][-1]).lower():
            thinking.set()
            go_on.wait(PATIENCE)
        return echo(request)

    harness.model.respond = slowly
    harness.start()
    harness.telegram.write(f"A {SECRET}?", user=dict(ANNA))
    assert thinking.wait(PATIENCE)
    try:
        forget(harness, dict(ANNA))
    finally:
        go_on.set()
    harness.telegram.write("Hello again", user=dict(ANNA))
    assert harness.wait_for_replies(1) == ["You said: Hello again"]
    with SessionDB(harness.home / "state.db") as db:
        assert SECRET not in everything(db)


# ── the spool ─────────────────────────────────────────────────────────────────────────────────


def spooled(user_id: str, text: str, sent_at: float | None = 5.0) -> Inbound:
    source = SessionSource(Platform.TELEGRAM, f"chat-{user_id}", user_id=user_id)
    return Inbound(source, text, f"m-{text}", sent_at)


def test_files_of_the_dead(tmp_path: Path) -> None:
    """What the others sent waits as before, and in order."""
    directory = spool_directory(tmp_path)
    left = Spool(directory)
    for inbound in (
        spooled("bob", "one"),
        spooled("ann", SECRET),
        spooled("bob", "two"),
    ):
        left.append(inbound)
    left.close()
    (directory / "1-old.unreadable").write_text(f'{{"user_id": "ann", "{SECRET}\n{{"bob"\n')
    journals = [tmp_path / "gateway" / f"{name}-received.jsonl" for name in ("signal", "pigeon")]
    for journal in journals:
        journal.write_text('{"source": {"platform": "telegram", "user_id": "ann"}}\n')
    with SessionDB(tmp_path / "state.db") as db:
        erasure = Erasure(db.store, [spools_of(tmp_path, db.store)])
        assert erasure.plan(ErasureSubject("user", "ann")).places["spools"] == {"messages": 4}
        receipt = erasure.forget(ErasureSubject("user", "ann"))
        step = receipt.step("spools")
        assert step is not None
        assert (step.status, step.removed) == ("done", {"messages": 4})
        assert erasure.plan(ErasureSubject("user", "ann")).is_empty
    assert found_in(tmp_path, [SECRET]) == []
    assert not any(journal.exists() for journal in journals)
    found: list[Inbound] = []
    spool = Spool(directory)
    spool.adopt()
    spool.replay(found.append)
    assert [inbound.text for inbound in found] == ["one", "two"]


def test_a_file_of_the_living(tmp_path: Path) -> None:
    """It is pending, and the gateway that has it drops what is meant when it replays."""
    living = Spool(spool_directory(tmp_path))
    for inbound in (spooled("ann", SECRET), spooled("bob", "hello")):
        living.append(inbound)
    with SessionDB(tmp_path / "state.db", clock=lambda: 10.0) as db:
        erasure = Erasure(db.store, [spools_of(tmp_path, db.store)])
        receipt = erasure.forget(ErasureSubject("user", "ann"))
        assert [step.place for step in receipt.pending] == ["spools"]
        assert len(ErasureReceipts(db.store).pending_targets()) == 1
        is_erased = ErasureFilter(db.store)
        assert is_erased(spooled("ann", "x"))
        assert not is_erased(spooled("bob", "x"))
        # Sent later, or at an unknown time: it is not lost.
        assert not is_erased(spooled("ann", "x", 11.0))
        assert not is_erased(spooled("ann", "x", None))
        stored: list[str] = []
        living.replay(lambda m: None if is_erased(m) else stored.append(m.text))
        assert stored == ["hello"]
        assert erasure.resume(receipt.id).status == "done"
        assert ErasureReceipts(db.store).pending_targets() == []
        assert "ann" not in everything(db)
