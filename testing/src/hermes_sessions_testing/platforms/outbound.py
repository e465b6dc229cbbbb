"""Sending and editing replies, and the errors that the gateway gets."""

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
    MessengerServer,
    Room,
    answer_to,
    run_connected,
)

#: Malformed or unfinished Markdown, and characters with a meaning on some platform.
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
    """Replies appear in the room of the message they answer."""

    @pytest.mark.parametrize("room", ["private", "group", "topic"])
    def test_a_reply_is_shown_where_it_belongs(
        self, messenger: MessengerServer, room: Room
    ) -> None:
        """A reply appears in the chat and topic of the message."""
        if room not in messenger.rooms:
            pytest.skip(f"the messenger has no {room}")

        async def steps(harness: AdapterHarness) -> None:
            inbound = await harness.hear(room=room)
            message_id = await harness.adapter.send(answer_to(inbound), "Hi there", key="k")
            (shown,) = messenger.shown()
            assert shown.text == "Hi there"
            assert shown.message_id == message_id
            assert shown.chat_id == inbound.source.chat_id
            assert shown.thread_id == inbound.source.thread_id

        run_connected(messenger, steps)

    @pytest.mark.parametrize("piece", ["x", "ß", "漢", "😀"])
    def test_a_message_may_be_as_long_as_the_limit_says(
        self, messenger: MessengerServer, piece: str
    ) -> None:
        """The limit counts in the platform's unit."""

        async def steps(harness: AdapterHarness) -> None:
            target = answer_to(await harness.hear())
            text = _filled(harness.adapter.limits, piece)
            await harness.adapter.send(target, text, key="k")
            assert messenger.shown()[0].text == text

        run_connected(messenger, steps)

    def test_a_long_reply_arrives_in_parts(self, messenger: MessengerServer) -> None:
        """All parts, in order, without an unclosed code block."""

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
            shown = "\n".join(message.text for message in messenger.shown())
            words = [word for word in shown.split() if word.startswith("line_")]
            assert words == [line.split()[0] for line in lines]

        run_connected(messenger, steps)

    def test_no_markup_is_refused(self, messenger: MessengerServer) -> None:
        """No Markdown makes `send` fail."""

        async def steps(harness: AdapterHarness) -> None:
            target = answer_to(await harness.hear())
            for number, text in enumerate(HOSTILE, start=1):
                await harness.adapter.send(target, text, key=f"k{number}")
                assert len(messenger.shown()) == number

        run_connected(messenger, steps)

    def test_markup_does_not_change_the_words(self, messenger: MessengerServer) -> None:
        """Formatted text shows the same words, with or without the markup."""

        async def steps(harness: AdapterHarness) -> None:
            text = "# Title\n\n**bold** and `code < 1`\n\n```python\nif a < b & c:\n```"
            await harness.adapter.send(answer_to(await harness.hear()), text, key="k")
            shown = messenger.shown()[0].text
            for words in ("Title", "bold", "code < 1", "if a < b & c:"):
                assert words in shown

        run_connected(messenger, steps)

    def test_one_message_too_many(self, messenger: MessengerServer) -> None:
        """`send` raises `RateLimited` with the delay; the adapter does not wait itself."""

        async def steps(harness: AdapterHarness) -> None:
            target = answer_to(await harness.hear())
            messenger.limit_rate(7)
            with pytest.raises(RateLimited) as limited:
                await harness.adapter.send(target, "Hi", key="k")
            assert limited.value.retry_after == 7
            await harness.adapter.send(target, "Hi", key="k")
            assert len(messenger.shown()) == 1

        run_connected(messenger, steps)

    def test_a_connection_that_is_lost(self, messenger: MessengerServer) -> None:
        """`send` raises `Unreachable`, and a retry succeeds."""

        async def steps(harness: AdapterHarness) -> None:
            target = answer_to(await harness.hear())
            messenger.lose_next_send()
            with pytest.raises(Unreachable):
                await harness.adapter.send(target, "Hi", key="k")
            await harness.adapter.send(target, "Hi", key="k")
            assert messenger.shown()[-1].text == "Hi"

        run_connected(messenger, steps)

    def test_a_chat_that_is_closed(self, messenger: MessengerServer) -> None:
        """`send` raises `Undeliverable`: a retry would not help."""

        async def steps(harness: AdapterHarness) -> None:
            target = answer_to(await harness.hear())
            messenger.block(target.chat_id)
            with pytest.raises(Undeliverable):
                await harness.adapter.send(target, "Hi", key="k")

        run_connected(messenger, steps)

    def test_a_chat_that_does_not_exist(self, messenger: MessengerServer) -> None:
        """`send` raises `Undeliverable` for unknown and malformed chat ids."""

        async def steps(harness: AdapterHarness) -> None:
            for chat_id in ("404", "", "../x", "1\r\nX: y"):
                with pytest.raises(Undeliverable):
                    await harness.adapter.send(Target(harness.adapter.name, chat_id), "Hi", key="k")

        run_connected(messenger, steps)

    def test_typing_never_fails(self, messenger: MessengerServer) -> None:
        """A typing indicator that cannot be shown is not an error."""

        async def steps(harness: AdapterHarness) -> None:
            await harness.adapter.typing(answer_to(await harness.hear()))
            await harness.adapter.typing(Target(harness.adapter.name, "404"))

        run_connected(messenger, steps)


class TestEditing:
    """Replacing the text of sent messages, where the platform supports it."""

    def test_a_message_is_replaced(self, messenger: MessengerServer) -> None:
        """A message can be edited repeatedly, also to the same text."""

        async def steps(harness: AdapterHarness) -> None:
            if not harness.adapter.limits.edits:
                pytest.skip("the messenger cannot edit messages")
            target = answer_to(await harness.hear())
            message_id = await harness.adapter.send(target, "One", key="k")
            for text in ("One two", "One two", "**One** two three"):
                await harness.adapter.edit(target, message_id, text)
            (shown,) = messenger.shown()
            assert shown.text == "One two three"

        run_connected(messenger, steps)

    def test_no_markup_is_refused(self, messenger: MessengerServer) -> None:
        """No Markdown makes `edit` fail; streams show unfinished text."""

        async def steps(harness: AdapterHarness) -> None:
            if not harness.adapter.limits.edits:
                pytest.skip("the messenger cannot edit messages")
            target = answer_to(await harness.hear())
            message_id = await harness.adapter.send(target, "Draft", key="k")
            for text in HOSTILE:
                await harness.adapter.edit(target, message_id, "Draft")
                await harness.adapter.edit(target, message_id, text)
                assert messenger.shown()[0].text != "Draft"

        run_connected(messenger, steps)

    def test_a_message_that_is_gone(self, messenger: MessengerServer) -> None:
        """`edit` raises `Undeliverable`, so that the gateway sends a new message."""

        async def steps(harness: AdapterHarness) -> None:
            if not harness.adapter.limits.edits:
                pytest.skip("the messenger cannot edit messages")
            target = answer_to(await harness.hear())
            for message_id in ("999999", "nonsense"):
                with pytest.raises(Undeliverable):
                    await harness.adapter.edit(target, message_id, "text")

        run_connected(messenger, steps)
