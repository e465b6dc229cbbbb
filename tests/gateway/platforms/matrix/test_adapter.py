"""What is special about Matrix: positions, gaps, invitations, logins, files."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from nio.crypto import encrypt_attachment

from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.gateway.events import Attachment, Target
from hermes_sessions.gateway.platforms.matrix import client
from hermes_sessions.gateway.platforms.matrix.adapter import MatrixAdapter
from hermes_sessions.gateway.platforms.port import (
    LoginRefused,
    RateLimited,
    Undeliverable,
    Unreachable,
)
from hermes_sessions.model.source import SessionSource
from hermes_sessions_testing.platforms import RecordingServices
from hermes_sessions_testing.platforms.harness import answer_to
from tests.gateway.platforms.matrix.faulty_proxy import SEND, SYNC
from tests.gateway.platforms.matrix.synapse_platform import SynapsePlatform, too_many

Act = Callable[[MatrixAdapter, RecordingServices], Awaitable[None]]


async def nothing(_adapter: MatrixAdapter, _services: RecordingServices) -> None:
    """Connect, and leave."""


def run_adapter(
    messenger: SynapsePlatform,
    act: Act = nothing,
    services: RecordingServices | None = None,
    **changes: Any,
) -> RecordingServices:
    services = services or RecordingServices()

    async def main() -> None:
        adapter = messenger.make_adapter(**changes)
        await adapter.connect(services)
        try:
            await act(adapter, services)
        finally:
            await adapter.disconnect()

    asyncio.run(main())
    return services


# ── how far was read ──────────────────────────────────────────────────────────────────────────


def test_what_was_said_before_the_first_start_is_history(messenger: SynapsePlatform) -> None:
    messenger.write("old")

    async def act(_adapter: MatrixAdapter, services: RecordingServices) -> None:
        messenger.write("new")
        assert await services.texts(1) == ["new"]

    run_adapter(messenger, act)


@pytest.fixture
def small_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The homeserver tells little at once."""
    monkeypatch.setitem(client._FILTER["room"]["timeline"], "limit", 4)  # type: ignore[index]
    monkeypatch.setattr(client, "_PAGE", 5)


@pytest.mark.usefixtures("small_answers")
def test_nothing_is_left_out_after_a_long_absence(messenger: SynapsePlatform) -> None:
    """However many came meanwhile, in their order, and none from before; although the homeserver
    hesitates.
    """
    messenger.write("before")
    run_adapter(messenger)
    written = [f"message {number}" for number in range(20)]
    for text in written:
        messenger.write(text)
    messenger.proxy.fail("GET .*/messages", too_many(0))
    messenger.proxy.fail("GET .*/messages", (502, {}))

    async def act(_adapter: MatrixAdapter, services: RecordingServices) -> None:
        assert await services.texts(len(written)) == written

    assert len(run_adapter(messenger, act).accepted) == len(written)
    assert sum("/messages" in request for request in messenger.proxy.requests) > 4


def test_a_process_that_dies_before_everything_is_stored_reads_it_again(
    messenger: SynapsePlatform,
) -> None:
    messenger.room_id("private")

    async def fail(_adapter: MatrixAdapter, services: RecordingServices) -> None:
        services.fail_with(*[Unreachable("no")] * 1000)
        messenger.write("first")
        messenger.write("second")
        await services.wait_for(lambda: services.offered)

    assert run_adapter(messenger, fail).accepted == []

    async def act(_adapter: MatrixAdapter, services: RecordingServices) -> None:
        assert await services.texts(2) == ["first", "second"]

    run_adapter(messenger, act)


def test_a_position_that_cannot_be_written(
    messenger: SynapsePlatform, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is asked for beyond it until it can be, and nothing is offered twice."""
    blocked = messenger.folder / "position.new"

    async def act(adapter: MatrixAdapter, services: RecordingServices) -> None:
        first = messenger.write("one")
        await services.texts(1)
        await asyncio.to_thread(messenger.wait_until, lambda: messenger.is_confirmed(first))
        blocked.mkdir()  # in the way of the file
        second = messenger.write("two")
        # Either it is heard and cannot be confirmed, or an answer before it cannot.
        await asyncio.to_thread(messenger.wait_until, lambda: "cannot be saved" in caplog.text)
        assert not messenger.is_confirmed(second)
        blocked.rmdir()
        assert await services.texts(2) == ["one", "two"]
        await asyncio.to_thread(messenger.wait_until, lambda: messenger.is_confirmed(second))
        assert adapter.is_connected

    assert len(run_adapter(messenger, act).accepted) == 2


def test_the_homeserver_goes_and_comes_back(messenger: SynapsePlatform) -> None:
    async def act(adapter: MatrixAdapter, services: RecordingServices) -> None:
        messenger.write("one")
        await services.texts(1)
        messenger.proxy.is_down = True
        messenger.proxy.cut_syncs()
        await asyncio.to_thread(messenger.wait_until, lambda: not adapter.is_connected)
        messenger.write("two")
        with pytest.raises(Unreachable):
            await adapter.send(answer_to(services.accepted[0]), "Hi", key="1")
        messenger.proxy.is_down = False
        assert await services.texts(2) == ["one", "two"]
        assert adapter.is_connected

    run_adapter(messenger, act)


def test_answers_that_make_no_sense_are_survived(messenger: SynapsePlatform) -> None:
    for answer in ((200, []), (200, {"next_batch": 5}), (502, "<html>"), (400, {"errcode": 5})):
        messenger.proxy.fail(rf"{SYNC}\?(?!.*full_state)", answer)

    async def act(_adapter: MatrixAdapter, services: RecordingServices) -> None:
        messenger.write("Hello")
        assert await services.texts(1) == ["Hello"]

    run_adapter(messenger, act)


def test_what_people_say_is_not_logged(
    messenger: SynapsePlatform, caplog: pytest.LogCaptureFixture
) -> None:
    """Also when it cannot be read."""
    caplog.set_level("DEBUG")

    async def act(adapter: MatrixAdapter, services: RecordingServices) -> None:
        messenger.deliver_unreadable("A secret")
        messenger.write("Another secret")
        await services.texts(1)
        await adapter.send(answer_to(services.accepted[0]), "And a secret answer", key="1")
        await asyncio.to_thread(messenger.wait_until, lambda: adapter.unreadable > 5)

    run_adapter(messenger, act)
    assert "secret" not in caplog.text
    assert messenger.bot.token not in caplog.text


# ── what is read ──────────────────────────────────────────────────────────────────────────────


def test_a_change_of_what_was_not_read_yet(messenger: SynapsePlatform) -> None:
    """Is read as it is now; a change of what was read is left alone."""
    room_id = messenger.room_id("private")
    run_adapter(messenger)
    first = messenger.write("Helo")

    def edit(changed: str, body: str) -> None:
        new = {"msgtype": "m.text", "body": body}
        relation = {"rel_type": "m.replace", "event_id": changed}
        content = {"msgtype": "m.text", "body": f"* {body}", "m.new_content": new}
        messenger.say(room_id, content | {"m.relates_to": relation})

    edit(first, "Hello")

    async def act(_adapter: MatrixAdapter, services: RecordingServices) -> None:
        assert await services.texts(1) == ["Hello"]
        edit(first, "Hallo")
        messenger.write("next")
        assert await services.texts(2) == ["Hello", "next"]

    run_adapter(messenger, act)


def test_an_answer_to_somebody_else_comes_with_what_it_answers(messenger: SynapsePlatform) -> None:
    async def act(_adapter: MatrixAdapter, services: RecordingServices) -> None:
        group = messenger.room_id("group")
        said = messenger.say(group, {"msgtype": "m.text", "body": "It rains"}, who="bert")
        content = {"msgtype": "m.text", "body": "Is that so?"}
        content |= {"m.mentions": {"user_ids": [messenger.bot.user_id]}}
        content |= {"m.relates_to": {"m.in_reply_to": {"event_id": said}}}
        messenger.say(group, content)
        assert await services.texts(1) == ["> Bert: It rains\n\nIs that so?"]
        assert services.accepted[0].reply_to == said

    run_adapter(messenger, act)


def test_a_room_that_the_account_calls_direct(messenger: SynapsePlatform) -> None:
    """Stays a conversation of two when a third comes in; and the names are those of the room."""
    room_id = messenger.room_id("private")
    messenger.spoil(room_id)
    path = f"/user/{quote(messenger.bot.user_id)}/account_data/m.direct"
    messenger.ask("PUT", path, {messenger.people["anna"].user_id: [room_id]}, who="bot")
    run_adapter(messenger)
    body = {"user_id": messenger.people["bert"].user_id}
    messenger.ask("POST", f"/rooms/{quote(room_id)}/invite", body)
    messenger.ask("POST", f"/join/{quote(room_id)}", {}, who="bert")

    async def act(_adapter: MatrixAdapter, services: RecordingServices) -> None:
        messenger.write("Hello")
        await services.texts(1)
        source = services.accepted[0].source
        assert (source.chat_type, source.user_name) == ("dm", "Anna")

    run_adapter(messenger, act)


@pytest.mark.parametrize("part", ["timeline", "state", "account_data"])
def test_events_that_are_none_keep_nobody_waiting(
    messenger: SynapsePlatform, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A homeserver may send anything, and would send it again and again."""
    nonsense = [None, 5, "x", [], {"type": "m.room.message", "origin_server_ts": "secret words"}]

    def change(answer: dict[str, Any]) -> None:
        for room in answer.get("rooms", {}).get("join", {}).values():
            if part != "account_data":
                room.setdefault(part, {}).setdefault("events", [])[:0] = nonsense
        if part == "account_data":
            answer[part] = {"events": [*nonsense[:4], *answer.get(part, {}).get("events", [])]}

    async def act(_adapter: MatrixAdapter, services: RecordingServices) -> None:
        messenger.proxy.change_sync = change
        messenger.write("One")
        assert await services.texts(1) == ["One"]
        messenger.write("Two")
        assert await services.texts(2) == ["One", "Two"]

    run_adapter(messenger, act)
    assert "events are skipped: they are not readable" in caplog.text
    assert "secret words" not in caplog.text


def test_also_in_what_is_asked_for_later(messenger: SynapsePlatform) -> None:
    """Between what was read and the news is a page of a history, with nonsense in it."""
    room_id = messenger.room_id("private")
    said = {"type": "m.room.message", "event_id": "$b", "origin_server_ts": 1}
    said |= {"sender": messenger.people["anna"].user_id, "room_id": room_id}
    said["content"] = {"msgtype": "m.text", "body": "Before"}
    page = {"chunk": [5, said, None], "start": "a"}

    def change(answer: dict[str, Any]) -> None:
        for room in answer.get("rooms", {}).get("join", {}).values():
            if room["timeline"]["events"]:
                room["timeline"] |= {"limited": True, "prev_batch": "p"}

    async def act(_adapter: MatrixAdapter, services: RecordingServices) -> None:
        messenger.proxy.fail("GET .*/messages", (200, page))
        messenger.proxy.change_sync = change
        messenger.write("After")
        assert await services.texts(2) == ["Before", "After"]

    run_adapter(messenger, act)


# ── invitations ───────────────────────────────────────────────────────────────────────────────


def _membership(messenger: SynapsePlatform, room_id: str, who: str) -> str:
    path = f"/rooms/{quote(room_id)}/state/m.room.member/{quote(messenger.bot.user_id)}"
    return str(messenger.ask("GET", path, who=who)["membership"])


def test_invitations_by_policy(messenger: SynapsePlatform) -> None:
    """Of those who may talk, with what they wrote at once; others are told no."""

    async def act(_adapter: MatrixAdapter, services: RecordingServices) -> None:
        services.known = {messenger.people["anna"].user_id}
        welcome = messenger.invite(by="anna", is_direct=True)
        messenger.say(welcome, {"msgtype": "m.text", "body": "Come in"})
        strange = messenger.invite(by="bert")
        messenger.say(strange, {"msgtype": "m.text", "body": "You, too"}, who="bert")
        assert await services.texts(1) == ["Come in"]
        await asyncio.to_thread(
            messenger.wait_until, lambda: _membership(messenger, strange, "bert") == "leave"
        )
        assert _membership(messenger, welcome, "anna") == "join"

    assert len(run_adapter(messenger, act, invites="allowed").accepted) == 1


def test_whoever_is_not_known_yet_is_asked_about_again(messenger: SynapsePlatform) -> None:
    class Away(RecordingServices):
        asked = 0

        async def may_talk(self, source: SessionSource) -> bool:
            self.asked += 1
            if self.asked == 1:
                raise StoreUnavailable("The database is away.")
            return (source.chat_type, source.user_id) == ("group", messenger.people["anna"].user_id)

    async def act(_adapter: MatrixAdapter, services: RecordingServices) -> None:
        room_id = messenger.invite(by="anna")
        messenger.say(room_id, {"msgtype": "m.text", "body": f"Come, {messenger.bot.user_id}"})
        await services.texts(1)

    run_adapter(messenger, act, Away(), invites="allowed", sync_seconds=1)


def test_nobody_may_invite_where_that_is_said(messenger: SynapsePlatform) -> None:
    async def act(_adapter: MatrixAdapter, services: RecordingServices) -> None:
        services.known = {messenger.people["anna"].user_id}
        room_id = messenger.invite(by="anna")
        await asyncio.to_thread(
            messenger.wait_until, lambda: _membership(messenger, room_id, "anna") == "leave"
        )

    run_adapter(messenger, act, invites="nobody")


def test_an_invitation_that_waits_for_the_first_start(messenger: SynapsePlatform) -> None:
    room_id = messenger.invite(by="bert")
    messenger.say(room_id, {"msgtype": "m.text", "body": "Anybody?"}, who="bert")

    async def act(_adapter: MatrixAdapter, services: RecordingServices) -> None:
        assert await services.texts(1) == ["Anybody?"]

    run_adapter(messenger, act)


def test_an_invitation_is_tried_again(messenger: SynapsePlatform) -> None:
    messenger.proxy.fail("POST .*/join/", too_many(0))

    async def act(_adapter: MatrixAdapter, services: RecordingServices) -> None:
        room_id = messenger.invite(by="anna")
        messenger.say(room_id, {"msgtype": "m.text", "body": "Hello"})
        assert await services.texts(1) == ["Hello"]

    run_adapter(messenger, act, sync_seconds=1)


# ── logging in ────────────────────────────────────────────────────────────────────────────────


def _password(messenger: SynapsePlatform, **changes: Any) -> dict[str, Any]:
    login = {"token": None, "user": messenger.bot.user_id, "password": messenger.bot.password}
    return login | changes


def test_a_password_is_used_once(messenger: SynapsePlatform) -> None:
    run_adapter(messenger, **_password(messenger))
    device = json.loads((messenger.folder / "device.json").read_text())
    assert device["device_id"] != messenger.bot.device_id
    run_adapter(messenger, **_password(messenger, password="forgotten"))
    assert sum("/login" in request for request in messenger.proxy.requests) == 1


def test_a_login_that_was_ended_is_made_again_for_the_same_device(
    messenger: SynapsePlatform,
) -> None:
    async def act(adapter: MatrixAdapter, services: RecordingServices) -> None:
        messenger.write("one")
        await services.texts(1)
        before = json.loads((messenger.folder / "device.json").read_text())
        messenger.synapse.ask("POST", "/_matrix/client/v3/logout", {}, token=before["token"])
        messenger.write("two")
        assert await services.texts(2) == ["one", "two"]
        after = json.loads((messenger.folder / "device.json").read_text())
        assert (after["device_id"], after["token"] == before["token"]) == (
            before["device_id"],
            False,
        )
        await adapter.send(answer_to(services.accepted[0]), "Hi", key="1")

    run_adapter(messenger, act, **_password(messenger))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"token": None, "password": "wrong"}, "Check platforms.matrix.password"),
        ({"token": "wrong"}, "does not accept the account's token"),
        ({"user": "@somebody:else.org"}, "belongs to"),
    ],
)
def test_a_wrong_login_is_said(
    messenger: SynapsePlatform, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(LoginRefused, match=words):
        run_adapter(messenger, **({"user": messenger.bot.user_id} | changes))


def test_a_folder_that_cannot_be_used(messenger: SynapsePlatform) -> None:
    messenger.folder.write_text("not a folder")
    with pytest.raises(LoginRefused, match="is not usable"):
        run_adapter(messenger)


# ── sending ───────────────────────────────────────────────────────────────────────────────────


def test_the_same_key_is_sent_once(messenger: SynapsePlatform) -> None:
    """Also when nobody heard that it was taken; with another store, the same key is another."""

    async def act(adapter: MatrixAdapter, services: RecordingServices) -> None:
        messenger.write("Hello")
        await services.texts(1)
        target = answer_to(services.accepted[0])
        messenger.lose_next_send()
        with pytest.raises(Unreachable):
            await adapter.send(target, "Hi", key="1.0")
        first = await adapter.send(target, "Hi", key="1.0")
        assert await adapter.send(target, "Hi", key="1.0") == first
        assert await adapter.send(target, "Hi", key="1.1") != first

    run_adapter(messenger, act)
    assert len(messenger.shown()) == 2
    run_adapter(messenger, lambda adapter, _: _send(adapter, messenger.room_id("private"), "1.0"))
    assert len(messenger.shown()) == 3


async def _send(adapter: MatrixAdapter, room_id: str, key: str) -> None:
    await adapter.send(Target("matrix", room_id), "Hi", key=key)


def test_a_limit_without_a_time(messenger: SynapsePlatform) -> None:
    async def act(adapter: MatrixAdapter, _services: RecordingServices) -> None:
        messenger.proxy.fail(SEND, (429, {"errcode": "M_LIMIT_EXCEEDED", "error": "slow"}))
        with pytest.raises(RateLimited) as limited:
            await _send(adapter, messenger.room_id("private"), "1")
        assert limited.value.retry_after > 0

    messenger.room_id("private")
    run_adapter(messenger, act)


def test_a_room_of_others(messenger: SynapsePlatform) -> None:
    made = messenger.ask("POST", "/createRoom", {}, who="bert")["room_id"]

    async def act(adapter: MatrixAdapter, _services: RecordingServices) -> None:
        for room_id in (made, "!nowhere:example.org"):
            with pytest.raises(Undeliverable):
                await _send(adapter, room_id, "1")

    run_adapter(messenger, act)


# ── files ─────────────────────────────────────────────────────────────────────────────────────


def _upload(messenger: SynapsePlatform, content: bytes) -> str:
    answer = httpx.post(
        f"{messenger.synapse.url}/_matrix/media/v3/upload",
        content=content,
        headers={
            "Authorization": f"Bearer {messenger.people['anna'].token}",
            "Content-Type": "application/octet-stream",
        },
    )
    return str(answer.raise_for_status().json()["content_uri"])


def test_files_are_fetched_up_to_a_limit(messenger: SynapsePlatform) -> None:
    content = os.urandom(100_000)
    locked, keys = encrypt_attachment(content)

    async def act(adapter: MatrixAdapter, services: RecordingServices) -> None:
        room_id = messenger.room_id("private")
        info = {"size": len(content), "mimetype": "text/plain"}
        plain = {"msgtype": "m.file", "body": "a.txt", "url": _upload(messenger, content)}
        messenger.say(room_id, plain | {"info": info})
        file = keys | {"url": _upload(messenger, locked)}
        messenger.say(room_id, {"msgtype": "m.image", "body": "a.png", "file": file, "info": info})
        await services.texts(2)
        for inbound in services.accepted:
            (attachment,) = inbound.attachments
            assert await adapter.fetch(attachment, limit=100_000) == content
            with pytest.raises(Undeliverable, match="more than 99,999 bytes"):
                await adapter.fetch(attachment, limit=99_999)
        broken = file | {"url": plain["url"]}
        messenger.say(room_id, {"msgtype": "m.image", "body": "b.png", "file": broken})
        await services.texts(3)
        with pytest.raises(Undeliverable):
            await adapter.fetch(services.accepted[2].attachments[0], limit=100_000)
        gone = Attachment("photo", "mxc://hermes.test/nowhere")
        with pytest.raises(Undeliverable):
            await adapter.fetch(gone, limit=100)

    run_adapter(messenger, act)
