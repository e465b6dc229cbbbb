"""Failures during a turn: nothing is lost or sent twice, and users are told."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import GatewayConfig, SessionDB, SessionStore
from hermes_sessions.agent.turn import Agent
from hermes_sessions.errors import (
    ConfigError,
    ConstraintViolated,
    ConversationHeld,
    NotFound,
    SchemaRefused,
    StatementRefused,
    StoreCorrupt,
    StoreUnavailable,
    UnsafeStore,
)
from hermes_sessions.gateway import slash_command_handlers, worker_pool
from hermes_sessions.gateway.active_turns import ActiveTurn
from hermes_sessions.gateway.delivery import reply_to
from hermes_sessions.gateway.events import Inbound, Target
from hermes_sessions.gateway.inbound_spool import Spool
from hermes_sessions.gateway.intake import Intake
from hermes_sessions.gateway.turn_runner import TurnRunner
from hermes_sessions.gateway.worker_pool import LaneWorker, WorkerPool
from hermes_sessions.lifecycle.gateway_process import GatewayProcess
from hermes_sessions.lifecycle.mailboxes import Mailboxes
from hermes_sessions.lifecycle.session_entry import SessionEntry
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.repositories.leases import Lease, Leases
from hermes_sessions.storage.repositories.outbox import Outbox
from hermes_sessions.storage.repositories.processes import Processes
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.fake_servers.telegram.server import ANNA, BERT, too_many
from hermes_sessions_testing.scripted_model import (
    Answer,
    Call,
    RecordedRequest,
    failure,
    streamed,
)
from tests.gateway.harness import PATIENCE, RunningGateway, TelegramHarness, echo, said

ANNAS = SessionSource(Platform.TELEGRAM, "7", chat_type="dm", user_id="7", user_name="Anna")


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def harness(tmp_path: Path, clock: FrozenClock) -> Iterator[TelegramHarness]:
    with TelegramHarness(
        tmp_path, lambda: SessionDB(tmp_path / "state.db", clock=clock)
    ) as harness:
        yield harness


def gateway_of(running: RunningGateway) -> Any:
    assert running.gateway is not None
    return running.gateway


def make_acquainted(harness: TelegramHarness) -> None:
    """A bot cannot write to a user who never wrote to it."""
    running = harness.start()
    harness.telegram.write("Hi")
    harness.wait_for_replies(1)
    running.stop()


def test_what_a_dead_process_spooled_is_answered(harness: TelegramHarness) -> None:
    make_acquainted(harness)
    spool = Spool(harness.home / "gateway" / "spool")
    spool.append(Inbound(ANNAS, "From before", "m1"))
    spool.close()
    harness.start()
    assert harness.wait_for_replies(2)[1] == "You said: From before"
    assert list((harness.home / "gateway" / "spool").iterdir()) == []


def test_a_spooled_message_that_cannot_be_stored_is_set_aside_and_reported(
    harness: TelegramHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_acquainted(harness)
    spool = Spool(harness.home / "gateway" / "spool")
    spool.append(Inbound(ANNAS, "From before", "m1"))
    spool.close()

    def fail(_intake: Intake, _inbound: Inbound) -> Any:
        raise ZeroDivisionError("an unexpected error")

    monkeypatch.setattr(Intake, "_store_allowed", fail)
    harness.start()
    assert "was not accepted. Send it again." in harness.wait_for_replies(2)[1]
    (kept,) = (harness.home / "gateway" / "spool").glob("*.refused")
    assert "From before" in kept.read_text()
    assert "an unexpected error" in kept.read_text()


def break_storing(
    monkeypatch: pytest.MonkeyPatch,
    times: int,
    error: Exception = ZeroDivisionError("an unexpected error"),  # noqa: B008
) -> list[str]:
    """Make storing fail this many times with an unexpected error; return the attempts."""
    works, tried = Intake._store_allowed, []

    def store(intake: Intake, inbound: Inbound) -> Any:
        tried.append(inbound.text)
        if len(tried) <= times:
            raise error
        return works(intake, inbound)

    monkeypatch.setattr(Intake, "_store_allowed", store)
    return tried


def test_a_message_that_cannot_be_stored_is_set_aside_and_reported(
    harness: TelegramHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried = break_storing(monkeypatch, 3)
    harness.start()
    harness.telegram.write("Poison")
    assert "was not accepted. Send it again" in harness.wait_for_replies(1)[0]
    (kept,) = (harness.home / "gateway" / "spool").glob("*.refused")
    assert "Poison" in kept.read_text()
    assert "an unexpected error" in kept.read_text()
    assert f"it was kept in {kept}: ZeroDivisionError in" in caplog.text
    assert "an unexpected error" not in caplog.text, "it may contain user text"
    harness.telegram.write("Fine")
    assert harness.wait_for_replies(2)[1] == "You said: Fine"
    assert tried == ["Poison"] * 3 + ["Fine"]


@pytest.mark.parametrize(
    "error",
    [
        ConstraintViolated("no"),
        StatementRefused("no"),
        NotFound("no"),
        ConfigError("no"),
        ZeroDivisionError("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_the_store_refuses_is_kept_and_can_be_redelivered(
    harness: TelegramHarness, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Some messengers bring a message a few times, and then never again."""
    make_acquainted(harness)
    tried = break_storing(monkeypatch, 3, error)
    running = harness.start()
    harness.telegram.write("Poison")
    assert "was not accepted. Send it again" in harness.wait_for_replies(2)[1]
    harness.telegram.wait_for(lambda: not harness.telegram.waiting)
    spool = Spool(harness.home / "gateway" / "spool")
    assert [inbound.text for inbound in spool.kept()] == ["Poison"]
    assert spool.requeue_set_aside() == 1
    assert (spool.kept(), spool.requeue_set_aside()) == ([], 0)
    gateway_of(running).beat_now()
    assert harness.wait_for_replies(3)[2] == "You said: Poison"
    assert tried == ["Poison"] * 4
    harness.telegram.wait_for(lambda: not list(spool.directory.iterdir()))


@pytest.mark.parametrize(
    "error",
    [StoreCorrupt("no"), SchemaRefused("no"), UnsafeStore("no")],
    ids=lambda e: type(e).__name__,
)
def test_a_store_that_takes_nothing_is_away(
    harness: TelegramHarness, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """What is written meanwhile waits until it is repaired."""
    break_storing(monkeypatch, 5, error)
    harness.start()
    harness.telegram.write("Hello")
    assert harness.wait_for_replies(2)[1] == "You said: Hello"
    assert "Your message is safe" in harness.replies()[0]


def test_a_lane_that_stops_unexpectedly_continues_and_is_logged_without_text(
    harness: TelegramHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    works, failed = WorkerPool._serve_once, list[LaneWorker]()

    def serve_once(pool: WorkerPool, work: LaneWorker) -> float | None:
        if not failed:
            failed.append(work)
            raise ZeroDivisionError("an unexpected error")
        return works(pool, work)

    monkeypatch.setattr(WorkerPool, "_serve_once", serve_once)
    harness.start()
    harness.telegram.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]
    assert "stopped, next look in 2 s: ZeroDivisionError in" in caplog.text
    assert "an unexpected error" not in caplog.text, "it may contain user text"


def test_a_lane_that_makes_no_progress_pauses(
    harness: TelegramHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where another program undoes what its turns write."""
    take_turn, rounds = WorkerPool._take_turn, list[LaneWorker]()

    def undone(pool: WorkerPool, work: LaneWorker, source: SessionSource) -> float:
        rounds.append(work)
        return 0.0 if len(rounds) <= 3 else take_turn(pool, work, source)

    monkeypatch.setattr(worker_pool, "MOST_ROUNDS", 3)
    monkeypatch.setattr(WorkerPool, "_take_turn", undone)
    caplog.set_level(logging.INFO)
    harness.start()
    harness.telegram.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]
    assert "is not done after 3 rounds, next look in 2 s" in caplog.text


def test_a_message_that_cannot_be_taken_once_is_answered(
    harness: TelegramHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_storing(monkeypatch, 2)
    harness.start()
    harness.telegram.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]
    assert not (harness.home / "gateway" / "spool").exists()


def test_a_message_that_can_be_kept_nowhere_is_not_confirmed(
    harness: TelegramHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = break_storing(monkeypatch, 4)
    full = []

    def put_aside(_spool: Spool, inbound: Inbound, _why: Exception) -> None:
        full.append(inbound.text)
        raise OSError("No space left on device")

    monkeypatch.setattr(Spool, "put_aside", put_aside)
    harness.start()
    harness.telegram.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"], "Telegram brought it again"
    assert (tried, full) == (["Hello"] * 5, ["Hello"])


class Broken:
    """An agent whose turns fail this many times with an unexpected error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        self.left = times
        self._works = Agent.run_turn

        def run_turn(agent: Agent, *args: Any, **options: Any) -> Any:
            if self.left:
                self.left -= 1
                raise ZeroDivisionError("an unexpected error")
            return self._works(agent, *args, **options)

        monkeypatch.setattr(Agent, "run_turn", run_turn)


def test_a_turn_that_fails_unexpectedly_is_given_up_after_three_attempts_and_told(
    harness: TelegramHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Broken(monkeypatch, 3)
    harness.start()
    harness.telegram.write("Divide by zero")
    (told,) = harness.wait_for_replies(1)
    assert "gave up" in told
    assert broken.left == 0
    assert "failed unexpectedly: ZeroDivisionError in" in caplog.text
    assert "an unexpected error" not in caplog.text
    harness.telegram.write("Something else")
    answer = harness.wait_for_replies(2)[1]
    assert answer.endswith("You said: Something else")
    with harness.open_db() as db:
        assert db.session_count() == 2


def test_what_is_to_be_told_waits_for_a_turn_that_says_something(
    harness: TelegramHarness, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.start()
    harness.telegram.write("Hello")
    harness.wait_for_replies(1)
    clock.advance(days=2)
    Broken(monkeypatch, 2)
    harness.telegram.write("Good morning")
    answer = harness.wait_for_replies(2)[1]
    assert answer.startswith(
        "This is a new conversation, because there were no messages for a while."
    )
    assert answer.endswith("You said: Good morning")
    harness.telegram.write("And now?")
    assert harness.wait_for_replies(3)[2] == "You said: And now?"


def test_a_deleted_conversation_is_told(harness: TelegramHarness) -> None:
    running = harness.start()
    harness.telegram.write("Hello")
    harness.wait_for_replies(1)
    running.wait_until_idle()
    with harness.open_db() as db:
        (session,) = db.list_sessions_rich()
        db.delete_session(session["id"])
    harness.telegram.write("Are you there?")
    answer = harness.wait_for_replies(2)[1]
    assert answer.startswith("This is a new conversation, because the previous one was deleted.")


def test_an_answer_that_was_stored_but_not_sent_is_sent_without_asking_again(
    harness: TelegramHarness,
) -> None:
    make_acquainted(harness)
    with (
        harness.open_db() as db,
        SessionStore(harness.home / "sessions", GatewayConfig(), db=db) as sessions,
    ):
        process = GatewayProcess(sessions.engine, pid=99999999)
        process.start()
        mailboxes = Mailboxes(sessions.engine)
        put = mailboxes.receive(
            sessions.session_key(ANNAS), sender="7", text="Tell me", origin=ANNAS
        )
        entry = sessions.get_or_create_session(ANNAS)
        lease = db.take_lease(entry.session_id, process.holder(), ttl=60)
        lane_id = mailboxes.waiting_lanes()[0].lane_id
        assert mailboxes.take(lane_id, lease) is not None
        mark = f"mailbox:{put.item_id}"
        db.append_message(entry.session_id, "user", "Tell me", external_id=mark, fence=lease.token)
        db.append_message(entry.session_id, "assistant", "It is so.", fence=lease.token)
        process.end()
    harness.start()
    assert harness.wait_for_replies(2)[1] == "It is so."
    assert [said(request) for request in harness.model.requests if "Tell me" in said(request)] == []


def test_a_turn_that_fails_after_a_restart_is_told_once(harness: TelegramHarness) -> None:
    make_acquainted(harness)
    with (
        harness.open_db() as db,
        SessionStore(harness.home / "sessions", GatewayConfig(), db=db) as sessions,
    ):
        process = GatewayProcess(sessions.engine, pid=99999999)
        process.start()
        mailboxes = Mailboxes(sessions.engine)
        mailboxes.receive(sessions.session_key(ANNAS), sender="7", text="Tell me", origin=ANNAS)
        entry = sessions.get_or_create_session(ANNAS)
        lease = db.take_lease(entry.session_id, process.holder(), ttl=60)
        assert mailboxes.take(mailboxes.waiting_lanes()[0].lane_id, lease) is not None
        process.end()
    harness.model.respond = lambda _request: failure(401, "The key is wrong.")
    running = harness.start()
    assert "The model could not answer" in harness.wait_for_replies(2)[1]
    asked = len(harness.model.requests)
    pool = gateway_of(running).pool
    assert pool.wait_idle(PATIENCE)
    # What every heartbeat does.
    gateway_of(running)._resume_lanes()
    assert pool.wait_idle(PATIENCE)
    assert len(harness.model.requests) == asked
    running.stop()
    assert len(harness.replies()) == 2


def test_a_message_that_another_process_received_interrupts(harness: TelegramHarness) -> None:
    running = harness.start()
    watch = running.take_stopwatch()
    gate = harness.model.gate()
    harness.model.respond = lambda request: (
        streamed("I think", gate) if said(request) == "Think" else echo(request)
    )
    harness.telegram.write("Think")
    gate.wait_until_reached()
    watch.advance(60)
    with harness.open_db() as db, SessionStore(harness.home / "other", db=db) as sessions:
        mailboxes = Mailboxes(sessions.engine)
        mailboxes.receive(sessions.session_key(ANNAS), sender="7", text="Never mind", origin=ANNAS)
        gateway_of(running).beat_now()
        assert harness.wait_for_replies(1) == ["You said: Never mind"]


def test_a_turn_that_another_process_stopped_ends(harness: TelegramHarness) -> None:
    running = harness.start()
    gate = harness.model.gate()
    harness.model.respond = lambda _request: streamed("I think", gate)
    harness.telegram.write("Think")
    gate.wait_until_reached()
    (turn,) = gateway_of(running).pool.running()
    with harness.open_db() as db, SessionStore(harness.home / "other", db=db) as sessions:
        Mailboxes(sessions.engine).stop(turn.taken.lane, "stop")
    gateway_of(running).beat_now()
    harness.model.wait_for_departure()
    harness.model.respond = echo
    harness.telegram.write("Hello")
    harness.telegram.wait_for(lambda: "You said: Hello" in harness.replies())


def test_a_gateway_considered_dead_gives_up_its_turns_and_starts_again(
    harness: TelegramHarness, clock: FrozenClock
) -> None:
    running = harness.start()
    gate = harness.model.gate()
    harness.model.respond = lambda request: (
        streamed("Half", gate, " an answer") if len(harness.model.requests) == 1 else echo(request)
    )
    harness.telegram.write("Hello")
    gate.wait_until_reached()
    process_id = gateway_of(running).process.id
    with harness.open_db() as db:
        clock.advance(600)
        Processes(db.store).end(process_id, False)
        Leases(db.store).revoke(process_id)
    gateway_of(running).beat_now()
    (answer,) = harness.wait_for_replies(1)
    assert gateway_of(running).process.id != process_id
    assert "Half an answer" not in answer
    assert running.stop() is True
    assert len(harness.replies()) == 1


def test_a_message_that_was_steered_into_a_turn_that_died_is_not_lost(
    harness: TelegramHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn took it up and died before it stored it."""
    from hermes_sessions.gateway.turn_transcript import TurnTranscript

    works = TurnTranscript.store_steered
    failures = [ZeroDivisionError("in between")]

    def store_steered(self: TurnTranscript) -> None:
        if failures:
            raise failures.pop()
        works(self)

    monkeypatch.setattr(TurnTranscript, "store_steered", store_steered)
    running = harness.start()
    gate = harness.model.gate()
    harness.model.respond = lambda request: _steered_answer(request, gate)
    harness.telegram.write("Begin")
    gate.wait_until_reached()
    harness.telegram.write("/steer And hurry")
    harness.telegram.wait_for(
        lambda: any("after the next step" in text for text in harness.replies())
    )
    gate.open()
    harness.telegram.wait_for(lambda: any(text == "Done." for text in harness.replies()))
    assert failures == []
    assert running.stop() is True
    with harness.open_db() as db:
        (session,) = db.list_sessions_rich()
        asked = [row["content"] for row in db.get_messages(session["id"]) if row["role"] == "user"]
    assert asked == ["Begin", "And hurry"]


def _steered_answer(request: Any, gate: Any) -> Any:
    roles = [message["role"] for message in request.body["messages"]]
    if "title" in said(request).lower():
        return streamed("A talk")
    if "tool" not in roles:
        return streamed(gate, Call("session_search", {"query": "anything"}))
    return streamed("Done.")


def test_who_writes_as_soon_as_the_answer_is_there_is_not_told_to_wait(
    harness: TelegramHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply is out before the worker is done with the turn, which nothing interrupts now."""
    is_written, works = threading.Event(), TurnRunner.__call__

    def run_turn(runner: TurnRunner, turn: ActiveTurn, entry: SessionEntry) -> bool:
        is_tried_again = works(runner, turn, entry)
        assert is_written.wait(PATIENCE)
        return is_tried_again

    monkeypatch.setattr(TurnRunner, "__call__", run_turn)
    harness.start()
    harness.telegram.write("One")
    harness.wait_for_replies(1)
    harness.telegram.write("Two")
    harness.telegram.wait_for(lambda: not harness.telegram.waiting)
    is_written.set()
    assert harness.wait_for_replies(2) == ["You said: One", "You said: Two"]


def test_a_slow_summary_delays_no_other_lane(harness: TelegramHarness) -> None:
    harness.config["platforms"]["telegram"]["allowed_users"] = [ANNA["id"], BERT["id"]]
    harness.start()
    for number in range(6):
        harness.telegram.write(f"Word {number}")
        harness.wait_for_replies(number + 1)
    gate = harness.model.gate()
    harness.model.respond = lambda request: (
        streamed(gate, "A summary.") if "Word 0" in str(request.body) else echo(request)
    )
    harness.telegram.write("/compress names")
    gate.wait_until_reached()
    harness.telegram.write("Hello", user=BERT)
    assert harness.wait_for_replies(1, BERT["id"]) == ["You said: Hello"]
    gate.open()
    assert "Continuing with a summary" in harness.wait_for_replies(7)[6]
    harness.model.respond = echo
    harness.telegram.write("And then?")
    assert harness.wait_for_replies(8)[7] == "You said: And then?"


def test_commands_apply_to_the_continuation_after_compaction(
    harness: TelegramHarness,
) -> None:
    """Also before the next message; what was summarised stays as it is."""
    running = harness.start()
    harness.telegram.write("Hello")
    harness.wait_for_replies(1)
    running.wait_until_idle()
    with harness.open_db() as db:
        (session,) = db.list_sessions_rich()
        kept = [{"role": role, "content": role} for role in ("user", "assistant")]
        tip = db.continue_session(session["id"], "20250115_120000_5e5e5e5e", kept)
        harness.telegram.write("/status")
        assert f"Session: {tip}" in harness.wait_for_replies(2)[1]
        harness.telegram.write("/undo")
        assert harness.wait_for_replies(3)[2] == "Undid 1 exchange, from: user"
        assert db.get_messages(tip) == []
        assert [row["content"] for row in db.get_messages(session["id"])] == [
            "Hello",
            "You said: Hello",
        ]


@pytest.mark.parametrize(
    "usage", [{"prompt_tokens": 900, "completion_tokens": 5}, None], ids=["counts", "does not"]
)
def test_room_is_made_in_time_whether_or_not_the_endpoint_counts(
    harness: TelegramHarness, usage: dict[str, int] | None
) -> None:
    def respond(request: RecordedRequest) -> Answer | None:
        answer = echo(request)
        return answer and streamed("Yes", usage=usage)

    harness.config["model"]["context_length"] = 1000
    harness.model.respond = respond
    running = harness.start()
    harness.telegram.write("One.")
    harness.wait_for_replies(1)
    harness.telegram.write("A long one: " + "x" * 3500)
    harness.wait_for_replies(2)
    running.wait_until_idle()
    harness.telegram.write("Three.")
    harness.wait_for_replies(3)
    running.wait_until_idle()
    with harness.open_db() as db:
        (shown,) = db.list_sessions_rich()
        assert "compression" in {row["edge_kind"] for row in db.list_conversation(shown["id"])}


def test_numbers_of_any_length_in_commands(harness: TelegramHarness) -> None:
    harness.start()
    harness.telegram.write("Hello")
    harness.wait_for_replies(1)
    for command in ("/resume", "/undo"):
        harness.telegram.write(f"{command} {'9' * 4000}")
    replies = harness.wait_for_replies(3)
    assert replies[1].startswith("There is no session")
    assert replies[2].startswith("Undid 1 exchange")


def test_what_became_of_a_command_is_said_although_the_platform_failed(tmp_path: Path) -> None:
    with TelegramHarness(tmp_path) as harness:
        harness.start()
        harness.telegram.fail("sendMessage", too_many(1))
        harness.telegram.write("/title")
        assert harness.wait_for_replies(1) == ["Title: none"]


@pytest.mark.parametrize("command", ["/undo", "/retry", "/branch", "/resume 1"])
def test_commands_wait_for_the_holder_of_the_conversation(
    harness: TelegramHarness, command: str
) -> None:
    """Another process, which runs a turn or is about to."""
    running = harness.start()
    harness.telegram.write("Hello")
    harness.wait_for_replies(1)
    running.wait_until_idle()
    with harness.open_db() as db:
        (session,) = db.list_sessions_rich()
        lease = db.take_lease(session["id"], "the gateway on another machine", ttl=60)
        harness.telegram.write(command)
        assert "I am still answering" in harness.wait_for_replies(2)[1]
        db.release_lease(lease)
        assert [row["content"] for row in db.get_messages(session["id"])] == [
            "Hello",
            "You said: Hello",
        ]
        assert db.session_count() == 1


def test_commands_wait_for_a_worker_that_has_answered(
    harness: TelegramHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it takes until that lets go."""
    may_release, refused = threading.Event(), list[ConversationHeld]()
    release_lease, take_lease = WorkerPool._release_lease, SessionDB.take_lease

    def release_late(pool: WorkerPool, work: LaneWorker) -> None:
        assert work.lease is None or may_release.wait(PATIENCE)
        release_lease(pool, work)

    def take(db: SessionDB, *given: Any, **options: Any) -> Lease:
        try:
            return take_lease(db, *given, **options)
        except ConversationHeld as error:
            refused.append(error)
            if len(refused) == 3:
                may_release.set()
            raise

    monkeypatch.setattr(slash_command_handlers, "_LEASE_WAIT", 0.0)
    monkeypatch.setattr(WorkerPool, "_release_lease", release_late)
    monkeypatch.setattr(SessionDB, "take_lease", take)
    harness.start()
    harness.telegram.write("Hello")
    harness.wait_for_replies(1)
    harness.telegram.write("/undo")
    harness.telegram.wait_for(lambda: len(harness.replies()) == 2)
    assert harness.replies()[1].startswith("Undid 1 exchange")


def test_a_watcher_gets_the_outcome_of_another_process(
    harness: TelegramHarness, clock: FrozenClock
) -> None:
    running = harness.start()
    gate = harness.model.gate()
    harness.model.respond = lambda _request: streamed(gate, "Not yours")
    harness.telegram.write("Hello")
    gate.wait_until_reached()
    (turn,) = gateway_of(running).pool.running()
    (item_id,) = turn.taken.input.item_ids
    assert running.loop is not None

    async def watch() -> list[Any]:
        return [progress async for progress in gateway_of(running).watch(item_id)]

    watching = asyncio.run_coroutine_threadsafe(watch(), running.loop)
    while not gateway_of(running).hub.watched():
        pass
    with harness.open_db() as db, SessionStore(harness.home / "other", db=db) as sessions:
        outbox = Outbox(db.store, "default")
        reply = reply_to(Target("telegram", "7"), "Mine", turn_id=turn.taken.turn.id)
        Mailboxes(sessions.engine).finish(
            turn.taken.turn, "completed", also=lambda tx: outbox.put_in(tx, reply) and None
        )
    gateway_of(running).beat_now()
    ended = watching.result(PATIENCE)[-1]
    assert (ended.kind, ended.text, ended.outcome) == ("ended", "Mine", "completed")
    gate.open()
    assert harness.wait_for_replies(1) == ["Mine"]


def test_a_lease_that_could_not_be_released_blocks_no_turn(
    harness: TelegramHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = SessionDB.release_lease
    failures = [StoreUnavailable("the line was cut")]

    def release_lease(db: SessionDB, lease: Lease) -> None:
        if failures:
            raise failures.pop()
        works(db, lease)

    monkeypatch.setattr(SessionDB, "release_lease", release_lease)
    running = harness.start()
    harness.telegram.write("One")
    harness.wait_for_replies(1)
    running.wait_until_idle()
    assert failures == []
    harness.telegram.write("Two")
    assert harness.wait_for_replies(2) == ["You said: One", "You said: Two"]
