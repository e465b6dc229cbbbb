"""Who and where: names of people and channels, and threads that the bot is in."""

from typing import Any

import pytest

from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.gateway.events import Receipt, Target
from hermes_sessions.gateway.platforms.slack.threads import FollowedThreads, quoted
from hermes_sessions_testing.fake_servers.slack.workspace import (
    ANNA,
    BERT,
    BOT_USER_ID,
    GENERAL,
    GROUP,
    missing_scope,
    too_many,
)
from tests.gateway.platforms.slack.fake_slack import THREAD, FakeSlack
from tests.gateway.platforms.slack.harness import AdapterHarness, run_adapter

# ── names ─────────────────────────────────────────────────────────────────────────────────────


def test_people_and_places_have_names(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.write("Hello")
        for _ in range(3):
            harness.server.write("Hello", place=GENERAL, is_mention=True)
        await harness.hear(4)
        private, channel = harness.services.accepted[0].source, harness.services.accepted[1].source
        assert (private.user_name, private.chat_name) == ("Anna", "Anna")
        assert (channel.user_name, channel.chat_name) == ("Anna", "general")
        assert channel.chat_topic == "For everybody"
        asked = [call.method for call in harness.server.api.calls]
        assert (asked.count("users.info"), asked.count("conversations.info")) == (1, 1)

    run_adapter(messenger, act)


def test_without_names_messages_come_all_the_same(messenger: FakeSlack) -> None:
    messenger.server.api.refuse("users.info", missing_scope("users:read"))
    messenger.server.api.refuse("conversations.info", too_many(3600))

    async def act(harness: AdapterHarness) -> None:
        for _ in range(3):
            harness.server.write("Hello", place=GENERAL, is_mention=True)
        await harness.hear(3)
        source = harness.services.accepted[0].source
        assert (source.user_id, source.user_name, source.chat_name) == (ANNA.id, None, None)
        asked = [call.method for call in harness.server.api.calls]
        assert asked.count("users.info") == 1  # nobody insists

    run_adapter(messenger, act)


def test_a_message_does_not_wait_for_names(messenger: FakeSlack) -> None:
    """Slack itself waits three seconds for it to be confirmed."""
    for method in ("users.info", "conversations.info", "conversations.replies"):
        messenger.server.api.hold(method)
    messenger.name_seconds = 0.01

    async def act(harness: AdapterHarness) -> None:
        root = harness.server.write("Hello", place=GENERAL)
        harness.server.write("What?", place=GENERAL, thread_ts=root, is_mention=True)
        assert await harness.hear(1) == ["What?"]
        assert harness.services.accepted[0].source.user_name is None

    run_adapter(messenger, act)


def test_a_mention_in_a_chat_of_several_is_in_the_same_lane(messenger: FakeSlack) -> None:
    """Though a mention does not say that it is one."""
    messenger.server.subscribed = {"message", "app_mention"}

    async def act(harness: AdapterHarness) -> None:
        harness.server.write("Hello", place=GROUP, is_mention=True)
        await harness.hear(2)
        message, mention = harness.services.accepted
        assert message == mention
        assert message.source.chat_type == "group"

    run_adapter(messenger, act)


# ── threads ───────────────────────────────────────────────────────────────────────────────────


def test_a_thread_that_the_bot_is_in_goes_on_without_its_name(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        write = harness.server.write
        write("To nobody", place=GENERAL, thread_ts=THREAD)
        write("To the bot", place=GENERAL, thread_ts=THREAD, is_mention=True)
        write("And this", place=GENERAL, thread_ts=THREAD)
        write("Elsewhere", place=GENERAL, thread_ts="1700000000.000200")
        write("In the channel", place=GENERAL)
        assert await harness.hear(2) == ["To the bot", "And this"]

    run_adapter(messenger, act)

    async def after_a_restart(harness: AdapterHarness) -> None:
        harness.server.write("Are you there?", place=GENERAL, thread_ts=THREAD)
        assert await harness.hear(1) == ["Are you there?"]

    run_adapter(messenger, after_a_restart)


def test_an_answer_in_a_thread_of_its_own(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        ts = harness.server.write("Hello", place=GENERAL, is_mention=True)
        harness.server.write("And this", place=GENERAL, thread_ts=ts)
        assert await harness.hear(2) == ["Hello", "And this"]
        assert {each.source.thread_id for each in harness.services.accepted} == {ts}

    run_adapter(messenger, act, reply_in_thread=True)


def test_a_stranger_does_not_bring_the_bot_into_a_thread(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        async def refuse(_inbound: Any) -> Receipt:
            return Receipt("refused")

        accept, harness.services.accept = harness.services.accept, refuse  # type: ignore[method-assign]
        harness.server.write("Hello", place=GENERAL, thread_ts=THREAD, is_mention=True)
        await harness.until(lambda: not harness.server.waiting)
        harness.services.accept = accept  # type: ignore[method-assign]
        harness.server.write("And this", place=GENERAL, thread_ts=THREAD)
        harness.server.write("In private")
        assert await harness.hear(1) == ["In private"]

    run_adapter(messenger, act)


def test_threads_when_the_database_is_away(messenger: FakeSlack) -> None:
    """What is said there waits, rather than being overlooked; what is known is known."""

    async def act(harness: AdapterHarness) -> None:
        services = harness.services
        load, failures = services.load_state, 2

        async def fail(name: str) -> str | None:
            nonlocal failures
            if failures:
                failures -= 1
                raise StoreUnavailable("away")
            return await load(name)

        services.load_state = fail  # type: ignore[method-assign]
        harness.server.write("Hello", place=GENERAL, thread_ts=THREAD, is_mention=True)
        harness.server.write("And this", place=GENERAL, thread_ts=THREAD)
        assert await harness.hear(2) == ["Hello", "And this"]
        assert failures == 0
        failures = 2
        harness.server.write("Elsewhere", place=GROUP, thread_ts="1700000000.000200")
        await harness.until(lambda: not harness.server.waiting)
        assert failures == 0
        # What was kept here alone is stored with the next.
        harness.server.write("x", place=GENERAL, thread_ts="1700000000.000300", is_mention=True)
        await harness.hear(3)
        (stored,) = messenger.states.values()
        assert stored.split() == [THREAD, "1700000000.000300"]

    run_adapter(messenger, act)


def test_as_many_threads_as_there_are(messenger: FakeSlack) -> None:
    """The newest are remembered."""

    async def act(harness: AdapterHarness) -> None:
        threads = FollowedThreads(harness.services, "T1")
        for number in range(250):
            await threads.follow("C1", f"{number}.0")
        await threads.follow("C1", "200.0")
        assert not await threads.is_followed("C1", "49.0")
        assert await threads.is_followed("C1", "50.0")
        assert await FollowedThreads(harness.services, "T1").is_followed("C1", "249.0")
        assert not await FollowedThreads(harness.services, "T2").is_followed("C1", "249.0")

    run_adapter(messenger, act)


def test_what_was_said_before_the_bot_came_into_a_thread(messenger: FakeSlack) -> None:
    """Is told once; a command, and a thread that the message itself opens, need it not."""

    async def act(harness: AdapterHarness) -> None:
        write = harness.server.write
        root = write("Who knows a < b?", place=GENERAL)
        write("Two\nlines", place=GENERAL, thread_ts=root, person=BERT)
        write("/status", place=GENERAL, thread_ts=root, is_mention=True)
        write("You do!", place=GENERAL, thread_ts=root, is_mention=True)
        other = write("Another", place=GENERAL)
        write("What?", place=GENERAL, thread_ts=other, is_mention=True)
        write("And this?", place=GENERAL, thread_ts=other)
        assert await harness.hear(4) == [
            "/status",
            "You do!",  # the command brought it into the thread
            f"[Earlier in this thread]\n> <@{ANNA.id}>: Another\n\nWhat?",
            "And this?",
        ]

    run_adapter(messenger, act)


def test_who_is_not_heard_has_nothing_asked_for_them(messenger: FakeSlack) -> None:
    """Else anybody in a channel could use up what the workspace allows the app to ask."""

    async def act(harness: AdapterHarness) -> None:
        harness.services.known = {ANNA.id}
        for person in (BERT, ANNA):
            root = harness.server.write("Hello", place=GENERAL)
            harness.server.write(
                "What?", place=GENERAL, thread_ts=root, is_mention=True, person=person
            )
        berts, annas = await harness.hear(2)
        assert berts == "What?"
        assert annas.startswith("[Earlier in this thread]")
        calls = [call.method for call in harness.server.api.calls]
        assert calls.count("conversations.replies") == 1

    run_adapter(messenger, act)


def test_an_answer_of_the_bot_that_is_answered_in_a_thread(messenger: FakeSlack) -> None:
    """In private, too: the thread is a conversation of its own."""

    async def act(harness: AdapterHarness) -> None:
        ts = await harness.adapter.send(Target("slack", ANNA.chat), "It is **42**", key="k")
        harness.server.write("Really?", thread_ts=ts, parent_user_id=BOT_USER_ID)
        harness.server.write("Sure?", thread_ts=ts, parent_user_id=BOT_USER_ID)
        first = "[Earlier in this thread]\n> You: It is *42*\n\nReally?"
        assert await harness.hear(2) == [first, "Sure?"]

    run_adapter(messenger, act)


def test_a_thread_that_slack_does_not_tell_of(messenger: FakeSlack) -> None:
    messenger.server.api.refuse("conversations.replies", missing_scope("channels:history"))

    async def act(harness: AdapterHarness) -> None:
        root = harness.server.write("Hello", place=GENERAL)
        harness.server.write("What?", place=GENERAL, thread_ts=root, is_mention=True)
        assert await harness.hear(1) == ["What?"]

    run_adapter(messenger, act)


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], ""),
        ([None, 5, {}, {"ts": "1.0"}, {"ts": "1.0", "text": 5}, {"ts": 1, "text": "x"}], ""),
        ([{"ts": "9.0", "text": "later"}], ""),
        ([{"ts": "1.0", "text": "x", "username": "Git\nHub"}], "> Git Hub: x"),
        ([{"ts": "1.0", "text": "&lt;x&gt;"}], "> an app: <x>"),
        ([{"ts": "1.0", "text": "x" * 2000, "user": "U1"}], "> <@U1>: " + "x" * 1000 + "…"),
    ],
)
def test_what_is_quoted_of_a_thread(messages: list[object], words: str) -> None:
    expected = f"[Earlier in this thread]\n{words}" if words else ""
    assert quoted(messages, before="5.0", user_id="U0BOT") == expected


def test_of_a_long_thread_the_latest_is_quoted() -> None:
    messages = [{"ts": f"1.{n:03}", "text": f"{n} {'x' * 900}", "user": "U1"} for n in range(100)]
    text = quoted(messages, before="2.0", user_id="U0BOT")
    assert len(text) < 6100
    assert [line.split()[2] for line in text.splitlines()[1:]] == [str(n) for n in range(94, 100)]
