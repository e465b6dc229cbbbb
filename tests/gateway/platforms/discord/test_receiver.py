"""Lost connections, and messages that were missed meanwhile."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.gateway.platforms.discord.adapter import DiscordAdapter
from hermes_sessions.gateway.platforms.discord.client import RestClient
from hermes_sessions.gateway.platforms.discord.identifiers import time_of
from hermes_sessions.gateway.platforms.discord.mapping import InboundReader
from hermes_sessions.gateway.platforms.discord.read_positions import ReadPositions
from hermes_sessions.gateway.platforms.discord.receiver import Receiver
from hermes_sessions.gateway.platforms.port import LoginRefused, Unreachable
from hermes_sessions_testing.fake_servers.discord.server import (
    ANNA,
    BERT,
    BOT,
    BOT_ROLE,
    GENERAL,
    GUILD,
    MEMBERS,
    PUMPS,
    THREAD,
    Refusal,
    missing_access,
    too_many,
)
from hermes_sessions_testing.platforms import RecordingServices
from tests.gateway.platforms.discord.fake_discord import FakeDiscord, at_once
from tests.gateway.platforms.discord.harness import AdapterHarness, run_adapter


async def heard(harness: AdapterHarness, text: str = "Hello") -> None:
    """Let Anna write in private, and wait until it is taken."""
    before = len(harness.services.accepted)
    harness.server.write(text)
    await harness.services.wait_for(lambda: len(harness.services.accepted) > before)


async def receiver_for(services: RecordingServices, client: RestClient, **options: Any) -> Receiver:
    """A receiver without a connection."""
    marks = ReadPositions(services, BOT["id"], hours=24, clock=time.time)
    await marks.load()
    return Receiver(
        services,
        client,
        InboundReader(BOT["id"]),
        marks,
        needs_roles=False,
        catches_up=True,
        sleep=at_once,
        **options,
    )


# ── connections ───────────────────────────────────────────────────────────────────────────────


def test_a_session_is_resumed(messenger: FakeDiscord) -> None:
    async def act(harness: AdapterHarness) -> None:
        await heard(harness)
        harness.server.ask_to_reconnect()
        await harness.until(
            lambda: "resume" in harness.server.done and harness.adapter.is_connected
        )
        await heard(harness, "again")
        harness.server.close_connections(4000)
        harness.server.write("meanwhile")
        assert await harness.services.texts(3) == ["Hello", "again", "meanwhile"]
        assert harness.server.done.count("identify") == 1

    run_adapter(messenger, act)


@pytest.mark.parametrize("end", ["invalidate", "drop"])
def test_a_session_that_is_over_is_followed_by_another(messenger: FakeDiscord, end: str) -> None:
    """And what was said in between is fetched from the history."""

    async def act(harness: AdapterHarness) -> None:
        await heard(harness, "before")
        harness.server.cut("connect", times=2)
        if end == "drop":
            harness.server.drop(forget=True)
        else:
            harness.server.invalidate()
        await harness.until(lambda: not harness.adapter.is_connected)
        harness.server.write("in private")
        harness.server.write("in the channel", channel=GENERAL, is_addressed=True)
        harness.server.write("in the thread", channel=THREAD, is_addressed=True)
        await harness.services.wait_for(lambda: len(harness.services.accepted) >= 4)
        texts = [inbound.text for inbound in harness.services.accepted]
        assert sorted(texts) == ["before", "in private", "in the channel", "in the thread"]
        assert harness.server.done.count("identify") == 2
        thread = harness.services.accepted[texts.index("in the thread")].source
        assert (thread.chat_id, thread.thread_id, thread.guild_id) == (GENERAL, THREAD, GUILD)

    run_adapter(messenger, act)


def test_pauses_grow(messenger: FakeDiscord) -> None:
    """And beginning anew is done at most every five seconds, as Discord demands."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    async def main() -> None:
        services = RecordingServices(messenger.states)
        adapter = DiscordAdapter(messenger.settings(), sleep=sleep)
        await adapter.connect(services)
        messenger.server.cut("connect", times=12)
        messenger.server.drop()
        await asyncio.to_thread(messenger.server.wait_for, lambda: not adapter.is_connected)
        await asyncio.to_thread(messenger.server.wait_for, lambda: adapter.is_connected)
        await adapter.disconnect()

    asyncio.run(main())
    # Resumed at once, then with pauses; after three of those, another session is begun.
    growing = [pause for pause in pauses if pause != 5]
    assert len(growing) > 4
    assert growing == [0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60][: len(growing)]
    assert 5 in pauses
    assert messenger.server.done.count("identify") == 2
    assert "resume" not in messenger.server.done


def test_nonsense_does_not_cost_the_connection(messenger: FakeDiscord) -> None:
    async def act(harness: AdapterHarness) -> None:
        messenger.deliver_unreadable()
        await heard(harness)
        assert harness.server.done.count("connect") == 1
        assert harness.adapter.unreadable > 10

    run_adapter(messenger, act)


def test_a_token_that_is_taken_back_is_tried_again(messenger: FakeDiscord) -> None:
    async def act(harness: AdapterHarness) -> None:
        await heard(harness)
        token = harness.server.token
        harness.server.token = "another"
        harness.server.drop()
        await harness.until(lambda: harness.server.asked.count(("gateway", "")) > 3)
        assert not harness.adapter.is_connected
        harness.server.token = token
        await harness.until(lambda: harness.adapter.is_connected)
        await heard(harness, "back")

    run_adapter(messenger, act)


@pytest.mark.parametrize(
    ("code", "words"),
    [(4004, "token"), (4014, "Message Content Intent"), (4011, "sharding"), (4012, "discord.py")],
)
def test_what_discord_closes_for_good_is_explained(
    messenger: FakeDiscord, code: int, words: str
) -> None:
    messenger.server.refuse(code)
    with pytest.raises(LoginRefused, match=words):
        asyncio.run(messenger.make_adapter().connect(RecordingServices()))


@pytest.mark.parametrize("what", ["login", "gateway", "connect"])
def test_a_discord_that_is_away(messenger: FakeDiscord, what: str) -> None:
    # A question is asked once more by itself when nobody answered.
    messenger.server.cut(what, times=3)
    adapter = messenger.make_adapter()
    with pytest.raises(Unreachable):
        asyncio.run(adapter.connect(RecordingServices()))
    assert not adapter.is_connected


@pytest.mark.parametrize("what", ["login", "gateway"])
@pytest.mark.parametrize("refusal", [too_many(9), Refusal(503, 0, "Overloaded")], ids=str)
def test_a_discord_that_is_busy(messenger: FakeDiscord, what: str, refusal: Refusal) -> None:
    messenger.server.fail(what, refusal)
    with pytest.raises(Unreachable):
        asyncio.run(messenger.make_adapter().connect(RecordingServices()))


def test_a_session_that_is_refused_for_now(messenger: FakeDiscord) -> None:
    messenger.server.refuse(4009)
    with pytest.raises(Unreachable):
        asyncio.run(messenger.make_adapter().connect(RecordingServices()))


def test_a_store_that_is_away_at_the_start(messenger: FakeDiscord) -> None:
    class Away(RecordingServices):
        async def load_state(self, name: str) -> str | None:
            raise StoreUnavailable("no")

    with pytest.raises(Unreachable, match="read positions"):
        asyncio.run(messenger.make_adapter().connect(Away()))


# ── catching up ───────────────────────────────────────────────────────────────────────────────


def test_a_long_gap_is_read_page_by_page_and_in_order(messenger: FakeDiscord) -> None:
    run_adapter(messenger, heard)
    written = [f"message {number}" for number in range(230)]
    for text in written:
        messenger.server.write(text)

    async def act(harness: AdapterHarness) -> None:
        assert await harness.services.texts(230) == written
        assert harness.server.asked.count(("history", harness.private.chat_id)) == 3

    run_adapter(messenger, act)


def test_what_was_read_is_not_asked_for_again(messenger: FakeDiscord) -> None:
    async def act(harness: AdapterHarness) -> None:
        await heard(harness)
        harness.server.write("not for you", channel=GENERAL)
        await heard(harness, "still there?")

    run_adapter(messenger, act)
    before = len(messenger.server.asked)

    async def again(harness: AdapterHarness) -> None:
        await heard(harness, "last")
        assert await harness.services.texts(1) == ["last"]

    run_adapter(messenger, again)
    histories = [channel for what, channel in messenger.server.asked[before:] if what == "history"]
    assert histories == [messenger.server.state.direct_channel(ANNA)]


def test_nothing_is_answered_that_was_said_before_the_first_start(messenger: FakeDiscord) -> None:
    later = time.time() + 3600
    messenger.server.write("long ago", channel=GENERAL, is_addressed=True)
    messenger.states[f"discord:{BOT['id']}:rooms"] = "nonsense"

    async def main() -> None:
        adapter = DiscordAdapter(messenger.settings(), sleep=at_once, clock=lambda: later)
        services = RecordingServices(messenger.states)
        await adapter.connect(services)
        messenger.server.write("now")
        assert await services.texts(1) == ["now"]
        await adapter.disconnect()

    asyncio.run(main())


def test_nothing_is_answered_that_was_said_before_the_bot_was_invited(
    messenger: FakeDiscord,
) -> None:
    run_adapter(messenger, heard)
    before = messenger.server.write("among ourselves", channel=GENERAL)
    joined = datetime.fromtimestamp(time_of(int(before)) + 0.01, UTC)
    messenger.server.state.joined_at = joined.isoformat()

    async def act(harness: AdapterHarness) -> None:
        # What is told of the server later does not say when the bot came to it.
        harness.server.tell("GUILD_UPDATE", {"id": GUILD, "name": "Crew", "roles": []})
        harness.server.tell("GUILD_CREATE", {"id": GUILD, "name": "Crew", "joined_at": 5})
        harness.server.write("to all", channel=GENERAL)
        assert await harness.services.texts(1) == ["to all"]

    run_adapter(messenger, act, require_mention=False)


def test_a_first_private_message_while_nobody_listened(messenger: FakeDiscord) -> None:
    """Discord lists no private channels; that of somebody can be asked for by their id."""
    stranger = "7000000000000000009"
    people = [stranger, ANNA["id"], BERT["id"]]

    async def act(harness: AdapterHarness) -> None:
        await harness.until(lambda: ("private", "") in harness.server.asked)

    run_adapter(messenger, act, people=people)
    messenger.server.write("Is anybody there?", user=BERT)
    messenger.server.write("Hello?", user=ANNA)

    async def again(harness: AdapterHarness) -> None:
        assert sorted(await harness.services.texts(2)) == ["Hello?", "Is anybody there?"]

    run_adapter(messenger, again, people=people)


def test_a_private_chat_that_cannot_be_asked_for_is_found_the_next_time(
    messenger: FakeDiscord,
) -> None:
    run_adapter(messenger, heard)
    messenger.server.write("Is anybody there?", user=BERT)
    messenger.server.fail("private", too_many(5))

    async def limited(harness: AdapterHarness) -> None:
        await heard(harness, "go on")
        assert await harness.services.texts(1) == ["go on"]

    run_adapter(messenger, limited, people=[BERT["id"]])

    async def again(harness: AdapterHarness) -> None:
        assert await harness.services.texts(1) == ["Is anybody there?"]

    run_adapter(messenger, again, people=[BERT["id"]])


@pytest.mark.parametrize(("hours", "expected"), [(1, ["now"]), (0, ["now"]), (3, ["gap", "now"])])
def test_how_far_back_is_a_setting(messenger: FakeDiscord, hours: int, expected: list[str]) -> None:
    run_adapter(messenger, heard)
    messenger.server.write("gap")
    later = time.time() + 2 * 3600

    async def main() -> None:
        settings = messenger.settings(catch_up_hours=hours)
        adapter = DiscordAdapter(settings, sleep=at_once, clock=lambda: later)
        services = RecordingServices(messenger.states)
        await adapter.connect(services)
        messenger.server.write("now")
        assert await services.texts(len(expected)) == expected
        await adapter.disconnect()

    asyncio.run(main())


def test_channels_without_a_history_do_not_hinder_others(messenger: FakeDiscord) -> None:
    run_adapter(messenger, heard)
    messenger.server.write("hidden", channel=GENERAL, is_addressed=True)
    messenger.server.write("seen", channel=PUMPS, is_addressed=True)
    messenger.server.write("in private")
    messenger.server.fail("history", missing_access())  # the private chat

    async def act(harness: AdapterHarness) -> None:
        harness.server.state.channels[GENERAL]["is_hidden"] = True
        assert await harness.services.texts(1) == ["seen"]

    run_adapter(messenger, act)


def test_only_places_with_something_new_are_asked_for(messenger: FakeDiscord) -> None:
    """Of a forum, the last message is the last thread; it has no history."""
    run_adapter(messenger, heard)
    for _ in range(3):
        messenger.server.state.add_channel(name="quiet", last_message_id="5")
    forum = messenger.server.state.add_channel(
        name="forum", type=15, last_message_id=messenger.server.state.next_id()
    )
    post = messenger.server.state.add_channel(name="A post", type=11, parent_id=forum)
    messenger.server.write("in a post", channel=post, is_addressed=True)
    before = len(messenger.server.asked)

    async def act(harness: AdapterHarness) -> None:
        assert await harness.services.texts(1) == ["in a post"]
        assert harness.services.accepted[0].source.chat_name == "Team / #forum / A post"

    run_adapter(messenger, act)
    histories = [channel for what, channel in messenger.server.asked[before:] if what == "history"]
    assert histories == [messenger.server.state.direct_channel(ANNA), post]


def test_what_cannot_be_read_in_a_way_nobody_foresaw_costs_no_other_message(
    messenger: FakeDiscord, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_adapter(messenger, heard)
    for text in ("poison", "after it"):
        messenger.server.write(text)
    works = InboundReader.read

    def read(reader: InboundReader, message: Any, *others: Any) -> Any:
        return 1 / 0 if message.data["content"] == "poison" else works(reader, message, *others)

    monkeypatch.setattr(InboundReader, "read", read)

    async def act(harness: AdapterHarness) -> None:
        assert await harness.services.texts(1) == ["after it"]
        assert harness.adapter.unreadable == 1

    run_adapter(messenger, act)


def test_a_history_is_asked_for_until_it_comes(messenger: FakeDiscord) -> None:
    run_adapter(messenger, heard)
    messenger.server.write("gap")
    messenger.server.fail("history", too_many(5), Refusal(503, 0, "Overloaded"))
    messenger.server.cut("history", times=2)

    async def act(harness: AdapterHarness) -> None:
        assert await harness.services.texts(1) == ["gap"]

    run_adapter(messenger, act)


def test_disconnecting_while_a_history_does_not_come(messenger: FakeDiscord) -> None:
    run_adapter(messenger, heard)
    messenger.server.write("gap")
    messenger.server.fail("history", *[Refusal(503, 0, "Overloaded")] * 1000)

    async def act(harness: AdapterHarness) -> None:
        await harness.until(lambda: any(what == "history" for what, _ in harness.server.asked))

    run_adapter(messenger, act)


def test_what_is_told_and_fetched_is_taken_once(messenger: FakeDiscord) -> None:
    run_adapter(messenger, heard)

    async def main() -> None:
        services = RecordingServices(messenger.states)
        client = RestClient(messenger.settings())
        await client.login()
        receiver = await receiver_for(services, client)
        messenger.server.write("both")
        private = messenger.server.state.direct_channel(ANNA)
        handlers = receiver.handlers()
        handlers["READY"]({})
        handlers["MESSAGE_CREATE"](messenger.server.state.messages[private][-1])
        messenger.server.write("told")
        handlers["MESSAGE_CREATE"](messenger.server.state.messages[private][-1])
        messenger.server.state.messages[private].pop()
        running = asyncio.create_task(receiver.run())
        assert await services.texts(2) == ["both", "told"]
        receiver.end()
        await running
        await client.close()

    asyncio.run(main())


def test_a_message_that_comes_late_does_not_turn_back_the_mark(messenger: FakeDiscord) -> None:
    async def act(harness: AdapterHarness) -> None:
        first = messenger.write("first")
        second = messenger.write("second")
        await harness.services.texts(2)
        await harness.until(lambda: messenger.is_confirmed(second))
        messenger.deliver_again(first)
        await harness.services.texts(3)

    run_adapter(messenger, act)
    assert not messenger.has_unconfirmed()


def test_more_than_can_wait_is_fetched_later(messenger: FakeDiscord) -> None:
    """Memory is not filled while nothing can be stored: the history keeps it, in order."""

    async def main() -> None:
        services = RecordingServices(messenger.states)
        client = RestClient(messenger.settings())
        await client.login()
        receiver = await receiver_for(services, client, most_waiting=2)
        state = messenger.server.state
        handlers = receiver.handlers()
        channels = (GENERAL, state.direct_channel(ANNA), state.direct_channel(BERT))

        def hear(number: int) -> None:
            for channel in channels:
                user = BERT if channel == channels[2] else ANNA
                is_addressed = channel == GENERAL
                messenger.server.write(
                    str(number), user=user, channel=channel, is_addressed=is_addressed
                )
                handlers["MESSAGE_CREATE"](state.told(state.messages[channel][-1]))

        handlers["GUILD_CREATE"](state.guild())
        gate = services.hold()
        hear(0)
        running = asyncio.create_task(receiver.run())
        await services.wait_for(lambda: services.offered)
        for number in range(1, 4):
            # There is room again, but what was left out comes first.
            hear(number)
        handlers["MESSAGE_CREATE"]("nonsense")
        gate.set()
        await services.wait_for(lambda: len(services.accepted) >= 12)
        hear(4)
        await services.wait_for(lambda: len(services.accepted) >= 15)
        receiver.end()
        await running
        for channel in channels:
            found = [each for each in services.accepted if each.source.chat_id == channel]
            assert [each.text for each in found] == ["0", "1", "2", "3", "4"]
        await client.close()

    asyncio.run(main())


def test_what_has_arrived_is_stored_at_the_end(messenger: FakeDiscord) -> None:
    """Not every history can be read."""

    async def main() -> None:
        services = RecordingServices(messenger.states)
        gate = services.hold()
        client = RestClient(messenger.settings())
        await client.login()
        receiver = await receiver_for(services, client)
        hear = receiver.handlers()["MESSAGE_CREATE"]
        running = asyncio.create_task(receiver.run())
        state = messenger.server.state
        for user in (ANNA, BERT):
            channel = state.direct_channel(user)
            messenger.server.write(user["username"], user=user, channel=channel)
            hear(state.told(state.messages[channel][-1]))
            await services.wait_for(lambda: services.offered)
        receiver.end()
        gate.set()
        await running
        assert [each.text for each in services.accepted] == ["anna", "bert"]
        await client.close()

    asyncio.run(main())


def test_private_chats_that_wait_at_the_end_are_read_the_next_time(messenger: FakeDiscord) -> None:
    """Also those of people who never wrote before: Discord does not list them to bots."""
    carl = {"id": "7000000000000000004", "username": "carl"}
    state = messenger.server.state

    async def main() -> None:
        services = RecordingServices(messenger.states)
        services.keep_failing_with(Unreachable("no"))
        gate = services.hold()
        client = RestClient(messenger.settings())
        await client.login()
        receiver = await receiver_for(services, client, most_waiting=2)
        hear = receiver.handlers()["MESSAGE_CREATE"]
        running = asyncio.create_task(receiver.run())
        # The first is being stored, the next two wait, and there is no room for the last.
        for user in (ANNA, BERT, "nonsense", carl):
            if isinstance(user, str):
                hear(user)
                continue
            channel = state.direct_channel(user)
            messenger.server.write(user["username"], user=user, channel=channel)
            hear(state.told(state.messages[channel][-1]))
            await services.wait_for(lambda: services.offered)
        receiver.end()
        gate.set()
        await running
        await client.close()

    asyncio.run(main())

    async def act(harness: AdapterHarness) -> None:
        assert sorted(await harness.services.texts(3)) == ["anna", "bert", "carl"]

    run_adapter(messenger, act)


def test_what_cannot_be_marked_is_seen_once_more(messenger: FakeDiscord) -> None:
    class Forgetful(RecordingServices):
        async def save_state(self, name: str, value: str) -> None:
            if ":read:" in name:
                raise StoreUnavailable("no")
            await super().save_state(name, value)

    run_adapter(messenger, heard, Forgetful(messenger.states))

    async def again(harness: AdapterHarness) -> None:
        assert await harness.services.texts(1) == ["Hello"]

    run_adapter(messenger, again)


# ── what is known of places and people ────────────────────────────────────────────────────────


def test_a_thread_that_discord_did_not_tell_of(messenger: FakeDiscord) -> None:
    async def act(harness: AdapterHarness) -> None:
        thread = harness.server.state.add_channel(name="new", type=11, parent_id=PUMPS)
        harness.server.write("here", channel=thread, is_addressed=True)
        await harness.services.texts(1)
        source = harness.services.accepted[0].source
        assert (source.chat_id, source.thread_id, source.parent_chat_id) == (PUMPS, thread, PUMPS)
        assert source.chat_name == "Team / #pumps / new"
        # A channel that cannot be seen is one of its own.
        harness.server.fail("channel", missing_access())
        other = harness.server.state.add_channel(name="secret")
        harness.server.write("and here", channel=other, is_addressed=True)
        await harness.services.texts(2)
        assert harness.services.accepted[1].source.chat_id == other

    run_adapter(messenger, act)


def test_names_follow_what_discord_tells(messenger: FakeDiscord) -> None:
    async def act(harness: AdapterHarness) -> None:
        channel = dict(harness.server.state.channels[GENERAL]) | {"name": "renamed", "topic": "New"}
        harness.server.tell("CHANNEL_UPDATE", channel)
        harness.server.tell("GUILD_UPDATE", {"id": GUILD, "name": "Crew", "roles": []})
        harness.server.write("here", channel=GENERAL, is_addressed=True)
        await harness.services.texts(1)
        source = harness.services.accepted[0].source
        assert (source.chat_name, source.chat_topic) == ("Crew / #renamed", "New")

    run_adapter(messenger, act)


def test_roles_come_with_messages(messenger: FakeDiscord) -> None:
    messenger.server.state.members[GUILD, BERT["id"]] = [MEMBERS]

    async def act(harness: AdapterHarness) -> None:
        harness.server.write("live", user=BERT, channel=GENERAL, is_addressed=True)
        await harness.services.texts(1)
        assert harness.services.accepted[0].roles == (GUILD, MEMBERS)

    run_adapter(messenger, act, needs_roles=True)
    messenger.server.write("gap", user=BERT, channel=GENERAL, is_addressed=True)
    stranger = {"id": "7000000000000000009", "username": "gone"}
    messenger.server.write("left", user=stranger, channel=GENERAL, is_addressed=True)

    async def again(harness: AdapterHarness) -> None:
        await harness.services.texts(2)
        assert [each.roles for each in harness.services.accepted] == [(GUILD, MEMBERS), (GUILD,)]

    run_adapter(messenger, again, needs_roles=True)
    assert [what for what, _ in messenger.server.asked].count("member") == 2


def test_the_role_of_the_bot_stands_for_the_bot(messenger: FakeDiscord) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.write("@members look", channel=GENERAL, mention_roles=[MEMBERS])
        text = f"<@&{BOT_ROLE}> look"
        harness.server.write(text, channel=GENERAL, mention_roles=[BOT_ROLE])
        assert await harness.services.texts(1) == [text]

    run_adapter(messenger, act)


def test_what_kind_a_channel_is_is_not_guessed_before_discord_has_told(
    messenger: FakeDiscord,
) -> None:
    async def main() -> None:
        receiver = await receiver_for(
            RecordingServices(messenger.states), RestClient(messenger.settings())
        )
        tell = receiver.handlers()
        private = messenger.server.state.direct_channel(ANNA)
        tell["READY"]({"guilds": [{"id": GUILD, "unavailable": True}]})
        assert [receiver.is_on_a_server(each) for each in (GENERAL, private)] == [None, None]
        tell["GUILD_CREATE"]({"id": GUILD, "unavailable": True})
        assert receiver.is_on_a_server(GENERAL) is None, "it has an outage"
        tell["GUILD_CREATE"](messenger.server.state.guild())
        assert [receiver.is_on_a_server(each) for each in (GENERAL, private)] == [True, False]
        tell["READY"]({"guilds": [{"id": GUILD, "unavailable": True}]})
        assert [receiver.is_on_a_server(each) for each in (GENERAL, private)] == [True, False]
        tell["GUILD_DELETE"]({"id": GUILD})
        assert receiver.is_on_a_server(GENERAL) is False

    asyncio.run(main())
