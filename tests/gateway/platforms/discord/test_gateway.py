"""A gateway on Discord end to end: Discord's protocol, a model's, and a real store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions.gateway.platforms.port import LoginRefused
from hermes_sessions.storage.repositories.outbox import Outbox
from hermes_sessions_testing.fake_servers.discord.gateway import MESSAGE_CONTENT
from hermes_sessions_testing.fake_servers.discord.server import (
    ANNA,
    BERT,
    BOT,
    GENERAL,
    GUILD,
    MEMBERS,
    ROBOT,
    THREAD,
    Refusal,
    too_many,
)
from hermes_sessions_testing.scripted_model import streamed
from tests.gateway.harness import echo, said
from tests.gateway.platforms.discord.fake_discord import WRONG_TOKEN
from tests.gateway.platforms.discord.harness import DiscordHarness

NAMESPACE = "default"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[DiscordHarness]:
    with DiscordHarness(tmp_path) as harness:
        yield harness


def test_a_message_is_answered_and_stored(harness: DiscordHarness) -> None:
    running = harness.start()
    harness.discord.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]
    assert running.stop() is True
    with harness.open_db() as db:
        (session,) = db.list_sessions_rich()
        assert (session["source"], session["user_id"]) == ("discord", ANNA["id"])
        stored = [row["content"] for row in db.get_messages(session["id"])]
    assert stored == ["Hello", "You said: Hello"]
    assert harness.keys() == {f"agent:main:discord:dm:{harness.private}"}


def test_channels_and_threads_have_the_documented_keys(harness: DiscordHarness) -> None:
    harness.platform["allowed_chats"] = [GENERAL]
    running = harness.start()
    harness.discord.write("in the channel", channel=GENERAL, is_addressed=True)
    harness.wait_for_replies(1, GENERAL)
    harness.discord.write("me too", user=BERT, channel=GENERAL, is_addressed=True)
    harness.wait_for_replies(2, GENERAL)
    for user in (ANNA, BERT):
        before = len(harness.replies(THREAD))
        harness.discord.write("in the thread", user=user, channel=THREAD, is_addressed=True)
        harness.wait_for_replies(before + 1, THREAD)
    running.stop()
    assert harness.keys() == {
        f"agent:main:discord:group:{GENERAL}:{ANNA['id']}",
        f"agent:main:discord:group:{GENERAL}:{BERT['id']}",
        f"agent:main:discord:group:{GENERAL}:{THREAD}",
    }
    first = harness.discord.sent[0]
    assert first.reply_to == harness.discord.state.messages[GENERAL][0]["id"]


def test_what_is_not_for_the_bot_is_not_answered(harness: DiscordHarness) -> None:
    harness.start()
    harness.discord.write("talking to Bert", channel=GENERAL)
    harness.discord.write("/shrug", channel=GENERAL)
    harness.discord.write("beep", user=ROBOT, channel=GENERAL, is_addressed=True)
    harness.discord.write("for you", channel=GENERAL, is_addressed=True)
    assert harness.wait_for_replies(1, GENERAL) == ["You said: for you"]
    harness.discord.write("/status", channel=GENERAL)
    assert len(harness.wait_for_replies(2, GENERAL)) == 2


def test_a_stranger_is_given_a_code_and_no_answer(harness: DiscordHarness) -> None:
    harness.start()
    harness.discord.write("Let me in", user=BERT)
    harness.discord.write("and here?", user=BERT, channel=GENERAL, is_addressed=True)
    private = harness.discord.state.direct_channel(BERT)
    (reply,) = harness.wait_for_replies(1, private)
    assert "hermes gateway pair" in reply
    harness.discord.write("Hello")
    harness.wait_for_replies(1)
    assert [said(request) for request in harness.model.requests][:1] == ["Hello"]
    assert harness.replies(GENERAL) == []


@pytest.mark.parametrize("role", [MEMBERS, GUILD], ids=["a role", "everybody on the server"])
def test_a_role_lets_in(harness: DiscordHarness, role: str) -> None:
    harness.platform |= {"allowed_users": [], "allowed_roles": [role], "pairing": False}
    harness.discord.state.members[GUILD, BERT["id"]] = [MEMBERS]
    running = harness.start()
    harness.discord.write("I have no role here", user=BERT)
    harness.discord.write("I have one", user=BERT, channel=GENERAL, is_addressed=True)
    assert harness.wait_for_replies(1, GENERAL) == ["You said: I have one"]
    running.stop()
    # A history does not say which roles people have; they are asked for.
    harness.discord.write("And while you were away", user=BERT, channel=GENERAL, is_addressed=True)
    harness.start()
    assert harness.wait_for_replies(2, GENERAL)[1:] == ["You said: And while you were away"]
    assert harness.replies(harness.discord.state.direct_channel(BERT)) == []


def test_without_the_role_nobody_is_let_in(harness: DiscordHarness) -> None:
    harness.platform |= {"allowed_roles": [MEMBERS], "pairing": False}
    harness.start()
    harness.discord.write("I have no role", user=BERT, channel=GENERAL, is_addressed=True)
    harness.discord.write("Hello", channel=GENERAL, is_addressed=True)
    assert harness.wait_for_replies(1, GENERAL) == ["You said: Hello"]


def test_duplicates_and_reordered_messages_are_answered_once(harness: DiscordHarness) -> None:
    harness.start()
    gate = harness.model.gate()
    harness.model.respond = lambda request: (
        streamed(gate, "Done.") if said(request) == "Once, please" else echo(request)
    )
    first = harness.discord.write("Once, please")
    gate.wait_until_reached()
    later = harness.discord.write("/queue And then?")
    for message_id in (later, first, later, first):
        harness.discord.tell_again(harness.private, message_id)
    harness.discord.write("/queue The end")
    gate.open()
    harness.discord.wait_for(lambda: "You said: The end" in harness.replies())
    answers = [text for text in harness.replies() if text == "Done." or text.startswith("You said")]
    assert answers == ["Done.", "You said: And then?", "You said: The end"]


def test_a_long_reply_comes_in_parts(harness: DiscordHarness) -> None:
    code = "\n".join(f"line_{number} = 1" for number in range(400))
    harness.model.respond = lambda _request: streamed(f"Look:\n\n```python\n{code}\n```")
    harness.start()
    harness.discord.write("Much")
    harness.discord.wait_for(lambda: any("line_399 " in text for text in harness.replies()))
    parts = [sent.raw for sent in harness.discord.sent]
    assert len(parts) > 2
    assert all(part.count("```") == 2 and len(part) <= 2000 for part in parts)


def test_a_reply_grows_while_it_is_written(harness: DiscordHarness) -> None:
    harness.config["streaming"] = {"enabled": True, "edit_interval": 0.01, "buffer_threshold": 1}
    gate = harness.model.gate()
    harness.model.respond = lambda _request: streamed("Half of it", gate, " and the rest.")
    harness.start()
    harness.discord.write("Tell me")
    harness.discord.wait_for(lambda: any("Half of it" in text for text in harness.replies()))
    gate.open()
    harness.discord.wait_for(lambda: harness.replies() == ["Half of it and the rest."])
    assert harness.private in harness.discord.state.typing


def test_a_limited_reply_is_sent_when_it_may_be(harness: DiscordHarness) -> None:
    harness.start()
    harness.discord.fail("send", too_many(0.01), too_many(0.01, is_global=True))
    harness.discord.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]


def test_a_reply_whose_receipt_is_lost_is_shown_once(harness: DiscordHarness) -> None:
    harness.start()
    harness.discord.cut("send", is_done=True)
    harness.discord.write("Hello")
    harness.discord.wait_for(lambda: harness.discord.asked.count(("send", harness.private)) >= 2)
    harness.discord.write("Again")
    harness.discord.wait_for(lambda: "You said: Again" in harness.replies())
    assert harness.replies() == ["You said: Hello", "You said: Again"]


def test_a_refused_reply_is_kept_with_the_reason(harness: DiscordHarness) -> None:
    running = harness.start()
    harness.discord.fail("send", Refusal(403, 50013, "Missing Permissions"))
    harness.discord.write("Hello")
    harness.discord.wait_for(lambda: ("send", harness.private) in harness.discord.asked)
    # Replies leave in order: when this one has, it is decided about the first.
    harness.discord.write("Again")
    assert harness.wait_for_replies(1) == ["You said: Again"]
    running.stop()
    with harness.open_db() as db:
        (dead,) = Outbox(db.store, NAMESPACE).list(["dead"])
        assert "Send Messages" in (dead.error or "")


def test_what_is_said_while_the_connection_is_lost(harness: DiscordHarness) -> None:
    harness.start()
    harness.discord.write("Before")
    harness.wait_for_replies(1)
    harness.discord.cut("connect")
    harness.discord.drop()
    harness.discord.write("Meanwhile, in private")
    harness.discord.write("Meanwhile, here", channel=GENERAL, is_addressed=True)
    assert harness.wait_for_replies(2)[1:] == ["You said: Meanwhile, in private"]
    assert harness.wait_for_replies(1, GENERAL) == ["You said: Meanwhile, here"]
    assert harness.discord.done.count("identify") == 1
    assert "resume" in harness.discord.done


def test_what_is_said_between_two_gateways(harness: DiscordHarness) -> None:
    running = harness.start()
    for channel in (None, THREAD):
        harness.discord.write("Before", channel=channel, is_addressed=channel is not None)
        harness.wait_for_replies(1, channel)
    running.stop()
    # A thread that sleeps is not listed when the bot connects.
    harness.discord.state.channels[THREAD]["is_asleep"] = True
    harness.discord.write("In private")
    harness.discord.write("In the channel", channel=GENERAL, is_addressed=True)
    harness.discord.write("In the thread", channel=THREAD, is_addressed=True)
    harness.start()
    assert harness.wait_for_replies(2)[1:] == ["You said: In private"]
    assert harness.wait_for_replies(1, GENERAL) == ["You said: In the channel"]
    assert harness.wait_for_replies(2, THREAD)[1:] == ["You said: [Anna] In the thread"]


def test_a_first_private_message_between_two_gateways(harness: DiscordHarness) -> None:
    harness.start().stop()
    harness.discord.write("Is anybody there?")
    harness.start()
    assert harness.wait_for_replies(1) == ["You said: Is anybody there?"]


def test_a_wrong_token_ends_the_start(harness: DiscordHarness) -> None:
    harness.platform["token"] = WRONG_TOKEN
    with pytest.raises(LoginRefused, match="Reset Token"):
        harness.start()


def test_a_missing_intent_is_named(harness: DiscordHarness) -> None:
    harness.discord.forbid_intents(MESSAGE_CONTENT)
    with pytest.raises(LoginRefused, match="Message Content Intent"):
        harness.start()


def test_a_mention_of_others_stays_as_it_is_written(harness: DiscordHarness) -> None:
    harness.start()
    text = f"<@{BOT['id']}> ask <@{BERT['id']}> in <#{GENERAL}>"
    harness.discord.write(text, channel=GENERAL, mentions=[BOT, BERT])
    (reply,) = harness.wait_for_replies(1, GENERAL)
    assert reply == f"You said: ask <@{BERT['id']}> in <#{GENERAL}>"
