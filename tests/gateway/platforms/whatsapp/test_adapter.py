"""The adapter against a Graph API over a real socket: replies, refusals, statuses, files."""

import asyncio
import logging
from typing import Any

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
from hermes_sessions_testing.fake_servers.whatsapp.server import (
    ANNA,
    GROUP,
    Person,
    Refusal,
    too_many,
)
from hermes_sessions_testing.platforms import RecordingServices
from tests.gateway.platforms.whatsapp.fake_whatsapp import FakeWhatsApp
from tests.gateway.platforms.whatsapp.harness import AdapterHarness, run_adapter


def to(person: Person = ANNA, **fields: Any) -> Target:
    return Target("whatsapp", person.id, **fields)


# ── sending ───────────────────────────────────────────────────────────────────────────────────


def test_a_reply_has_whatsapps_markup_and_its_key(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.message("Hello")
        await harness.adapter.send(to(reply_to="wamid.1"), "**Hi**, _Anna_ ~~x~~ `y`", key="12.0")
        (sent,) = harness.server.sent
        assert sent.text == "*Hi*, _Anna_ ~x~ `y`"
        assert sent.key == "12.0"
        assert sent.reply_to is None  # with two people, it is clear what is answered

    run_adapter(messenger, act)


def test_a_reply_in_a_group_shows_what_it_answers(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        message_id = harness.server.write("Hello", group=GROUP)
        await harness.adapter.send(Target("whatsapp", GROUP, None, message_id), "Hi", key="k")
        (sent,) = harness.server.sent
        assert (sent.chat_id, sent.is_to_group, sent.reply_to) == (GROUP, True, message_id)

    run_adapter(messenger, act)


def test_somebody_who_hides_their_number_is_answered(messenger: FakeWhatsApp) -> None:
    hidden = Person("Anna", None, "DE.1349120865530274191")

    async def act(harness: AdapterHarness) -> None:
        harness.server.write("Hello", person=hidden)
        await harness.services.texts(1)
        source = harness.services.accepted[0].source
        await harness.adapter.send(Target("whatsapp", source.chat_id), "Hi", key="k")
        assert harness.server.sent[0].chat_id == hidden.user_id
        assert b'"recipient":"DE.' in harness.server.requests[-1].body.replace(b" ", b"")

    run_adapter(messenger, act)


def test_after_a_day_the_window_is_closed_and_that_is_said(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.message("Hello")
        messenger.now += 86401
        with pytest.raises(Undeliverable, match=r"24 hours .* after they have written .*131047"):
            await harness.adapter.send(to(), "Late", key="k")
        harness.server.message("Are you there?")
        await harness.adapter.send(to(), "Yes", key="k")
        assert [sent.text for sent in harness.server.sent] == ["Yes"]

    run_adapter(messenger, act)


@pytest.mark.parametrize(
    ("refusal", "error", "words"),
    [
        (too_many(130429), RateLimited, "130429"),
        (too_many(131056), RateLimited, "131056"),
        (Refusal(400, 80007, "Rate limit issues"), RateLimited, "80007"),
        (Refusal(400, 131048, "Spam rate limit hit"), RateLimited, "131048"),
        (Refusal(429, 99, "Too many"), RateLimited, "Too many"),
        (Refusal(401, 190, "Session has expired"), LoginRefused, "platforms.whatsapp.token"),
        (Refusal(401, 0, "AuthException"), LoginRefused, "platforms.whatsapp.token"),
        (Refusal(403, 10, "No permission"), LoginRefused, "whatsapp_business_messaging"),
        (Refusal(403, 299, "No permission"), LoginRefused, "No permission"),
        (Refusal(400, 133010, "Not registered"), LoginRefused, "not registered"),
        (Refusal(400, 131042, "Payment"), LoginRefused, "payment method"),
        (Refusal(400, 131030, "Not in allowed list"), Undeliverable, "API Setup"),
        (Refusal(400, 131026, "Undeliverable"), Undeliverable, "blocked this number"),
        (Refusal(400, 131009, "Bad", "Parameter value"), Undeliverable, "Parameter value"),
        (Refusal(500, 131000, "Something went wrong"), Unreachable, "went wrong"),
        (Refusal(400, 131016, "Service overloaded"), Unreachable, "overloaded"),
        (Refusal(503, 2, "Temporarily down"), Unreachable, "down"),
    ],
    ids=lambda value: str(value.body["code"]) if isinstance(value, Refusal) else "",
)
def test_refusals_say_what_to_do(
    messenger: FakeWhatsApp, refusal: Refusal, error: type[PlatformError], words: str
) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.message("Hello")
        harness.server.fail(refusal)
        with pytest.raises(PlatformError, match=words) as raised:
            await harness.adapter.send(to(), "Hi", key="k")
        assert type(raised.value) is error
        assert harness.server.token not in str(raised.value)
        await harness.adapter.send(to(), "Hi", key="k")

    run_adapter(messenger, act)


@pytest.mark.parametrize(
    ("refusal", "seconds"),
    [
        (too_many(131056), 4),
        (too_many(80007, retry_after=17), 17),
        (too_many(80007, retry_after=10**9), 86400),
        (Refusal(429, 130429, "x", Retry_After="tomorrow"), 5),
        (Refusal(429, 130429, "x", Retry_After="nan"), 5),
        (
            Refusal(
                429,
                80007,
                "x",
                X_Business_Use_Case_Usage='{"1": [{"estimated_time_to_regain_access": 3}]}',
            ),
            180,
        ),
        (Refusal(429, 80007, "x", X_Business_Use_Case_Usage="[1]"), 60),
    ],
    ids=range(7),
)
def test_how_long_to_wait(messenger: FakeWhatsApp, refusal: Refusal, seconds: float) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.message("Hello")
        harness.server.fail(refusal)
        with pytest.raises(RateLimited) as limited:
            await harness.adapter.send(to(), "Hi", key="k")
        assert limited.value.retry_after == seconds

    run_adapter(messenger, act)


@pytest.mark.parametrize("status", [200, 400, 404, 502])
@pytest.mark.parametrize("body", [b"<html>busy</html>", b"[]", b"{}", b"[" * 100_000])
def test_an_answer_that_is_not_metas_may_be_better_later(
    messenger: FakeWhatsApp, status: int, body: bytes
) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.message("Hello")
        harness.server.babble(body, status)
        with pytest.raises(Unreachable):
            await harness.adapter.send(to(), "Hi", key="k")

    run_adapter(messenger, act)


def test_typing_is_shown_under_the_message(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        await harness.adapter.typing(to(reply_to="wamid.7"))
        await harness.adapter.typing(to())
        (mark,) = harness.server.marks
        assert (mark["message_id"], mark["status"]) == ("wamid.7", "read")
        assert mark["typing_indicator"] == {"type": "text"}

    run_adapter(messenger, act)


# ── connecting ────────────────────────────────────────────────────────────────────────────────


def test_a_number_that_meta_does_not_know(messenger: FakeWhatsApp) -> None:
    async def main() -> None:
        adapter = messenger.make_adapter(phone_number_id="999999")
        with pytest.raises(LoginRefused, match="phone_number_id"):
            await adapter.connect(RecordingServices())
        assert adapter.webhook_port is None

    asyncio.run(main())


def test_nobody_at_the_other_end(messenger: FakeWhatsApp) -> None:
    async def main() -> None:
        adapter = messenger.make_adapter(base_url="http://127.0.0.1:1")
        with pytest.raises(Unreachable):
            await adapter.connect(RecordingServices())
        assert not adapter.is_connected

    asyncio.run(main())


def test_no_secret_is_logged(messenger: FakeWhatsApp, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def act(harness: AdapterHarness) -> None:
        harness.server.write("A secret message")
        await harness.services.texts(1)
        await harness.adapter.send(to(), "A secret reply", key="k")

    run_adapter(messenger, act)
    for secret in (messenger.server.token, messenger.server.app_secret, "A secret"):
        assert secret not in caplog.text


# ── statuses ──────────────────────────────────────────────────────────────────────────────────


def test_statuses_are_recorded_and_never_answered(
    messenger: FakeWhatsApp, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.message("Hello")
        message_id = await harness.adapter.send(to(), "Hi", key="12.0")
        assert harness.adapter.status_of(message_id) is None
        for told, known in (
            ("delivered", "delivered"),
            ("sent", "delivered"),  # they may come in any order
            ("read", "read"),
            ("unheard_of", "read"),
        ):
            harness.server.tell_status(message_id, told)
            await asyncio.to_thread(harness.server.wait_for, lambda: not harness.server.waiting)
            status = harness.adapter.status_of(message_id)
            assert status is not None
            assert (status.status, status.key) == (known, "12.0")
        assert not harness.services.offered
        assert len(harness.server.sent) == 1
        assert "not delivered" not in caplog.text

    run_adapter(messenger, act)


def test_a_reply_that_failed_later_is_explained_once(
    messenger: FakeWhatsApp, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.message("Hello")
        message_id = await harness.adapter.send(to(), "Hi", key="12.0")
        error = {"code": 131047, "title": "Re-engagement message"}
        for _ in range(2):
            harness.server.tell_status(message_id, "failed", errors=[error])
        await asyncio.to_thread(harness.server.wait_for, lambda: not harness.server.waiting)
        status = harness.adapter.status_of(message_id)
        assert status is not None
        assert status.code == 131047

    run_adapter(messenger, act)
    (record,) = (each for each in caplog.records if "was not delivered" in each.message)
    assert "reply 12.0" in record.message
    assert "24 hours" in record.message


def test_a_failure_that_cannot_be_stored_is_brought_again(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.message("Hello")
        message_id = await harness.adapter.send(to(), "Hi", key="12.0")
        harness.services.fail_with(StoreUnavailable("The database is away."))
        error = {"code": 131026, "title": "Message undeliverable"}
        harness.server.tell_status(message_id, "failed", errors=[error])
        await asyncio.to_thread(harness.server.wait_for, lambda: not harness.server.waiting)
        assert harness.server.deliveries == [503, 200]
        ((key, about, why),) = harness.services.undelivered_parts
        assert (key, about) == ("12.0", message_id)
        assert why

    run_adapter(messenger, act)


# ── files ─────────────────────────────────────────────────────────────────────────────────────


PICTURE = Attachment("photo", "2754859441498128")


def test_a_file_is_fetched_with_the_token(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.files[PICTURE.reference] = b"a picture"
        assert await harness.adapter.fetch(PICTURE, limit=9) == b"a picture"
        with pytest.raises(Undeliverable, match="9 bytes"):
            await harness.adapter.fetch(PICTURE, limit=8)

    run_adapter(messenger, act)


def test_the_platforms_own_limit_holds_as_well(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.files[PICTURE.reference] = b"a picture"
        with pytest.raises(Undeliverable, match="over 5"):
            await harness.adapter.fetch(PICTURE, limit=100)

    run_adapter(messenger, act, max_file_bytes=5)


def test_a_file_that_is_larger_than_it_says(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.files |= {PICTURE.reference: b"small", "large": b"x" * 100_000}
        harness.server.file_address = lambda _name: f"{harness.server.base_url}/files/large"
        with pytest.raises(Undeliverable, match="over 50"):
            await harness.adapter.fetch(PICTURE, limit=50)

    run_adapter(messenger, act)


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:1/x",
        "https://fbsbx.com.example.org/x",
        "https://evilfbsbx.com/x",
        "http://lookaside.fbsbx.com/x",
        "https://lookaside.fbsbx.com@example.org/x",
        "file:///etc/passwd",
        "http://[x",
        "",
    ],
)
def test_the_token_goes_to_meta_alone(messenger: FakeWhatsApp, address: str) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.files[PICTURE.reference] = b"a picture"
        harness.server.file_address = lambda _name: address
        with pytest.raises(Undeliverable, match="trusted"):
            await harness.adapter.fetch(PICTURE, limit=100)

    run_adapter(messenger, act)


@pytest.mark.parametrize("reference", ["gone", "../x", "a/b", "1?fields=x", ""])
def test_a_file_that_is_not_there(messenger: FakeWhatsApp, reference: str) -> None:
    async def act(harness: AdapterHarness) -> None:
        with pytest.raises(Undeliverable):
            await harness.adapter.fetch(Attachment("photo", reference), limit=100)

    run_adapter(messenger, act)


def test_a_file_that_went_between_two_calls(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.files[PICTURE.reference] = b"a picture"
        harness.server.file_address = lambda _name: f"{harness.server.base_url}/files/gone"
        with pytest.raises(Undeliverable, match="no longer exists"):
            await harness.adapter.fetch(PICTURE, limit=100)

    run_adapter(messenger, act)
