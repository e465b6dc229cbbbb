"""Doctor checks that apply to every database."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from hermes_sessions.agent.chat_spool import ChatSpool, SpooledMessage, chat_spool_directory
from hermes_sessions.config import load_settings
from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.inbound_spool import Spool, spool_directory
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.care.doctor import blob_checks, integrity_checks
from hermes_sessions.storage.care.doctor.conditions import CONDITIONS
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.outbox import NewReply, Outbox
from hermes_sessions.storage.repositories.processes import Processes
from tests.care.doctor.harness import SESSION, DoctorHarness

DAY = 86_400.0


def test_a_healthy_store(harness: DoctorHarness) -> None:
    found = harness.look()
    assert (found.code, found.found, found.unknown, found.err) == (0, [], [], "")
    assert found.document["state"] == "healthy"
    where = "files" if harness.store.exists() else "servers"
    looked_for = {each.name for each in CONDITIONS if where in each.where}
    assert set(found.document["absent"]) == looked_for


def test_a_healthy_store_in_full(harness: DoctorHarness) -> None:
    found = harness.look("--full")
    assert (found.code, found.found, found.unknown) == (0, [], [])


def test_before_the_first_session(tmp_path: Path) -> None:
    harness = DoctorHarness(tmp_path / "home")
    found = harness.look()
    assert (found.code, found.found, found.unknown) == (0, [], [])
    assert "There is no store yet" in found.document["notes"][0]
    assert not harness.store.exists()


def test_blobs_that_are_lost_or_damaged(harness: DoctorHarness) -> None:
    with harness.db() as db:
        for content in (b"one" * 9000, b"two" * 9000, b"three" * 9000):
            db.append_message(SESSION, "user", content)
        kept = db.put_blob(b"four", namespace="agent", key="k")
        first, second, third = [a["id"] for a in db.list_attachments(SESSION)]
        provider = db.store.provider
        provider.write(lambda tx: tx.run("DELETE FROM blobs WHERE digest = ?", (first,)))
        provider.write(lambda tx: tx.run("DELETE FROM blob_parts WHERE digest = ?", (second,)))
        change = "UPDATE blob_parts SET data = ? WHERE digest IN (?, ?)"
        provider.write(lambda tx: tx.run(change, (b"x", third, kept)))
    found = harness.look()
    assert (found.code, found.found) == (1, ["damaged-blob"])
    for digest in (first, second):
        assert digest[:12] in found.what("damaged-blob")
    assert f"of session {SESSION}" in found.what("damaged-blob")
    assert third[:12] not in found.what("damaged-blob")
    every = harness.look("--full").what("damaged-blob")
    assert every.endswith("and 1 more.")
    with harness.db() as db:
        db.delete_session(SESSION)
        db.put_blob(b"four", namespace="agent", key="k")
    assert "damaged-blob" not in harness.look().found


def test_blobs_that_nothing_needs(harness: DoctorHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_checks, "_MUCH", 10_000)
    with harness.db() as db:
        digest = db.put_blob(b"x" * 20_000)
    assert harness.look().found == []
    found = harness.look(after=2 * DAY)
    assert "unneeded-blobs" in found.found
    assert "1 blobs with 20,000 bytes" in found.what("unneeded-blobs")
    harness.look("--fix", after=2 * DAY)
    with harness.db() as db:
        assert db.get_blob_size(digest) is None


def test_rows_from_the_future(harness: DoctorHarness) -> None:
    with harness.db(9 * DAY) as db:
        db.append_message(SESSION, "user", "From next week")
    found = harness.look()
    assert (found.code, found.found) == (1, ["clock-jump"])
    latest = time.strftime("%Y-%m-%d", time.gmtime(harness.now + 9 * DAY))
    assert found.what("clock-jump").startswith(f"1 session, 1 message, dated up to {latest} ")
    # A clock that differs from the server's is reported.
    others = {"no-backup"} if harness.store.exists() else {"no-backup", "clock-skew"}
    assert set(harness.look(after=9 * DAY + 5).found) == others


def test_a_time_that_no_calendar_has(harness: DoctorHarness) -> None:
    """The store accepts any number, so the doctor must handle each one."""
    with harness.db() as db:
        db.append_message(SESSION, "user", "From the end of time", timestamp=1e100)
    found = harness.look()
    assert (found.code, found.found, found.unknown) == (1, ["clock-jump"], [])


def test_a_process_of_this_machine_that_is_ahead(harness: DoctorHarness) -> None:
    with harness.db(DAY) as db:
        Processes(db.store).register("main", "gateway")
    assert harness.look().found == ["clock-jump"]


def test_another_machine_whose_clock_is_ahead(harness: DoctorHarness) -> None:
    with harness.db(9_000) as db:
        Processes(db.store).register("main", "gateway", host="elsewhere.example#1")
    found = harness.look()
    assert found.found == ["clock-skew"]
    # On a server the time passes during the test.
    words = found.what("clock-skew")
    assert re.match(r"The clock of elsewhere\.example is [89],\d{3} s ahead", words)


def test_a_lease_that_was_never_released(harness: DoctorHarness) -> None:
    with harness.db(-DAY) as db:
        db.take_lease(SESSION, "the chat in /dev/pts/3", ttl=60)
    found = harness.look()
    assert (found.code, found.found) == (0, ["dead-leases"])
    assert "the chat in /dev/pts/3" in found.what("dead-leases")
    mended = harness.look("--fix")
    assert (mended.found, mended.mended) == ([], ["Released 1 conversation."])
    with harness.db() as db:
        assert db.lease_of(SESSION) is None
        db.append_message(SESSION, "user", "Free again")


def test_a_lease_that_was_taken_since_is_left_alone(harness: DoctorHarness) -> None:
    with harness.db() as db:
        db.take_lease(SESSION, "a chat at work", ttl=60)
    assert harness.look("--fix").document["mended"] == []
    with harness.db() as db:
        assert db.lease_of(SESSION) is not None


def add_message_to_mailbox(harness: DoctorHarness, received_at: float) -> None:
    def work(tx: WriteTransaction) -> None:
        lane = tx.insert(
            "INSERT INTO lanes (namespace, key_hash, session_key, session_id, created_at, "
            "updated_at, status) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                "main",
                "hash",
                "agent:main:telegram:dm:1",
                SESSION,
                harness.now,
                harness.now,
                "active",
            ),
        )
        tx.insert(
            "INSERT INTO mailbox (lane_id, kind, status, received_at) VALUES (?, ?, ?, ?)",
            (lane, "message", "waiting", received_at),
        )

    with harness.db() as db:
        db.store.provider.write(work)


def test_a_message_that_is_not_answered(harness: DoctorHarness) -> None:
    add_message_to_mailbox(harness, harness.now - 3600)
    found = harness.look()
    assert (found.code, found.found) == (1, ["stuck-mailbox"])
    assert found.what("stuck-mailbox") == (
        "1 waiting, the oldest for 60 minutes; no gateway is running."
    )


def test_a_message_that_just_came_is_not_stuck(harness: DoctorHarness) -> None:
    add_message_to_mailbox(harness, harness.now - 10)
    assert harness.look().found == []


def test_a_reply_that_was_given_up(harness: DoctorHarness) -> None:
    with harness.db() as db:
        outbox = Outbox(db.store, "main")
        outbox.put(NewReply("telegram", "1", '{"chat_id": "1"}', "Hello"))
        [outgoing] = outbox.claim(["telegram"], "me", seconds=60, limit=1)
        outbox.give_up(outgoing, "blocked")
    found = harness.look()
    assert (found.code, found.found) == (1, ["dead-letters"])
    assert found.what("dead-letters") == "1 on telegram."


def test_messages_received_while_the_store_was_unavailable(harness: DoctorHarness) -> None:
    spool = Spool(spool_directory(harness.home))
    spool.append(Inbound(SessionSource(Platform.TELEGRAM, "12", user_id="u"), "Hello", "1"))
    found = harness.look()
    spool.close()
    assert (found.code, found.found) == (1, ["gateway-spool"])
    assert found.what("gateway-spool").startswith("1 in ")


def test_chat_messages_kept_while_the_store_was_unavailable(
    harness: DoctorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(harness.home))
    keeping = ChatSpool(chat_spool_directory(harness.home, load_settings().sessiondb))
    then = harness.now
    said = {"role": "user", "content": "Kept", "external_id": "chat-1", "timestamp": then}
    keeping.append(SpooledMessage("20250305_150000_0b0b0b0b", "cli", said, "m"))
    keeping.close()
    found = harness.look()
    assert (found.code, found.found) == (1, ["chat-spool"])
    mended = harness.look("--fix")
    assert (mended.code, mended.found, mended.mended) == (0, [], ["Stored 1 message."])
    with harness.db() as db:
        [message] = db.get_messages("20250305_150000_0b0b0b0b")
        assert (message["content"], message["timestamp"]) == ("Kept", then)


def test_what_a_running_chat_keeps_is_left_to_it(
    harness: DoctorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(harness.home))
    keeping = ChatSpool(chat_spool_directory(harness.home, load_settings().sessiondb))
    said = {"role": "user", "content": "Kept", "external_id": "chat-1", "timestamp": harness.now}
    keeping.append(SpooledMessage(SESSION, "cli", said, "m"))
    found = harness.look("--fix")
    assert found.found == ["chat-spool"]
    assert found.mended == ["Stored 0 messages. Left 1 that another process is using."]
    with harness.db() as db:
        assert keeping.store_all(db) == 1
    keeping.close()
    assert harness.look().found == []


def test_what_the_store_refuses_for_good_is_not_forgotten(
    harness: DoctorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(harness.home))
    keeping = ChatSpool(chat_spool_directory(harness.home, load_settings().sessiondb))
    said = {"role": "user", "external_id": "chat-1", "timestamp": harness.now}
    keeping.append(SpooledMessage(SESSION, "cli", {**said, "content": "x" * (9 * 1024 * 1024)}))
    keeping.close()
    mended = harness.look("--fix")
    assert mended.mended == ["Stored 0 messages. Set aside 1 that the store rejected."]
    found = harness.look()
    assert (found.code, found.found) == (1, ["chat-spool"])
    assert "1 in " in found.what("chat-spool")
    assert "cannot be read or stored" in found.what("chat-spool")


def test_a_spool_that_cannot_be_looked_at(file: DoctorHarness) -> None:
    (file.home / "spool").write_text("no directory")
    (file.home / "spool").chmod(0o600)
    found = file.look()
    assert (found.code, found.found, found.unknown) == (2, [], ["chat-spool"])


def test_a_secret_that_others_can_read(file: DoctorHarness) -> None:
    config = file.home / "config.yaml"
    with config.open("a") as text:
        text.write("model:\n  api_key: sesame-open\n")
    config.chmod(0o644)
    found = file.look()
    assert (found.code, found.found) == (1, ["open-to-others"])
    assert "sesame" not in str(found.document)
    mended = file.look("--fix")
    assert (mended.code, mended.found, len(mended.mended)) == (0, [], 1)
    assert config.stat().st_mode & 0o777 == 0o600


def test_a_configuration_that_names_variables_may_be_read(file: DoctorHarness) -> None:
    config = file.home / "config.yaml"
    with config.open("a") as text:
        text.write("model:\n  api_key: ${MODEL_KEY}\n")
    config.chmod(0o644)
    assert file.look(environ={"PATH": "/nowhere", "MODEL_KEY": "x"}).found == []


def test_another_products_module_and_command(file: DoctorHarness, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "hermes_state.py").write_text("class SessionDB: pass\n")
    command = other / "hermes"
    command.write_text("#!/bin/sh\necho another product\n")
    command.chmod(0o755)
    found = file.look_elsewhere(PYTHONPATH=str(other), PATH=str(other))
    assert {"shadowed-module", "shadowed-command"} <= set(found.found)
    assert found.what("shadowed-module") == f"import hermes_state loads {other}/hermes_state.py."


def test_a_damaged_index_is_rebuilt(harness: DoctorHarness) -> None:
    table = "search_index_data" if harness.store.exists() else "search_documents"
    with harness.db() as db:
        db.store.provider.write(lambda tx: tx.run(f"DELETE FROM {table}"))
    found = harness.look()
    assert (found.code, found.found) == (1, ["damaged-search-index"])
    mended = harness.look("--fix")
    assert (mended.code, mended.found) == (0, [])
    assert mended.mended == ["Rebuilt the search index from 201 messages and titles."]
    with harness.db() as db:
        assert db.search("199").hits


def test_an_index_that_is_far_behind(
    harness: DoctorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(integrity_checks, "_BEHIND", 100)
    if harness.store.exists():
        harness.run("UPDATE search_state SET indexed_through = 0")
        found = harness.look()
    else:
        sql = "INSERT INTO search_queue (message_id) SELECT id FROM messages"
        with harness.db() as db:
            db.store.provider.write(lambda tx: tx.run(sql))
            found = harness.look()
    assert (found.code, found.found) == (0, ["index-behind"])
    mended = harness.look("--fix")
    assert mended.found == []


def test_a_store_without_a_backup_and_one_with_an_old_one(harness: DoctorHarness) -> None:
    later = 8 * DAY
    found = harness.look(after=later)
    assert "no-backup" in found.found
    assert (harness.home / "backups").name in found.what("no-backup")
    code, _, err = harness.call("backup", "create")
    assert code == 0, err
    made = harness.call("status", "--json")
    assert json.loads(made[1])["backups"]["count"] == 1
    # Backups are dated by the clock of the machine, not by the clock of the test.
    much_later = time.time() - harness.now + 40 * DAY
    assert "no-backup" not in harness.look(after=much_later).found
    with harness.db(much_later) as db:
        db.append_message(SESSION, "user", "Something new")
    found = harness.look(after=much_later + 5)
    assert "old-backup" in found.found
