"""Signal's adapter beyond what every platform does."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator

import pytest

from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.gateway.events import Attachment, Target
from hermes_sessions.gateway.platforms.port import (
    LoginRefused,
    PlatformError,
    RateLimited,
    Undeliverable,
    Unreachable,
)
from hermes_sessions.gateway.platforms.signal.adapter import SignalAdapter
from hermes_sessions.gateway.platforms.signal.journal import Journal
from hermes_sessions.gateway.platforms.signal.spec import SPEC
from hermes_sessions_testing.fake_servers.signal.daemon import (
    ACCOUNT,
    ANNA,
    GROUP,
    Refusal,
    SignalDaemon,
    not_sent,
    too_many,
)
from hermes_sessions_testing.platforms import RecordingServices
from hermes_sessions_testing.platforms.harness import AdapterHarness, answer_to, run_connected
from tests.gateway.platforms.settings_reader import read
from tests.gateway.platforms.signal.fake_signal import FakeSignal, FakeSignalSocket, at_once

Steps = Callable[[AdapterHarness], Awaitable[None]]
TO_ANNA = Target("signal", ANNA.uuid)
#: A gateway that never comes to store what it received.
TAKES_NOTHING = """
import asyncio, sys
from pathlib import Path
from hermes_sessions.gateway.platforms.signal.adapter import SignalAdapter
from hermes_sessions.gateway.platforms.signal.journal import Journal
from hermes_sessions.gateway.platforms.signal.spec import SPEC
from hermes_sessions_testing.platforms import RecordingServices
from tests.gateway.platforms.settings_reader import read

async def main(address, home):
    settings = read(SPEC, None, {"account": "+15550100", "address": address}, home)
    services = RecordingServices()
    gate = services.hold()
    await SignalAdapter(settings, journal=Journal(home / "received.jsonl")).connect(services)
    await gate.wait()

asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
"""


@pytest.fixture
def messenger() -> Iterator[FakeSignal]:
    messenger = FakeSignal()
    yield messenger
    messenger.close()


class TestReceiving:
    def test_what_was_read_by_a_killed_process_is_taken_by_the_next(
        self, messenger: FakeSignal
    ) -> None:
        arguments = [
            sys.executable,
            "-c",
            TAKES_NOTHING,
            messenger.daemon.address,
            str(messenger.home),
        ]
        with subprocess.Popen(arguments) as process:
            messenger.wait_until(lambda: messenger.daemon.subscribers)
            for text in ("one", "two", "three"):
                messenger.write(text)
            messenger.wait_until(lambda: "three" in messenger.journal())
            process.kill()
        messenger.wait_until(lambda: not messenger.daemon.subscribers)
        with messenger.journal_path.open("a") as journal:
            journal.write('{"text": "half a li')
        messenger.write("four")

        async def steps(harness: AdapterHarness) -> None:
            assert await harness.services.texts(4) == ["one", "two", "three", "four"]
            await harness.until(lambda: not messenger.has_unconfirmed())

        run_connected(messenger, steps)

    def test_a_line_of_the_journal_that_nobody_can_read(self, messenger: FakeSignal) -> None:
        messenger.journal_path.write_text('{"source": 5}\n')

        async def steps(harness: AdapterHarness) -> None:
            await harness.hear("still there")

        run_connected(messenger, steps)
        assert "source" in messenger.journal_path.with_suffix(".unreadable").read_text()

    def test_nothing_is_fetched_while_nothing_can_be_stored(self, messenger: FakeSignal) -> None:
        async def steps(harness: AdapterHarness) -> None:
            pause = asyncio.Event()

            async def sleep(_seconds: float) -> None:
                await pause.wait()

            harness.adapter._sleep = sleep  # type: ignore[attr-defined]
            harness.services.fail_with(StoreUnavailable("no"))
            messenger.write("first")
            await harness.until(lambda: not messenger.daemon.subscribers)
            second = messenger.write("second")
            assert int(second) in messenger.daemon.waiting
            assert "first" in messenger.journal()
            pause.set()
            assert await harness.services.texts(2) == ["first", "second"]
            assert messenger.daemon.subscribers == 1

        run_connected(messenger, steps)

    def test_leaving_takes_what_was_fetched_and_leaves_the_rest_at_signal(
        self, messenger: FakeSignal
    ) -> None:
        async def steps(harness: AdapterHarness) -> None:
            for number in range(50):
                messenger.write(str(number))
            await harness.adapter.disconnect()
            assert messenger.daemon.calls_of("unsubscribeReceive")
            assert not messenger.daemon.subscribers
            taken = [each.text for each in harness.services.accepted]
            assert taken == [str(number) for number in range(len(taken))]
            assert len(taken) + len(messenger.daemon.waiting) == 50
            assert messenger.journal() == ""

        run_connected(messenger, steps)

    def test_leaving_while_nothing_can_be_stored_keeps_it(self, messenger: FakeSignal) -> None:
        async def steps(harness: AdapterHarness) -> None:
            harness.services.fail_with(*[StoreUnavailable("no")] * 100_000)
            messenger.write("kept")
            await harness.services.wait_for(lambda: harness.services.offered)
            await harness.adapter.disconnect()
            assert "kept" in messenger.journal()

        run_connected(messenger, steps)

        async def later(harness: AdapterHarness) -> None:
            assert await harness.services.texts(1) == ["kept"]

        run_connected(messenger, later)

    def test_messages_in_any_order_and_twice(self, messenger: FakeSignal) -> None:
        async def steps(harness: AdapterHarness) -> None:
            ids = [messenger.write(text) for text in ("a", "b")]
            for message_id in (*reversed(ids), *ids):
                messenger.deliver_again(message_id)
            assert await harness.services.texts(6) == ["a", "b", "b", "a", "a", "b"]
            assert len({each.message_id for each in harness.services.accepted}) == 2

        run_connected(messenger, steps)

    def test_a_daemon_that_receives_by_itself(
        self, messenger: FakeSignal, caplog: pytest.LogCaptureFixture
    ) -> None:
        messenger.daemon.close()
        messenger.daemon = SignalDaemon(receive_mode="on-connection")

        async def steps(harness: AdapterHarness) -> None:
            messenger.write("Hello")
            first, second = (await harness.services.texts(2), harness.services.accepted)[1]
            assert first.message_id == second.message_id

        run_connected(messenger, steps)
        assert "--receive-mode manual" in caplog.text

    def test_a_daemon_that_starts_again(self) -> None:
        messenger = FakeSignalSocket()

        async def steps(harness: AdapterHarness) -> None:
            await harness.hear("before")
            await asyncio.to_thread(messenger.daemon.restart)
            await harness.hear("after")
            await harness.adapter.send(TO_ANNA, "Hi", key="k")

        run_connected(messenger, steps)
        messenger.close()


class TestSending:
    def test_answers_in_any_order(self, messenger: FakeSignal) -> None:
        async def steps(harness: AdapterHarness) -> None:
            await harness.adapter.send(TO_ANNA, "Hi", key="k")
            messenger.daemon.hold_back("sendTyping")
            typing = asyncio.create_task(harness.adapter.typing(TO_ANNA))
            await harness.until(lambda: messenger.daemon.calls_of("sendTyping"))
            assert await harness.adapter.send(TO_ANNA, "Hi", key="k")
            await typing

        run_connected(messenger, steps)

    def test_styles_and_what_is_answered(self, messenger: FakeSignal) -> None:
        async def steps(harness: AdapterHarness) -> None:
            inbound = await harness.hear("What is it?", room="group")
            target = Target("signal", GROUP, None, inbound.message_id, inbound.extra)
            await harness.adapter.send(target, "It is **bold**.", key="k")
            params = messenger.daemon.sent[0].params
            assert params["groupId"] == GROUP
            assert params["textStyle"] == ["6:4:BOLD"]
            assert params["quoteAuthor"] == ANNA.uuid
            assert params["quoteMessage"] == "What is it?"
            assert str(params["quoteTimestamp"]) in (inbound.message_id or "")
            private = await harness.hear("And here?")
            await harness.adapter.send(answer_to(private), "No quotation.", key="k")
            assert "quoteAuthor" not in messenger.daemon.sent[1].params

        run_connected(messenger, steps)

    @pytest.mark.parametrize("chat_id", [ANNA.number, ANNA.uuid.upper(), GROUP, f"group:{GROUP}"])
    def test_every_form_of_a_chat(self, messenger: FakeSignal, chat_id: str) -> None:
        async def steps(harness: AdapterHarness) -> None:
            await harness.adapter.send(Target("signal", chat_id), "Hi", key="k")
            assert messenger.daemon.sent[0].chat_id in {ANNA.uuid, GROUP}

        run_connected(messenger, steps)

    @pytest.mark.parametrize(
        ("refusal", "error", "words"),
        [
            (too_many(), RateLimited, "rate limit"),
            (too_many(3600, token="t-7"), RateLimited, "captcha.*--challenge t-7"),
            (Refusal(-5, "RateLimitException"), RateLimited, "rate limit"),
            (not_sent("IDENTITY_FAILURE", -4), Undeliverable, "safety number"),
            (Refusal(-4, "untrusted"), Undeliverable, "safety number"),
            (not_sent("UNREGISTERED_FAILURE"), Undeliverable, "no longer on Signal"),
            (not_sent("NETWORK_FAILURE"), Unreachable, "signal-cli failed"),
            (not_sent("INVALID_PRE_KEY_FAILURE"), Unreachable, "signal-cli failed"),
            (Refusal(-1, "Invalid group id"), Undeliverable, "Invalid group id"),
            (Refusal(-3, "network"), Unreachable, "network"),
            (Refusal(-32603, "NullPointerException"), Unreachable, "NullPointer"),
            (Refusal(-32602, "Specified account does not exist"), LoginRefused, "account"),
        ],
    )
    def test_refusals(
        self, messenger: FakeSignal, refusal: Refusal, error: type[PlatformError], words: str
    ) -> None:
        async def steps(harness: AdapterHarness) -> None:
            messenger.daemon.fail("send", refusal)
            with pytest.raises(error, match=words):
                await harness.adapter.send(TO_ANNA, "Hi", key="k")

        run_connected(messenger, steps)

    def test_what_is_under_way_when_the_connection_is_lost(self, messenger: FakeSignal) -> None:
        async def steps(harness: AdapterHarness) -> None:
            messenger.daemon.hold_back("send")
            sending = asyncio.create_task(harness.adapter.send(TO_ANNA, "Hi", key="k"))
            await harness.until(lambda: messenger.daemon.sent)
            messenger.daemon.drop_connections()
            with pytest.raises(Unreachable):
                await sending

        run_connected(messenger, steps)

    def test_a_change_of_what_was_sent_long_ago(self, messenger: FakeSignal) -> None:
        settings = read(
            SPEC, None, {"account": ACCOUNT, "address": messenger.daemon.address}, messenger.home
        )
        journal = Journal(messenger.journal_path)
        adapter = SignalAdapter(settings, journal=journal, sleep=at_once, clock=lambda: 4e9)

        async def main() -> None:
            await adapter.connect(RecordingServices())
            message_id = await adapter.send(TO_ANNA, "Hi", key="k")
            with pytest.raises(Undeliverable, match="older than a day"):
                await adapter.edit(TO_ANNA, message_id, "Hello")
            await adapter.disconnect()

        asyncio.run(main())


class TestLongTexts:
    """What is longer than a message may be comes as its beginning, and whole in a file."""

    WHOLE = "wörd " * 1000

    def write(self, messenger: FakeSignal) -> None:
        file = {"id": "long", "contentType": "text/x-signal-plain", "size": 6000}
        messenger.daemon.write(self.WHOLE[:1333], attachments=[file])

    def test_all_of_it_is_taken(self, messenger: FakeSignal) -> None:
        messenger.daemon.files["long"] = self.WHOLE.encode()
        messenger.daemon.cut("getAttachment")

        async def steps(harness: AdapterHarness) -> None:
            self.write(messenger)
            assert await harness.services.texts(1) == [self.WHOLE]
            assert harness.services.accepted[0].attachments == ()

        run_connected(messenger, steps)

    def test_what_is_gone_is_said_to_be(self, messenger: FakeSignal) -> None:
        async def steps(harness: AdapterHarness) -> None:
            self.write(messenger)
            (text,) = await harness.services.texts(1)
            assert text.startswith(self.WHOLE[:1333])
            assert "The rest of this message is missing" in text

        run_connected(messenger, steps)

    def test_a_daemon_that_never_hands_it_over_holds_up_nobody(self, messenger: FakeSignal) -> None:
        for _ in range(10):
            messenger.daemon.fail("getAttachment", Refusal(-32603, "NullPointerException"))

        async def steps(harness: AdapterHarness) -> None:
            self.write(messenger)
            messenger.write("after it")
            texts = await harness.services.texts(2)
            assert "is missing" in texts[0]
            assert texts[1] == "after it"

        run_connected(messenger, steps)

    def test_leaving_meanwhile_keeps_it(self, messenger: FakeSignal) -> None:
        messenger.daemon.files["long"] = self.WHOLE.encode()

        async def steps(harness: AdapterHarness) -> None:
            pause = asyncio.Event()

            async def sleep(_seconds: float) -> None:
                pause.set()
                await asyncio.Event().wait()

            harness.adapter._sleep = sleep  # type: ignore[attr-defined]
            messenger.daemon.fail("getAttachment", Refusal(-3, "network"))
            self.write(messenger)
            await pause.wait()

        run_connected(messenger, steps)
        assert "wörd" in json.loads(messenger.journal())["text"]

        async def again(harness: AdapterHarness) -> None:
            assert await harness.services.texts(1) == [self.WHOLE]

        run_connected(messenger, again)


class TestFiles:
    def test_a_file(self, messenger: FakeSignal) -> None:
        messenger.daemon.files["abc.jpg"] = b"x" * 100_000

        async def steps(harness: AdapterHarness) -> None:
            file = Attachment("photo", "abc.jpg")
            assert await harness.adapter.fetch(file, limit=100_000) == b"x" * 100_000
            for limit in (99_999, 10):
                with pytest.raises(Undeliverable, match="more than"):
                    await harness.adapter.fetch(file, limit=limit)
            with pytest.raises(Undeliverable, match="Could not find"):
                await harness.adapter.fetch(Attachment("photo", "gone"), limit=10)

        run_connected(messenger, steps)


def test_nobody_listens(messenger: FakeSignal) -> None:
    adapter = messenger.make_adapter(address="127.0.0.1:1")
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        asyncio.run(adapter.connect(RecordingServices()))


def test_the_journal_is_private(messenger: FakeSignal) -> None:
    async def steps(harness: AdapterHarness) -> None:
        harness.services.hold()
        messenger.write("secret")
        await harness.until(lambda: "secret" in messenger.journal())
        assert messenger.journal_path.stat().st_mode & 0o777 == 0o600
        (line,) = messenger.journal().splitlines()
        assert json.loads(line)["text"] == "secret"
        harness.services._gate.set()  # type: ignore[union-attr]

    run_connected(messenger, steps)
