"""A gateway on Matrix end to end: a real homeserver, a model's protocol, and a real store."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import quote

import pytest

from hermes_sessions.gateway.platforms.matrix.formatting import TEXT_BYTES
from hermes_sessions.gateway.platforms.port import LoginRefused
from hermes_sessions.storage.repositories.outbox import Outbox
from hermes_sessions.storage.repositories.senders import Senders
from hermes_sessions_testing.scripted_model import streamed
from tests.gateway.fleet import GatewayCommand
from tests.gateway.harness import echo, said
from tests.gateway.platforms.crash_restart import gateway
from tests.gateway.platforms.matrix.encrypted_client import EncryptedClient
from tests.gateway.platforms.matrix.faulty_proxy import SEND
from tests.gateway.platforms.matrix.harness import MatrixHarness
from tests.gateway.platforms.matrix.synapse_platform import SynapsePlatform, too_many

NAMESPACE = "default"


@pytest.fixture
def harness(tmp_path: Path, messenger: SynapsePlatform) -> Iterator[MatrixHarness]:
    with MatrixHarness(tmp_path, messenger) as harness:
        yield harness


def escaped(*ids: str) -> str:
    return ":".join(each.replace(":", "%3A") for each in ids)


def test_a_message_is_answered_and_stored(harness: MatrixHarness) -> None:
    running = harness.start()
    harness.matrix.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]
    assert running.stop() is True
    anna = harness.matrix.people["anna"].user_id
    with harness.open_db() as db:
        (session,) = db.list_sessions_rich()
        assert (session["source"], session["user_id"]) == ("matrix", anna)
        assert [row["content"] for row in db.get_messages(session["id"])] == [
            "Hello",
            "You said: Hello",
        ]
    assert harness.keys() == {f"agent:main:matrix:dm:{escaped(harness.matrix.room_id('private'))}"}


def test_rooms_and_threads_are_conversations_of_their_own(harness: MatrixHarness) -> None:
    running = harness.start()
    group = harness.matrix.room_id("group")
    harness.matrix.write("In the group", room="group")
    harness.wait_for_replies(1, group)
    harness.matrix.write("In the thread", room="topic")
    assert harness.wait_for_replies(2, group) == [
        "You said: In the group",
        # A thread is shared by everybody in it.
        "You said: [Anna] In the thread",
    ]
    running.stop()
    anna = harness.matrix.people["anna"].user_id
    assert harness.keys() == {
        f"agent:main:matrix:group:{escaped(group, anna)}",
        f"agent:main:matrix:group:{escaped(group, harness.matrix.thread())}",
    }
    first, second = [
        event["content"]["m.relates_to"]
        for event in harness.matrix.events(group)
        if event["sender"] == harness.matrix.bot.user_id and event["type"] == "m.room.message"
    ]
    assert set(first) == {"m.in_reply_to"}
    assert (second["rel_type"], second["event_id"]) == ("m.thread", harness.matrix.thread())


def test_an_invitation_is_enough_to_begin(harness: MatrixHarness) -> None:
    harness.start()
    room_id = harness.matrix.invite(by="anna", is_direct=True)
    harness.matrix.say(room_id, {"msgtype": "m.text", "body": "Hello"})
    assert harness.wait_for_replies(1, room_id) == ["You said: Hello"]


def test_whoever_was_let_in_by_the_owner_may_invite(harness: MatrixHarness) -> None:
    with harness.open_db() as db:
        bert = harness.matrix.people["bert"].user_id
        Senders(db.store, "default").decide("matrix", bert, "allowed")
    harness.start()
    room_id = harness.matrix.invite(by="bert", is_direct=True)
    harness.matrix.say(room_id, {"msgtype": "m.text", "body": "Hello"}, who="bert")
    assert harness.wait_for_replies(1, room_id) == ["You said: Hello"]


def test_a_stranger_is_not_answered_by_the_agent(harness: MatrixHarness) -> None:
    # The bot is there already: it would decline his invitation.
    harness.matrix.room_id("private", "bert")
    harness.start()
    harness.matrix.write("Let me in", sender="bert")
    (reply,) = harness.wait_for_replies(1, harness.matrix.room_id("private", "bert"))
    assert "hermes gateway pair" in reply
    assert harness.model.requests == []


def test_duplicates_and_what_comes_late_are_answered_once(harness: MatrixHarness) -> None:
    harness.start()
    gate = harness.model.gate()
    harness.model.respond = lambda request: (
        streamed(gate, "Done.") if said(request) == "Once, please" else echo(request)
    )
    first = harness.matrix.write("Once, please")
    gate.wait_until_reached()
    harness.matrix.wait_until(lambda: harness.matrix.is_confirmed(first))
    before = len(harness.matrix.proxy.synced)
    harness.matrix.deliver_again(first)
    harness.matrix.wait_until(
        lambda: any(first in each.event_ids for each in harness.matrix.proxy.synced[before:])
    )
    harness.matrix.write("/queue And then?")
    harness.matrix.wait_until(lambda: not harness.matrix.has_unconfirmed())
    gate.open()
    harness.matrix.wait_until(lambda: "You said: And then?" in harness.replies())
    answers = [text for text in harness.replies() if text in {"Done.", "You said: And then?"}]
    assert answers == ["Done.", "You said: And then?"]


def test_what_cannot_be_read_stops_nothing(harness: MatrixHarness) -> None:
    harness.start()
    harness.matrix.deliver_unreadable()
    harness.matrix.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]


def test_long_replies_are_split(harness: MatrixHarness) -> None:
    code = "\n".join(f"line_{number} = 1" for number in range(2000))
    harness.model.respond = lambda _request: streamed(f"Look:\n\n```python\n{code}\n```")
    harness.start()
    harness.matrix.write("Much")
    harness.matrix.wait_until(lambda: any("line_1999 " in text for text in harness.replies()))
    room_id = harness.matrix.room_id("private")
    sent = [
        event["content"]
        for event in harness.matrix.events(room_id)
        if event["sender"] == harness.matrix.bot.user_id and event["type"] == "m.room.message"
    ]
    assert len(sent) > 2
    for content in sent:
        assert len(content["body"].encode()) <= TEXT_BYTES
        assert content["body"].count("```") == 2
        assert content["formatted_body"].count("<pre>") == 1


def test_a_reply_grows_while_it_is_written(harness: MatrixHarness) -> None:
    harness.config["streaming"] = {"enabled": True, "buffer_threshold": 1, "edit_interval": 0.1}
    gate = harness.model.gate()
    harness.model.respond = lambda _request: streamed("The beginning", gate, " and the **end**")
    harness.start()
    harness.matrix.write("Slowly")
    harness.matrix.wait_until(
        lambda: any(text.startswith("The beginning") for text in harness.replies())
    )
    gate.open()
    harness.matrix.wait_until(lambda: harness.replies() == ["The beginning and the end"])


def test_a_limited_reply_is_sent_when_it_may_be(harness: MatrixHarness) -> None:
    harness.start()
    harness.matrix.proxy.fail(SEND, too_many(0))
    harness.matrix.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]


def test_a_reply_to_a_room_that_is_closed_is_kept_with_the_reason(harness: MatrixHarness) -> None:
    running = harness.start()
    gate = harness.model.gate()
    harness.model.respond = lambda _request: streamed(gate, "Too late.")
    harness.matrix.write("Hello")
    gate.wait_until_reached()
    harness.matrix.block(harness.matrix.room_id("private"))
    gate.open()
    with harness.open_db() as db:
        outbox = Outbox(db.store, NAMESPACE)
        harness.matrix.wait_until(lambda: list(outbox.list(["dead"])))
        (dead,) = outbox.list(["dead"])
    assert (dead.text, "M_FORBIDDEN" in (dead.error or "")) == ("Too late.", True)
    running.stop()


def test_what_is_written_while_the_gateway_is_away(harness: MatrixHarness) -> None:
    harness.matrix.room_id("private")
    harness.start().stop()
    harness.matrix.write("Are you there?")
    harness.start()
    assert harness.wait_for_replies(1) == ["You said: Are you there?"]


def test_an_encrypted_room_across_a_restart(harness: MatrixHarness) -> None:
    """In another process: matrix-nio keeps one store of keys at a time per process."""
    account = harness.matrix.synapse.register("carla")
    harness.platform["allowed_users"] = [account.user_id]
    harness.write_config()
    bot = harness.matrix.bot.user_id

    def started(stack: AsyncExitStack) -> GatewayCommand:
        return stack.enter_context(gateway(harness, "matrix"))

    async def main() -> None:
        async with (
            EncryptedClient(harness.matrix.synapse, account) as friend,
            AsyncExitStack() as stack,
        ):
            running = await asyncio.to_thread(started, stack)
            room_id = await friend.make_room(bot)
            await friend.wait_for_member(room_id, bot)
            await friend.say(room_id, "A secret")
            assert await friend.hear(1) == [(bot, "You said: A secret")]
            running.signal(signal.SIGTERM)
            await asyncio.to_thread(running.wait)
            await friend.say(room_id, "Another")
            await asyncio.to_thread(started, stack)
            assert await friend.hear(2) == [
                (bot, "You said: A secret"),
                (bot, "You said: Another"),
            ]

    asyncio.run(main())


def test_the_home_channel_is_a_room(harness: MatrixHarness) -> None:
    """Where a conversation is handed to from elsewhere."""
    room_id = harness.matrix.room_id("private")
    harness.platform["home_channel"] = {"chat_id": room_id, "name": "Anna"}
    with harness.open_db() as db:
        db.create_session("s1", "cli")
        db.append_message("s1", "user", "We spoke at the desk")
        assert db.request_handoff("s1", "matrix")
    running = harness.start()
    assert running.gateway is not None
    running.gateway.beat_now()
    (told,) = harness.wait_for_replies(1)
    assert told.startswith("Continuing here")
    harness.matrix.write("Where were we?")
    assert harness.wait_for_replies(2)[1].endswith("We spoke at the desk\n\nWhere were we?")


def test_a_wrong_password_ends_the_start(harness: MatrixHarness) -> None:
    harness.platform["password"] = "wrong"
    with pytest.raises(LoginRefused, match="matrix"):
        harness.start()


def test_a_room_that_was_left_stops_nothing(harness: MatrixHarness) -> None:
    harness.start()
    harness.matrix.write("Hello")
    harness.wait_for_replies(1)
    room_id = harness.matrix.room_id("private")
    harness.matrix.spoil(room_id)
    body = {"user_id": harness.matrix.bot.user_id}
    harness.matrix.ask("POST", f"/rooms/{quote(room_id)}/kick", body)
    other = harness.matrix.invite(by="anna")
    harness.matrix.say(other, {"msgtype": "m.text", "body": "Here, then"})
    assert harness.wait_for_replies(1, other) == ["You said: Here, then"]
