"""A gateway on Slack end to end: Slack's protocol, a model's, and a real store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions.gateway.platforms.port import LoginRefused
from hermes_sessions.storage.repositories.outbox import Outbox
from hermes_sessions_testing.fake_servers.slack.workspace import (
    ANNA,
    BERT,
    GENERAL,
    GROUP,
    Refusal,
    too_many,
)
from hermes_sessions_testing.scripted_model import streamed
from tests.gateway.harness import echo, said
from tests.gateway.platforms.slack.fake_slack import THREAD
from tests.gateway.platforms.slack.harness import SlackHarness

NAMESPACE = "default"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SlackHarness]:
    with SlackHarness(tmp_path) as harness:
        yield harness


@pytest.fixture
def events(tmp_path: Path) -> Iterator[SlackHarness]:
    with SlackHarness(tmp_path, "events") as harness:
        yield harness


def answered(harness: SlackHarness) -> None:
    running = harness.start()
    harness.slack.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]
    assert running.stop() is True
    assert harness.slack.waiting == []
    with harness.open_db() as db:
        (session,) = db.list_sessions_rich()
        assert (session["source"], session["user_id"]) == ("slack", ANNA.id)
        assert [row["content"] for row in db.get_messages(session["id"])] == [
            "Hello",
            "You said: Hello",
        ]
    assert harness.keys() == {f"agent:main:slack:dm:{ANNA.chat}"}


def test_a_message_is_answered_and_stored(harness: SlackHarness) -> None:
    answered(harness)


def test_a_message_that_slack_brings_is_answered_and_stored(events: SlackHarness) -> None:
    answered(events)
    assert events.slack.deliveries == [200]


def test_a_mention_is_answered_once(harness: SlackHarness) -> None:
    """Though Slack brings it twice; and everybody has a lane of their own."""
    harness.section["allowed_chats"] = [GENERAL.id]
    running = harness.start()
    harness.slack.write("I am Anna", place=GENERAL, is_mention=True)
    harness.slack.write("I am not talking to you", place=GENERAL)
    harness.slack.wait_for(lambda: not harness.slack.waiting)
    harness.wait_for_replies(1, GENERAL.id)
    harness.slack.write("I am Bert", place=GENERAL, is_mention=True, person=BERT)
    harness.slack.wait_for(lambda: not harness.slack.waiting)
    assert harness.wait_for_replies(2, GENERAL.id) == ["You said: I am Anna", "You said: I am Bert"]
    assert running.stop() is True
    assert len(harness.replies(GENERAL.id)) == 2
    assert all(sent.thread_ts is None for sent in harness.slack.sent)
    assert harness.keys() == {
        f"agent:main:slack:channel:{GENERAL.id}:{ANNA.id}",
        f"agent:main:slack:channel:{GENERAL.id}:{BERT.id}",
    }


def test_a_thread_is_a_lane_that_people_share(harness: SlackHarness) -> None:
    harness.section["allowed_chats"] = [GENERAL.id]
    running = harness.start()
    harness.slack.write("Hello", place=GENERAL, is_mention=True, thread_ts=THREAD)
    harness.wait_for_replies(1, GENERAL.id)
    harness.slack.write("And me", place=GENERAL, person=BERT, thread_ts=THREAD)
    replies = harness.wait_for_replies(2, GENERAL.id)
    assert "Hello" in replies[0]
    assert "And me" in replies[1]
    running.stop()
    assert {sent.thread_ts for sent in harness.slack.sent} == {THREAD}
    assert harness.keys() == {f"agent:main:slack:channel:{GENERAL.id}:{THREAD}"}
    with harness.open_db() as db:
        assert db.session_count() == 1


def test_a_mention_may_be_answered_in_a_thread_of_its_own(harness: SlackHarness) -> None:
    harness.section["reply_in_thread"] = True
    running = harness.start()
    ts = harness.slack.write("Hello", place=GENERAL, is_mention=True)
    harness.wait_for_replies(1, GENERAL.id)
    harness.slack.write("Go on", place=GENERAL, thread_ts=ts)
    harness.wait_for_replies(2, GENERAL.id)
    running.stop()
    assert {sent.thread_ts for sent in harness.slack.sent} == {ts}
    assert harness.keys() == {f"agent:main:slack:channel:{GENERAL.id}:{ts}"}


def test_a_chat_of_several(harness: SlackHarness) -> None:
    running = harness.start()
    harness.slack.write("Hello", place=GROUP, is_mention=True)
    assert harness.wait_for_replies(1, GROUP.id) == ["You said: Hello"]
    running.stop()
    assert harness.keys() == {f"agent:main:slack:group:{GROUP.id}:{ANNA.id}"}


def test_slash_commands(harness: SlackHarness) -> None:
    harness.start()
    harness.slack.write("Hello")
    harness.wait_for_replies(1)
    payload = harness.slack.type_command("new A title")
    harness.wait_for_replies(2)
    harness.slack.push(payload, kind="slash_commands")  # Slack is not sure that it was heard
    harness.slack.type_command("What next?")
    assert harness.wait_for_replies(3)[2] == "You said: What next?"
    with harness.open_db() as db:
        assert db.session_count() == 2


def test_a_stranger_is_not_answered_by_the_agent(harness: SlackHarness) -> None:
    harness.start()
    harness.slack.write("Let me in", person=BERT)
    (reply,) = harness.wait_for_replies(1, BERT.chat)
    assert "hermes gateway pair" in reply
    assert harness.model.requests == []


def test_a_forged_call_reaches_nobody(events: SlackHarness) -> None:
    events.start()
    slack = events.slack
    body = b'{"type": "event_callback"}'
    slack.push(slack.envelop(slack.event("I am Anna, really")), headers=slack.headers_for(body))
    old = slack.envelop(slack.event("Once more"))
    slack.push(old, headers=slack.headers_for(body, now=0))
    slack.push(old, headers={"X-Other": "x"})
    slack.write("Hello")
    assert events.wait_for_replies(1) == ["You said: Hello"]
    slack.wait_for(lambda: slack.deliveries == [401, 401, 401, 200])


def test_duplicates_and_reordered_events_are_answered_once(events: SlackHarness) -> None:
    events.start()
    gate = events.model.gate()
    events.model.respond = lambda request: (
        streamed(gate, "Done.") if said(request) == "Once, please" else echo(request)
    )
    slack = events.slack
    first = slack.envelop(slack.event("Once, please"))
    later = slack.envelop(slack.event("/queue And then?"))
    slack.push(first)
    slack.push(first)
    gate.wait_until_reached()
    for payload in (later, first, later):
        slack.push(payload)
    slack.wait_for(lambda: not slack.waiting)
    gate.open()
    slack.wait_for(lambda: "You said: And then?" in events.replies())
    slack.write("/status")
    slack.wait_for(lambda: events.replies()[-1].count("\n"))
    answers = [text for text in events.replies() if text in {"Done.", "You said: And then?"}]
    assert answers == ["Done.", "You said: And then?"]


def test_malformed_and_oversized_events_start_nothing(harness: SlackHarness) -> None:
    harness.start()
    slack = harness.slack
    slack.push(slack.envelop(slack.event("x" * 200_000)))
    slack.push(slack.envelop(slack.event("x") | {"channel": "../x"}))
    slack.push(slack.envelop(slack.event("y", subtype="message_changed")))
    slack.push([])
    slack.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]
    slack.wait_for(lambda: not slack.waiting)
    with harness.open_db() as db:
        (session,) = db.list_sessions_rich()
        assert db.get_messages(session["id"])[0]["content"] == "Hello"


def test_long_replies_are_split(harness: SlackHarness) -> None:
    code = "\n".join(f"line_{number} = a < b" for number in range(800))
    harness.model.respond = lambda _request: streamed(f"Look:\n\n```python\n{code}\n```")
    harness.start()
    harness.slack.write("Much")
    harness.slack.wait_for(lambda: any("line_799 " in text for text in harness.replies()))
    sent = [message.text for message in harness.slack.sent]
    assert len(sent) > 2
    assert all(text.count("```") == 2 for text in sent)
    assert all(len(text) <= 4000 for text in harness.replies())
    words = [
        word for text in harness.replies() for word in text.split() if word.startswith("line_")
    ]
    assert words == [f"line_{number}" for number in range(800)]


def test_a_reply_grows_while_it_is_written(harness: SlackHarness) -> None:
    harness.config["streaming"] = {"enabled": True, "buffer_threshold": 1, "edit_interval": 0.1}
    gate = harness.model.gate()
    harness.model.respond = lambda request: (
        streamed("A talk")
        if "title" in said(request).lower()
        else streamed("First, **this**", gate, ", then that.")
    )
    harness.start()
    harness.slack.write("Tell me")
    gate.wait_until_reached()
    harness.slack.wait_for(lambda: any("First, this" in text for text in harness.replies()))
    gate.open()
    harness.slack.wait_for(lambda: harness.replies() == ["First, this, then that."])
    assert len(harness.slack.sent) == 1
    assert harness.slack.sent[0].before


def test_a_limited_reply_is_sent_when_it_may_be(harness: SlackHarness) -> None:
    harness.start()
    harness.slack.api.fail(too_many(0))
    harness.slack.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]


def test_a_reply_to_where_the_app_is_not_is_kept_with_the_reason(harness: SlackHarness) -> None:
    running = harness.start()
    harness.slack.api.fail(Refusal("not_in_channel"))
    harness.slack.write("Hello")
    harness.slack.wait_for(lambda: any("chat." in call.method for call in harness.slack.api.calls))
    # Replies leave in order: when this one has, it is decided about the first.
    harness.slack.write("Again")
    assert harness.wait_for_replies(1) == ["You said: Again"]
    running.stop()
    with harness.open_db() as db:
        (dead,) = Outbox(db.store, NAMESPACE).list(["dead"])
        assert dead.text == "You said: Hello"
        assert "/invite" in (dead.error or "")


def test_sockets_are_lost_while_people_talk(harness: SlackHarness) -> None:
    harness.start()
    for number in range(3):
        harness.slack.write(f"Message {number}")
        harness.slack.drop_sockets()
        assert harness.wait_for_replies(number + 1)[-1] == f"You said: Message {number}"
        harness.slack.ask_to_reconnect()
    harness.slack.wait_for(lambda: not harness.slack.waiting)
    assert len(harness.replies()) == 3


def test_a_session_goes_on_in_the_home_channel(harness: SlackHarness) -> None:
    harness.section["home_channel"] = ANNA.chat
    with harness.open_db() as db:
        db.create_session("s1", "cli")
        db.append_message("s1", "user", "We spoke at the desk")
        db.append_message("s1", "assistant", "We did")
        assert db.request_handoff("s1", "slack")
    running = harness.start()
    assert running.gateway is not None
    running.gateway.beat_now()
    (told,) = harness.wait_for_replies(1)
    assert told.startswith("Continuing here")
    harness.slack.write("Where were we?")
    assert harness.wait_for_replies(2)[1] == "You said: Where were we?"
    running.stop()
    with harness.open_db() as db:
        assert db.get_messages("s1")[0]["content"] == "We spoke at the desk"
        assert len(db.get_messages("s1")) == 4


def test_a_wrong_token_ends_the_start(harness: SlackHarness) -> None:
    harness.section["token"] = "xoxb-wrong-wrong-wrong"
    with pytest.raises(LoginRefused, match="slack"):
        harness.start()
