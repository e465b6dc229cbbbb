"""A gateway on Signal end to end: signal-cli's protocol, a model's, and a real store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions.gateway.platforms.port import LoginRefused
from hermes_sessions.storage.repositories.outbox import Outbox
from hermes_sessions_testing.fake_servers.signal.daemon import (
    ANNA,
    BERT,
    GROUP,
    envelope,
    not_sent,
    too_many,
)
from hermes_sessions_testing.scripted_model import streamed
from tests.gateway.platforms.signal.harness import SignalHarness

NAMESPACE = "default"


@pytest.fixture
def harness(short_path: Path) -> Iterator[SignalHarness]:
    with SignalHarness(short_path) as harness:
        yield harness


def test_a_message_is_answered_and_stored(harness: SignalHarness) -> None:
    running = harness.start()
    harness.signal.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]
    running.stop()
    with harness.open_db() as db:
        (session,) = db.list_sessions_rich()
        assert session["source"] == "signal"
        stored = [(row["role"], row["content"]) for row in db.get_messages(session["id"])]
    assert stored == [("user", "Hello"), ("assistant", "You said: Hello")]
    assert not (harness.home / "gateway" / "signal-received.jsonl").exists()


def test_chats_have_the_documented_keys(harness: SignalHarness) -> None:
    harness.platform["allowed_users"] = [ANNA.number, ANNA.uuid]
    harness.start()
    harness.signal.write("In the group", group=GROUP, is_addressed=True)
    harness.wait_for_replies(1, GROUP)
    harness.signal.write("In private")
    harness.wait_for_replies(1)
    # Who hides their number goes on where they were.
    hidden = ANNA._replace(number=None)
    harness.signal.write("Hidden", user=hidden, group=GROUP, is_addressed=True)
    harness.wait_for_replies(2, GROUP)
    assert harness.keys() == {
        f"agent:main:signal:dm:{ANNA.uuid}",
        f"agent:main:signal:group:{GROUP}:{ANNA.uuid}",
    }


def test_what_nobody_wrote_to_the_agent_starts_nothing(harness: SignalHarness) -> None:
    """Malformed, far too large, and everything that phones send without being asked."""
    harness.start()
    harness.signal.write("First")
    harness.wait_for_replies(1)
    now = harness.signal.tick()
    group = {"groupId": GROUP, "type": "UPDATE"}
    reaction = {"emoji": "x", "targetAuthor": ANNA.number, "targetSentTimestamp": now}
    harness.signal.push(
        {},
        envelope(ANNA, now, typingMessage={"action": "STARTED", "timestamp": now}),
        envelope(ANNA, now, receiptMessage={"when": now, "isRead": True, "timestamps": [now]}),
        envelope(ANNA, now, callMessage={"offerMessage": {"id": 1}}),
        envelope(ANNA, now, syncMessage={"readMessages": [{"sender": ANNA.number}]}),
        envelope(ANNA, now, editMessage={"dataMessage": {"timestamp": now, "message": "edited"}}),
        envelope(ANNA, now, dataMessage={"timestamp": now, "message": None, "reaction": reaction}),
        envelope(ANNA, now, dataMessage={"timestamp": now, "remoteDelete": {"timestamp": now}}),
        envelope(
            ANNA,
            now,
            dataMessage={"timestamp": now, "isExpirationUpdate": True, "expiresInSeconds": 60},
        ),
        envelope(ANNA, now, dataMessage={"timestamp": now, "message": None, "groupInfo": group}),
        envelope(ANNA, now, dataMessage={"timestamp": now, "message": 5}),
        envelope(ANNA, now, dataMessage={"timestamp": now, "message": "x" * 900_000}),
    )
    harness.signal.babble(b"{nonsense\n")
    harness.signal.write("Disappears in an hour", expiresInSeconds=3600)
    assert harness.wait_for_replies(2)[1:] == ["You said: Disappears in an hour"]


def test_a_limited_reply_is_sent_when_it_may_be(harness: SignalHarness) -> None:
    harness.signal.fail("send", too_many(1))
    harness.start()
    harness.signal.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]


def test_a_refused_reply_is_kept_with_the_reason(harness: SignalHarness) -> None:
    running = harness.start()
    harness.signal.fail("send", not_sent("UNREGISTERED_FAILURE"))
    harness.signal.write("Hello")
    harness.signal.wait_for(lambda: harness.signal.calls_of("send"))
    # Replies leave in order: when this one has, it is decided about the first.
    harness.signal.write("Again")
    assert harness.wait_for_replies(1) == ["You said: Again"]
    running.stop()
    with harness.open_db() as db:
        (dead,) = Outbox(db.store, NAMESPACE).list(["dead"])
        assert "no longer on Signal" in (dead.error or "")


def test_what_comes_between_two_gateways_is_answered(harness: SignalHarness) -> None:
    harness.start().stop()
    harness.signal.write("Is anybody there?")
    harness.start()
    assert harness.wait_for_replies(1) == ["You said: Is anybody there?"]


def test_a_message_delivered_three_times_is_answered_once(harness: SignalHarness) -> None:
    harness.start()
    timestamp = harness.signal.tick()
    for _ in range(3):
        harness.signal.write("Once", timestamp=timestamp)
    harness.wait_for_replies(1)
    harness.signal.write("/status")
    first, second = harness.wait_for_replies(2)
    assert first == "You said: Once"
    assert "You said" not in second


def test_a_group_is_answered_with_a_quotation(harness: SignalHarness) -> None:
    harness.start()
    harness.signal.write("not for you", group=GROUP)
    harness.signal.write("for you", group=GROUP, is_addressed=True)
    assert harness.wait_for_replies(1, GROUP) == ["You said: for you"]
    assert harness.signal.sent[0].params["quoteAuthor"] == ANNA.uuid
    assert harness.signal.sent[0].params["quoteMessage"] == "for you"


def test_a_stranger_is_given_a_code_and_no_answer(harness: SignalHarness) -> None:
    harness.start()
    harness.signal.write("Let me in", user=BERT)
    (reply,) = harness.wait_for_replies(1, BERT.uuid)
    assert "hermes gateway pair" in reply
    assert harness.model.requests == []


def test_a_daemon_that_starts_again_is_found(harness: SignalHarness) -> None:
    harness.start()
    harness.signal.write("One")
    harness.wait_for_replies(1)
    harness.signal.restart()
    harness.signal.write("Two")
    # The first reply may come twice: its receipt can be lost with the daemon.
    harness.signal.wait_for(lambda: harness.signal.sent[-1].text == "You said: Two")


def test_a_long_reply_comes_in_parts(harness: SignalHarness) -> None:
    harness.model.respond = lambda _request: streamed("wörd " * 1000)
    harness.start()
    harness.signal.write("Tell me")
    harness.signal.wait_for(
        lambda: " ".join(sent.text for sent in harness.signal.sent).split() == ["wörd"] * 1000
    )
    assert all(len(sent.text.encode()) <= 2000 for sent in harness.signal.sent)


def test_an_account_that_the_daemon_does_not_have(harness: SignalHarness) -> None:
    harness.signal.accounts = []
    with pytest.raises(LoginRefused, match="does not have the account"):
        harness.start()
