"""Replies arrive, or the gateway hears why not."""

from __future__ import annotations

import pytest

from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.platforms.port import (
    Limits,
    RateLimited,
    Undeliverable,
    Unreachable,
)
from hermes_sessions.gateway.platforms.text_splitter import find_fences, measure, split
from hermes_sessions_testing.platforms.harness import (
    AdapterHarness,
    PlatformWorld,
    Room,
    answer_to,
    run_connected,
)

#: Markdown that is wrong, unfinished, or full of what platforms give a meaning to.
HOSTILE = (
    "**unfinished",
    "*a **b* c**",
    "`unfinished code",
    "```\nunfinished block",
    "[a](b",
    "[x](https://x.org/?a=1&b=<2>)",
    "<b>not a tag</b> & &amp; &lt;",
    "_ * ~ ` > # + - = | { } . ! \\ ( ) [ ]",
    "> > > quoted",
    "# ",
    "|a|b|\n|-|-|",
    "\ud83d half a character",
    "NUL \0 here",
    "```\n\n```",
    "@everyone @here <!channel> <@1>",
)


def _filled(limits: Limits, piece: str) -> str:
    return piece * (limits.text // measure(piece, limits.length_unit))


class TestSending:
    """What the agent says is shown where it was asked."""

    @pytest.mark.parametrize("room", ["private", "group", "topic"])
    def test_a_reply_is_shown_where_it_belongs(self, world: PlatformWorld, room: Room) -> None:
        """In the chat and the topic of the message."""
        if room not in world.rooms:
            pytest.skip(f"the platform has no {room}")

        async def steps(harness: AdapterHarness) -> None:
            inbound = await harness.hear(room=room)
            message_id = await harness.adapter.send(answer_to(inbound), "Hi there", key="k")
            (shown,) = world.shown()
            assert shown.text == "Hi there"
            assert shown.message_id == message_id
            assert shown.chat_id == inbound.source.chat_id
            assert shown.thread_id == inbound.source.thread_id

        run_connected(world, steps)

    @pytest.mark.parametrize("piece", ["x", "ß", "漢", "😀"])
    def test_a_message_may_be_as_long_as_the_limit_says(
        self, world: PlatformWorld, piece: str
    ) -> None:
        """In the unit in which the platform counts."""

        async def steps(harness: AdapterHarness) -> None:
            target = answer_to(await harness.hear())
            text = _filled(harness.adapter.limits, piece)
            await harness.adapter.send(target, text, key="k")
            assert world.shown()[0].text == text

        run_connected(world, steps)

    def test_a_long_reply_arrives_in_parts(self, world: PlatformWorld) -> None:
        """All of it, in order, with no block of code left open."""

        async def steps(harness: AdapterHarness) -> None:
            target = answer_to(await harness.hear())
            limits = harness.adapter.limits
            lines = [f"line_{number} = '😀'" for number in range(limits.text // 8)]
            text = "Before.\n\n```python\n" + "\n".join(lines) + "\n```\n\nAfter."
            parts = split(text, limits)
            assert len(parts) > 1
            for number, part in enumerate(parts):
                assert all(fence.closing < fence.end for fence in find_fences(part))
                await harness.adapter.send(target, part, key=f"k{number}")
            shown = "\n".join(message.text for message in world.shown())
            words = [word for word in shown.split() if word.startswith("line_")]
            assert words == [line.split()[0] for line in lines]

        run_connected(world, steps)

    def test_no_markup_is_refused(self, world: PlatformWorld) -> None:
        """A reply never fails because of how it is written."""

        async def steps(harness: AdapterHarness) -> None:
            target = answer_to(await harness.hear())
            for number, text in enumerate(HOSTILE, start=1):
                await harness.adapter.send(target, text, key=f"k{number}")
                assert len(world.shown()) == number

        run_connected(world, steps)

    def test_markup_does_not_change_the_words(self, world: PlatformWorld) -> None:
        """What is written with markup is read without it, or as it stands."""

        async def steps(harness: AdapterHarness) -> None:
            text = "# Title\n\n**bold** and `code < 1`\n\n```python\nif a < b & c:\n```"
            await harness.adapter.send(answer_to(await harness.hear()), text, key="k")
            shown = world.shown()[0].text
            for words in ("Title", "bold", "code < 1", "if a < b & c:"):
                assert words in shown

        run_connected(world, steps)

    def test_one_message_too_many(self, world: PlatformWorld) -> None:
        """The gateway hears how long to wait; the adapter does not wait by itself."""

        async def steps(harness: AdapterHarness) -> None:
            target = answer_to(await harness.hear())
            world.limit_rate(7)
            with pytest.raises(RateLimited) as limited:
                await harness.adapter.send(target, "Hi", key="k")
            assert limited.value.retry_after == 7
            await harness.adapter.send(target, "Hi", key="k")
            assert len(world.shown()) == 1

        run_connected(world, steps)

    def test_a_connection_that_is_lost(self, world: PlatformWorld) -> None:
        """The gateway may try again, and it works."""

        async def steps(harness: AdapterHarness) -> None:
            target = answer_to(await harness.hear())
            world.lose_next_send()
            with pytest.raises(Unreachable):
                await harness.adapter.send(target, "Hi", key="k")
            await harness.adapter.send(target, "Hi", key="k")
            assert world.shown()[-1].text == "Hi"

        run_connected(world, steps)

    def test_a_chat_that_is_closed(self, world: PlatformWorld) -> None:
        """Trying again would not help, and the gateway hears that."""

        async def steps(harness: AdapterHarness) -> None:
            target = answer_to(await harness.hear())
            world.block(target.chat_id)
            with pytest.raises(Undeliverable):
                await harness.adapter.send(target, "Hi", key="k")

        run_connected(world, steps)

    def test_a_chat_that_does_not_exist(self, world: PlatformWorld) -> None:
        """Nor would it here."""

        async def steps(harness: AdapterHarness) -> None:
            for chat_id in ("404", "", "../x", "1\r\nX: y"):
                with pytest.raises(Undeliverable):
                    await harness.adapter.send(Target(harness.adapter.name, chat_id), "Hi", key="k")

        run_connected(world, steps)

    def test_typing_never_fails(self, world: PlatformWorld) -> None:
        """It is not worth a reply."""

        async def steps(harness: AdapterHarness) -> None:
            await harness.adapter.typing(answer_to(await harness.hear()))
            await harness.adapter.typing(Target(harness.adapter.name, "404"))

        run_connected(world, steps)


class TestEditing:
    """A message that was sent can be replaced, where the platform has that."""

    def test_a_message_is_replaced(self, world: PlatformWorld) -> None:
        """As often as wanted; the same text again is no error."""

        async def steps(harness: AdapterHarness) -> None:
            if not harness.adapter.limits.edits:
                pytest.skip("messages cannot be changed")
            target = answer_to(await harness.hear())
            message_id = await harness.adapter.send(target, "One", key="k")
            for text in ("One two", "One two", "**One** two three"):
                await harness.adapter.edit(target, message_id, text)
            (shown,) = world.shown()
            assert shown.text == "One two three"

        run_connected(world, steps)

    def test_no_markup_is_refused(self, world: PlatformWorld) -> None:
        """Half a text least of all: it is what a stream shows."""

        async def steps(harness: AdapterHarness) -> None:
            if not harness.adapter.limits.edits:
                pytest.skip("messages cannot be changed")
            target = answer_to(await harness.hear())
            message_id = await harness.adapter.send(target, "Draft", key="k")
            for text in HOSTILE:
                await harness.adapter.edit(target, message_id, "Draft")
                await harness.adapter.edit(target, message_id, text)
                assert world.shown()[0].text != "Draft"

        run_connected(world, steps)

    def test_a_message_that_is_gone(self, world: PlatformWorld) -> None:
        """The gateway hears that it has to send another."""

        async def steps(harness: AdapterHarness) -> None:
            if not harness.adapter.limits.edits:
                pytest.skip("messages cannot be changed")
            target = answer_to(await harness.hear())
            for message_id in ("999999", "nonsense"):
                with pytest.raises(Undeliverable):
                    await harness.adapter.edit(target, message_id, "text")

        run_connected(world, steps)
