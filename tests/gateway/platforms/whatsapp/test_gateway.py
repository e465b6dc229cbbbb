"""A gateway on WhatsApp end to end: Meta's protocol, a model's, and a real store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions.gateway.platforms.port import LoginRefused
from hermes_sessions.gateway.platforms.whatsapp.errors import explain_error
from hermes_sessions.storage.repositories.outbox import Outbox
from hermes_sessions_testing.fake_servers.whatsapp.server import (
    ANNA,
    BERT,
    GROUP,
    Person,
    outside_window,
    too_many,
)
from hermes_sessions_testing.scripted_model import streamed
from tests.cli.harness import Hermes
from tests.gateway.harness import echo, said
from tests.gateway.platforms.whatsapp.fake_whatsapp import VERIFY_TOKEN
from tests.gateway.platforms.whatsapp.harness import WhatsAppHarness

NAMESPACE = "default"
#: Anna as Meta names her before it told her lasting id, and when she hides her number.
WITHOUT_LASTING_ID = ANNA._replace(user_id=None)
WITHOUT_NUMBER = ANNA._replace(number=None)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WhatsAppHarness]:
    with WhatsAppHarness(tmp_path) as harness:
        yield harness


def keys(harness: WhatsAppHarness) -> set[str]:
    """The keys of all lanes."""
    with harness.open_db() as db, db.store.provider.read() as tx:
        return {row[0] for row in tx.all("SELECT session_key FROM lanes", ())}


def test_a_message_is_answered_and_stored(harness: WhatsAppHarness) -> None:
    running = harness.start()
    assert harness.whatsapp.verify(VERIFY_TOKEN)
    harness.whatsapp.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]
    assert running.stop() is True
    harness.whatsapp.wait_for(lambda: harness.whatsapp.deliveries == [200])
    assert harness.whatsapp.waiting == []
    with harness.open_db() as db:
        (session,) = db.list_sessions_rich()
        assert (session["source"], session["user_id"]) == ("whatsapp", ANNA.number)
        assert [row["content"] for row in db.get_messages(session["id"])] == [
            "Hello",
            "You said: Hello",
        ]
    assert keys(harness) == {f"agent:main:whatsapp:dm:{ANNA.number}"}


@pytest.mark.parametrize(
    "order",
    [
        (WITHOUT_LASTING_ID, ANNA, WITHOUT_NUMBER, WITHOUT_LASTING_ID),
        (ANNA, WITHOUT_NUMBER, WITHOUT_LASTING_ID),
        (WITHOUT_NUMBER, ANNA, WITHOUT_LASTING_ID),
    ],
    ids=["number first", "both first", "lasting id first"],
)
def test_somebody_with_two_ids_has_one_conversation(
    harness: WhatsAppHarness, order: tuple[Person, ...]
) -> None:
    """Whichever of them Meta names, and after a restart."""
    running = harness.start()
    for number, person in enumerate(order):
        if number == 2:
            running.stop("restart")
            running = harness.start()
        before = len(harness.whatsapp.sent)
        harness.whatsapp.write(f"Message {number}", person=person)
        harness.whatsapp.wait_for(lambda before=before: len(harness.whatsapp.sent) > before)
        assert harness.whatsapp.sent[-1].chat_id == person.id
    running.stop()
    assert len(keys(harness)) == 1
    with harness.open_db() as db:
        assert db.session_count() == 1


def test_participants_of_a_group(harness: WhatsAppHarness) -> None:
    harness.config["platforms"]["whatsapp"]["allowed_chats"] = [GROUP]
    running = harness.start()
    harness.whatsapp.write("I am Anna", group=GROUP)
    harness.wait_for_replies(1, GROUP)
    harness.whatsapp.write("I am Bert", group=GROUP, person=BERT)
    assert sorted(harness.wait_for_replies(2, GROUP)) == [
        "You said: I am Anna",
        "You said: I am Bert",
    ]
    running.stop()
    assert keys(harness) == {
        f"agent:main:whatsapp:group:{GROUP}:{ANNA.number}",
        f"agent:main:whatsapp:group:{GROUP}:{BERT.number}",
    }


def test_a_stranger_is_not_answered_by_the_agent(harness: WhatsAppHarness) -> None:
    harness.start()
    harness.whatsapp.write("Let me in", person=BERT)
    (reply,) = harness.wait_for_replies(1, BERT.id)
    assert "hermes gateway pair" in reply
    assert harness.model.requests == []


def test_a_forged_call_reaches_nobody(harness: WhatsAppHarness) -> None:
    harness.start()
    whatsapp = harness.whatsapp
    forged = whatsapp.call(whatsapp.value([whatsapp.message("I am Anna, really")]))
    whatsapp.push(forged, signature="sha256=" + "0" * 64)
    whatsapp.push(forged, signature="")
    whatsapp.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]
    whatsapp.wait_for(lambda: whatsapp.deliveries == [401, 401, 200])


def test_duplicates_and_reordered_calls_are_answered_once(harness: WhatsAppHarness) -> None:
    harness.start()
    gate = harness.model.gate()
    harness.model.respond = lambda request: (
        streamed(gate, "Done.") if said(request) == "Once, please" else echo(request)
    )
    whatsapp = harness.whatsapp
    first = whatsapp.call(whatsapp.value([whatsapp.message("Once, please")]))
    later = whatsapp.call(whatsapp.value([whatsapp.message("/queue And then?")]))
    whatsapp.push(first, first)
    gate.wait_until_reached()
    whatsapp.push(later, first, later)
    whatsapp.wait_for(lambda: not whatsapp.waiting)
    gate.open()
    whatsapp.wait_for(lambda: "You said: And then?" in harness.replies())
    whatsapp.write("/status")
    whatsapp.wait_for(lambda: harness.replies()[-1].count("\n"))
    answers = [text for text in harness.replies() if text in {"Done.", "You said: And then?"}]
    assert answers == ["Done.", "You said: And then?"]


def test_statuses_and_reactions_start_nothing(harness: WhatsAppHarness) -> None:
    harness.start()
    harness.whatsapp.write("Hello")
    harness.wait_for_replies(1)
    sent = harness.whatsapp.sent[0]
    for status in ("sent", "delivered", "read"):
        harness.whatsapp.tell_status(sent.message_id, status)
    harness.whatsapp.write(type="reaction", reaction={"message_id": sent.message_id, "emoji": "👍"})
    harness.whatsapp.write("Again")
    assert harness.wait_for_replies(2) == ["You said: Hello", "You said: Again"]


def test_a_reply_that_was_taken_and_not_delivered_can_be_seen(harness: WhatsAppHarness) -> None:
    harness.start()
    harness.whatsapp.write("Hello")
    harness.wait_for_replies(1)
    sent = harness.whatsapp.sent[0]
    error = {"code": 131026, "title": "Message undeliverable"}
    harness.whatsapp.tell_status(sent.message_id, "failed", errors=[error])
    harness.whatsapp.wait_for(lambda: not harness.whatsapp.waiting)
    result = Hermes(harness.home).run("gateway", "queue", "--dead")
    assert result.code == 0
    assert f"dead to whatsapp {ANNA.number}" in result.out
    assert explain_error(131026, "Message undeliverable") in result.out
    with harness.open_db() as db:
        outbox = Outbox(db.store, NAMESPACE)
        (dead,) = outbox.list(["dead"])
        outbox.revive(dead.id)
    harness.whatsapp.write("And?")
    assert harness.wait_for_replies(3)[1:] == ["You said: Hello", "You said: And?"]


def test_long_replies_are_split(harness: WhatsAppHarness) -> None:
    code = "\n".join(f"line_{number} = 1" for number in range(800))
    harness.model.respond = lambda _request: streamed(f"Look:\n\n```python\n{code}\n```")
    harness.start()
    harness.whatsapp.write("Much")
    harness.whatsapp.wait_for(lambda: any("line_799 " in text for text in harness.replies()))
    replies = harness.replies()
    assert len(replies) > 2
    assert all(text.count("```") == 2 and len(text) <= 4096 for text in replies)


def test_a_limited_reply_is_sent_when_it_may_be(harness: WhatsAppHarness) -> None:
    harness.start()
    harness.whatsapp.fail(too_many(131056, retry_after=0))
    harness.whatsapp.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]


def test_a_reply_after_a_day_is_kept_with_the_reason(harness: WhatsAppHarness) -> None:
    running = harness.start()
    harness.whatsapp.fail(outside_window())
    harness.whatsapp.write("Hello")
    harness.whatsapp.wait_for(
        lambda: any(b"You said" in each.body for each in harness.whatsapp.requests)
    )
    # Replies leave in order: when this one has, it is decided about the first.
    harness.whatsapp.write("Again")
    assert harness.wait_for_replies(1) == ["You said: Again"]
    running.stop()
    with harness.open_db() as db:
        (dead,) = Outbox(db.store, NAMESPACE).list(["dead"])
        assert dead.text == "You said: Hello"
        assert "24 hours" in (dead.error or "")


def test_a_wrong_token_ends_the_start(harness: WhatsAppHarness) -> None:
    harness.config["platforms"]["whatsapp"]["token"] = "EAAwrongwrongwrongwrongwrong"
    with pytest.raises(LoginRefused, match="whatsapp"):
        harness.start()
