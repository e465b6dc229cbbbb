"""A gateway on Discord end to end: Discord's protocol, a model's, and a real store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions.gateway.platforms.port import LoginRefused
from hermes_sessions.storage.repositories.outbox import Outbox
from hermes_sessions.testing.discord_gateway import MESSAGE_CONTENT
from hermes_sessions.testing.discord_server import (
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
from hermes_sessions.testing.scripted_model import streamed
from tests.gateway.harness import echo, said
from tests.gateway.platforms.discord.fake_discord import WRONG_TOKEN
from tests.gateway.platforms.discord.harness import DiscordTown

NAMESPACE = "default"


@pytest.fixture
def town(tmp_path: Path) -> Iterator[DiscordTown]:
    with DiscordTown(tmp_path) as town:
        yield town


def test_a_message_is_answered_and_stored(town: DiscordTown) -> None:
    running = town.start()
    town.discord.write("Hello")
    assert town.wait_for_replies(1) == ["You said: Hello"]
    assert running.stop() is True
    with town.open_db() as db:
        (session,) = db.list_sessions_rich()
        assert (session["source"], session["user_id"]) == ("discord", ANNA["id"])
        stored = [row["content"] for row in db.get_messages(session["id"])]
    assert stored == ["Hello", "You said: Hello"]
    assert town.keys() == {f"agent:main:discord:dm:{town.private}"}


def test_channels_and_threads_have_the_documented_keys(town: DiscordTown) -> None:
    town.platform["allowed_chats"] = [GENERAL]
    running = town.start()
    town.discord.write("in the channel", channel=GENERAL, is_addressed=True)
    town.wait_for_replies(1, GENERAL)
    town.discord.write("me too", user=BERT, channel=GENERAL, is_addressed=True)
    town.wait_for_replies(2, GENERAL)
    for user in (ANNA, BERT):
        before = len(town.replies(THREAD))
        town.discord.write("in the thread", user=user, channel=THREAD, is_addressed=True)
        town.wait_for_replies(before + 1, THREAD)
    running.stop()
    assert town.keys() == {
        f"agent:main:discord:group:{GENERAL}:{ANNA['id']}",
        f"agent:main:discord:group:{GENERAL}:{BERT['id']}",
        f"agent:main:discord:group:{GENERAL}:{THREAD}",
    }
    first = town.discord.sent[0]
    assert first.reply_to == town.discord.state.messages[GENERAL][0]["id"]


def test_what_is_not_for_the_bot_is_not_answered(town: DiscordTown) -> None:
    town.start()
    town.discord.write("talking to Bert", channel=GENERAL)
    town.discord.write("/shrug", channel=GENERAL)
    town.discord.write("beep", user=ROBOT, channel=GENERAL, is_addressed=True)
    town.discord.write("for you", channel=GENERAL, is_addressed=True)
    assert town.wait_for_replies(1, GENERAL) == ["You said: for you"]
    town.discord.write("/status", channel=GENERAL)
    assert len(town.wait_for_replies(2, GENERAL)) == 2


def test_a_stranger_is_given_a_code_and_no_answer(town: DiscordTown) -> None:
    town.start()
    town.discord.write("Let me in", user=BERT)
    town.discord.write("and here?", user=BERT, channel=GENERAL, is_addressed=True)
    private = town.discord.state.direct_channel(BERT)
    (reply,) = town.wait_for_replies(1, private)
    assert "hermes gateway pair" in reply
    town.discord.write("Hello")
    town.wait_for_replies(1)
    assert [said(request) for request in town.model.requests][:1] == ["Hello"]
    assert town.replies(GENERAL) == []


@pytest.mark.parametrize("role", [MEMBERS, GUILD], ids=["a role", "everybody on the server"])
def test_a_role_lets_in(town: DiscordTown, role: str) -> None:
    town.platform |= {"allowed_users": [], "allowed_roles": [role], "pairing": False}
    town.discord.state.members[GUILD, BERT["id"]] = [MEMBERS]
    running = town.start()
    town.discord.write("I have no role here", user=BERT)
    town.discord.write("I have one", user=BERT, channel=GENERAL, is_addressed=True)
    assert town.wait_for_replies(1, GENERAL) == ["You said: I have one"]
    running.stop()
    # A history does not say which roles people have; they are asked for.
    town.discord.write("And while you were away", user=BERT, channel=GENERAL, is_addressed=True)
    town.start()
    assert town.wait_for_replies(2, GENERAL)[1:] == ["You said: And while you were away"]
    assert town.replies(town.discord.state.direct_channel(BERT)) == []


def test_without_the_role_nobody_is_let_in(town: DiscordTown) -> None:
    town.platform |= {"allowed_roles": [MEMBERS], "pairing": False}
    town.start()
    town.discord.write("I have no role", user=BERT, channel=GENERAL, is_addressed=True)
    town.discord.write("Hello", channel=GENERAL, is_addressed=True)
    assert town.wait_for_replies(1, GENERAL) == ["You said: Hello"]


def test_duplicates_and_reordered_messages_are_answered_once(town: DiscordTown) -> None:
    town.start()
    gate = town.model.gate()
    town.model.respond = lambda request: (
        streamed(gate, "Done.") if said(request) == "Once, please" else echo(request)
    )
    first = town.discord.write("Once, please")
    gate.wait_until_reached()
    later = town.discord.write("/queue And then?")
    for message_id in (later, first, later, first):
        town.discord.tell_again(town.private, message_id)
    town.discord.write("/queue The end")
    gate.open()
    town.discord.wait_for(lambda: "You said: The end" in town.replies())
    answers = [text for text in town.replies() if text == "Done." or text.startswith("You said")]
    assert answers == ["Done.", "You said: And then?", "You said: The end"]


def test_a_long_reply_comes_in_parts(town: DiscordTown) -> None:
    code = "\n".join(f"line_{number} = 1" for number in range(400))
    town.model.respond = lambda _request: streamed(f"Look:\n\n```python\n{code}\n```")
    town.start()
    town.discord.write("Much")
    town.discord.wait_for(lambda: any("line_399 " in text for text in town.replies()))
    parts = [sent.raw for sent in town.discord.sent]
    assert len(parts) > 2
    assert all(part.count("```") == 2 and len(part) <= 2000 for part in parts)


def test_a_reply_grows_while_it_is_written(town: DiscordTown) -> None:
    town.config["streaming"] = {"enabled": True, "edit_interval": 0.01, "buffer_threshold": 1}
    gate = town.model.gate()
    town.model.respond = lambda _request: streamed("Half of it", gate, " and the rest.")
    town.start()
    town.discord.write("Tell me")
    town.discord.wait_for(lambda: any("Half of it" in text for text in town.replies()))
    gate.open()
    town.discord.wait_for(lambda: town.replies() == ["Half of it and the rest."])
    assert town.private in town.discord.state.typing


def test_a_limited_reply_is_sent_when_it_may_be(town: DiscordTown) -> None:
    town.start()
    town.discord.fail("send", too_many(0.01), too_many(0.01, is_global=True))
    town.discord.write("Hello")
    assert town.wait_for_replies(1) == ["You said: Hello"]


def test_a_reply_whose_receipt_is_lost_is_shown_once(town: DiscordTown) -> None:
    town.start()
    town.discord.cut("send", is_done=True)
    town.discord.write("Hello")
    town.discord.wait_for(lambda: town.discord.asked.count(("send", town.private)) >= 2)
    town.discord.write("Again")
    town.discord.wait_for(lambda: "You said: Again" in town.replies())
    assert town.replies() == ["You said: Hello", "You said: Again"]


def test_a_refused_reply_is_kept_with_the_reason(town: DiscordTown) -> None:
    running = town.start()
    town.discord.fail("send", Refusal(403, 50013, "Missing Permissions"))
    town.discord.write("Hello")
    town.discord.wait_for(lambda: ("send", town.private) in town.discord.asked)
    # Replies leave in order: when this one has, it is decided about the first.
    town.discord.write("Again")
    assert town.wait_for_replies(1) == ["You said: Again"]
    running.stop()
    with town.open_db() as db:
        (dead,) = Outbox(db.store, NAMESPACE).list(["dead"])
        assert "Send Messages" in (dead.error or "")


def test_what_is_said_while_the_connection_is_lost(town: DiscordTown) -> None:
    town.start()
    town.discord.write("Before")
    town.wait_for_replies(1)
    town.discord.cut("connect")
    town.discord.drop()
    town.discord.write("Meanwhile, in private")
    town.discord.write("Meanwhile, here", channel=GENERAL, is_addressed=True)
    assert town.wait_for_replies(2)[1:] == ["You said: Meanwhile, in private"]
    assert town.wait_for_replies(1, GENERAL) == ["You said: Meanwhile, here"]
    assert town.discord.done.count("identify") == 1
    assert "resume" in town.discord.done


def test_what_is_said_between_two_gateways(town: DiscordTown) -> None:
    running = town.start()
    for channel in (None, THREAD):
        town.discord.write("Before", channel=channel, is_addressed=channel is not None)
        town.wait_for_replies(1, channel)
    running.stop()
    # A thread that sleeps is not listed when the bot connects.
    town.discord.state.channels[THREAD]["is_asleep"] = True
    town.discord.write("In private")
    town.discord.write("In the channel", channel=GENERAL, is_addressed=True)
    town.discord.write("In the thread", channel=THREAD, is_addressed=True)
    town.start()
    assert town.wait_for_replies(2)[1:] == ["You said: In private"]
    assert town.wait_for_replies(1, GENERAL) == ["You said: In the channel"]
    assert town.wait_for_replies(2, THREAD)[1:] == ["You said: [Anna] In the thread"]


def test_a_first_private_message_between_two_gateways(town: DiscordTown) -> None:
    town.start().stop()
    town.discord.write("Is anybody there?")
    town.start()
    assert town.wait_for_replies(1) == ["You said: Is anybody there?"]


def test_a_wrong_token_ends_the_start(town: DiscordTown) -> None:
    town.platform["token"] = WRONG_TOKEN
    with pytest.raises(LoginRefused, match="Reset Token"):
        town.start()


def test_a_missing_intent_is_named(town: DiscordTown) -> None:
    town.discord.forbid_intents(MESSAGE_CONTENT)
    with pytest.raises(LoginRefused, match="Message Content Intent"):
        town.start()


def test_a_mention_of_others_stays_as_it_is_written(town: DiscordTown) -> None:
    town.start()
    text = f"<@{BOT['id']}> ask <@{BERT['id']}> in <#{GENERAL}>"
    town.discord.write(text, channel=GENERAL, mentions=[BOT, BERT])
    (reply,) = town.wait_for_replies(1, GENERAL)
    assert reply == f"You said: ask <@{BERT['id']}> in <#{GENERAL}>"
