"""Matrix for the platform kit: a real Synapse, users who call it over HTTP, and a faulty proxy."""

from __future__ import annotations

import asyncio
import html
import itertools
import json
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hermes_sessions.gateway.platforms.matrix.adapter import MatrixAdapter
from hermes_sessions.gateway.platforms.matrix.device_folder import DeviceFolder
from hermes_sessions.gateway.platforms.matrix.spec import SPEC
from hermes_sessions_testing.platforms import MessengerServer, Room, Sender, Shown
from tests.gateway.platforms.matrix.faulty_proxy import SEND, SYNC, FaultyProxy
from tests.gateway.platforms.matrix.synapse import Account, Synapse
from tests.gateway.platforms.settings_reader import read

PATIENCE = 60.0
_CLIENT = "/_matrix/client/v3"
_numbers = itertools.count()


async def at_once(_seconds: float) -> None:
    """Wait without waiting, and let others go on."""
    await asyncio.sleep(0)


def too_many(seconds: float) -> tuple[int, Any]:
    """What a homeserver says to whoever is too quick."""
    refusal = {"errcode": "M_LIMIT_EXCEEDED", "error": "Too Many Requests"}
    return 429, refusal | {"retry_after_ms": int(seconds * 1000)}


class People:
    """Anna, Bert, a robot and the bot: one account each for all tests of a process, because making
    rooms is what takes a homeserver the longest.
    """

    def __init__(self, synapse: Synapse) -> None:
        self.synapse = synapse
        self.accounts: dict[str, Account] = {
            name: synapse.register(name) for name in ("anna", "bert", "robot", "hermes")
        }
        #: Rooms in which they are, for everybody to use.
        self.rooms: dict[str, str] = {}

    def __getitem__(self, name: str) -> Account:
        return self.accounts[name]


class SynapsePlatform(MessengerServer):
    """A new device of the bot, and rooms that are made when somebody first writes in them."""

    def __init__(self, people: People) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.home = Path(self._folder.name)
        self.people = people
        self.synapse = people.synapse
        self.proxy = FaultyProxy(self.synapse.url)
        self.bot = self.synapse.log_in(people["hermes"])
        #: Rooms that were used here, and where each of them began for us.
        self.rooms_used: dict[str, str] = {}
        self._begins: dict[str, str] = {}
        #: Who made rooms, and can see what happens there.
        self._makers: dict[str, str] = {}
        self._thread: str | None = None

    # ── the adapter ───────────────────────────────────────────────────────────────────────────

    @property
    def folder(self) -> Path:
        return self.home / "matrix"

    def make_adapter(self, **changes: Any) -> MatrixAdapter:
        values = {"homeserver": self.proxy.url, "sync_seconds": 5, "token": self.bot.token}
        # Else it would decline Bert's invitations while the harness lets it join.
        values["invites"] = "everyone"
        values |= changes
        token = values.pop("token")
        settings = read(SPEC, token, values)
        return MatrixAdapter(
            settings,
            device_folder=DeviceFolder(self.folder),
            commands=frozenset({"new", "status"}),
            sleep=at_once,
        )

    # ── what people do ────────────────────────────────────────────────────────────────────────

    def ask(self, method: str, path: str, body: Any = None, *, who: str = "anna") -> Any:
        account = self.bot if who == "bot" else self.people[who]
        return self.synapse.ask(method, _CLIENT + path, body, token=account.token)

    def make_room(self, *others: str, by: str = "anna", **options: Any) -> str:
        """Make a room in which the bot, *by* and *others* are."""
        room_id = self.invite(*others, by=by, **options)
        for who in ("bot", *others):
            self.ask("POST", f"/join/{quote(room_id)}", {}, who=who)
        return room_id

    def invite(self, *others: str, by: str = "anna", **options: Any) -> str:
        """Make a room to which the bot and *others* are invited."""
        invited = [self.bot.user_id, *(self.people[other].user_id for other in others)]
        options = {"preset": "private_chat", "invite": invited} | options
        made = self.ask("POST", "/createRoom", options, who=by)
        room_id = str(made["room_id"])
        self._makers[room_id] = by
        return room_id

    def room_id(self, room: str, sender: str = "anna") -> str:
        """Return a room, which is made if it is not there."""
        key = f"{room} {sender}" if room == "private" else "group"
        if key not in self.rooms_used:
            rooms = self.people.rooms
            if key not in rooms and room == "private":
                rooms[key] = self.make_room(by=sender, is_direct=True)
            elif key not in rooms:
                rooms[key] = self.make_room("bert", "robot", name="The group", topic="Everything")
            self.rooms_used[key] = found = rooms[key]
            path = f"/rooms/{quote(found)}/messages?dir=b&limit=1"
            self._begins[found] = self.ask("GET", path, who=sender)["start"]
        return self.rooms_used[key]

    def spoil(self, room_id: str) -> None:
        """Let no other test use a room."""
        rooms = self.people.rooms
        for key in [key for key, used in rooms.items() if used == room_id]:
            del rooms[key]

    def say(
        self, room_id: str, content: dict[str, Any], *, who: str = "anna", kind: str = ""
    ) -> str:
        """Send an event and return its id."""
        kind = kind or "m.room.message"
        path = f"/rooms/{quote(room_id)}/send/{kind}/test-{next(_numbers)}-{time.time_ns()}"
        return str(self.ask("PUT", path, content, who=who)["event_id"])

    def write(self, text: str, *, sender: Sender = "anna", room: Room = "private") -> str:
        kind = "m.notice" if sender == "robot" else "m.text"
        content: dict[str, Any] = {"msgtype": kind, "body": text}
        # The robot writes in the group: a conversation of its own would prove less.
        place = "group" if sender == "robot" else room
        room_id = self.room_id(place, sender)
        if place != "private":
            content["m.mentions"] = {"user_ids": [self.bot.user_id]}
        if room == "topic":
            content["m.relates_to"] = {"rel_type": "m.thread", "event_id": self.thread()}
        return self.say(room_id, content, who=sender)

    def thread(self) -> str:
        """Return the message with which a thread of the group begins."""
        if self._thread is None:
            root = {"msgtype": "m.notice", "body": "A thread"}
            self._thread = self.say(self.room_id("group"), root)
        return self._thread

    def deliver_again(self, message_id: str) -> None:
        for answer in list(self.proxy.synced):
            if message_id in answer.event_ids:
                self.proxy.rewind(answer.since)
                return
        raise AssertionError("it was not delivered at all")

    def deliver_unreadable(self, text: str = "x") -> None:
        room_id = self.room_id("private")
        for content in (
            {"msgtype": "m.image", "body": text},
            {"msgtype": "m.image", "body": text, "url": "https://example.org/../x"},
            {"msgtype": "m.file", "body": text, "file": {"url": "mxc://x/y"}},
            {"msgtype": "m.unheard_of", "body": text},
        ):
            self.say(room_id, content)
        self.say(room_id, {"algorithm": "unheard of"}, kind="m.room.encrypted")
        self.say(room_id, {"x": 5}, kind="org.example.unheard_of")
        anna = self.people["anna"].user_id
        fine = {"msgtype": "m.text", "body": text}
        event = {"type": "m.room.message", "sender": anna, "event_id": "$x", "origin_server_ts": 1}
        injected: list[Any] = [
            {},
            {"type": 5},
            event | {"content": 5},
            event | {"content": {"msgtype": "m.text"}},
            event | {"content": {"body": text}},
            event | {"content": fine | {"msgtype": 5}},
            event | {"content": fine | {"body": [text]}},
            event | {"content": fine | {"m.relates_to": {"rel_type": "m.thread", "event_id": 5}}},
            event | {"content": fine | {"body": 5, "m.relates_to": 5, "m.mentions": 5}},
            event | {"content": fine, "sender": "nobody"},
            event | {"content": fine, "sender": 5},
            event | {"content": fine, "event_id": None},
            event | {"content": fine | {"body": (text * 900_000)[:900_000]}},
            event | {"content": fine, "type": "m.room.encrypted"},
            {name: value for name, value in event.items() if name != "sender"} | {"content": fine},
        ]

        def inject(answer: dict[str, Any]) -> None:
            room = answer.get("rooms", {}).get("join", {}).get(room_id)
            if room is not None and injected:
                room["timeline"]["events"] += injected
                injected.clear()

        self.proxy.change_sync = inject

    def block(self, chat_id: str) -> None:
        self.spoil(chat_id)
        body = {"user_id": self.bot.user_id}
        self.ask("POST", f"/rooms/{quote(chat_id)}/ban", body, who="anna")

    # ── what goes wrong ───────────────────────────────────────────────────────────────────────

    def refuse_logins(self) -> None:
        self.ask("POST", "/logout", {}, who="bot")

    def limit_rate(self, seconds: float) -> None:
        self.proxy.fail(SEND, too_many(seconds))

    def lose_connections(self) -> None:
        self.proxy.fail(SYNC)
        self.proxy.cut_syncs()

    def lose_next_send(self) -> None:
        for _ in range(2):  # the HTTP client tries a second time by itself
            self.proxy.lose_answer(SEND)

    # ── what can be seen ──────────────────────────────────────────────────────────────────────

    def events(self, room_id: str) -> list[dict[str, Any]]:
        """Return everything that happened in a room since it was used here, in order."""
        is_bert = self.rooms_used.get("private bert") == room_id
        path = f"/rooms/{quote(room_id)}/messages?dir=f&limit=1000"
        if room_id in self._begins:
            path += f"&from={quote(self._begins[room_id])}"
        found = self.ask("GET", path, who=self._makers.get(room_id, "bert" if is_bert else "anna"))
        return list(found["chunk"])

    def shown(self) -> list[Shown]:
        shown = []
        for room_id in self.rooms_used.values():
            shown += shown_in(room_id, self.events(room_id), self.bot.user_id)
        return shown

    def position(self) -> str | None:
        """Up to where the adapter has stored everything."""
        try:
            found = json.loads((self.folder / "position.json").read_text())
        except FileNotFoundError:
            return None
        since = found["since"]
        return str(since)

    def is_confirmed(self, message_id: str) -> bool:
        """There is no confirmation: what would come again after a crash is not confirmed."""
        return self._confirmed_after(lambda ids: message_id in ids) is True

    def has_unconfirmed(self) -> bool:
        return self._confirmed_after(bool) is False

    def _confirmed_after(self, belongs: Callable[[list[str]], Any]) -> bool | None:
        with self.proxy.lock:
            synced = list(self.proxy.synced)
        position = self.position()
        reached = [at for at, each in enumerate(synced) if each.next_batch == position]
        wanted = [at for at, each in enumerate(synced) if belongs(each.event_ids)]
        if not wanted:
            return None
        return bool(reached) and reached[-1] >= wanted[-1]

    def wait_until(self, condition: Callable[[], Any]) -> None:
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until, "it did not happen"
            time.sleep(0.02)

    def close(self) -> None:
        self.proxy.close()
        self.synapse.log_out(self.bot.token)
        if (self.folder / "device.json").exists():
            kept = json.loads((self.folder / "device.json").read_text())
            self.synapse.log_out(kept["token"])
        self._folder.cleanup()


def shown_in(room_id: str, events: list[dict[str, Any]], user_id: str) -> list[Shown]:
    """Return somebody's messages as a client shows them, changed as they were."""
    shown: dict[str, Shown] = {}
    for event in events:
        content = event["content"]
        if event["sender"] != user_id or "msgtype" not in content:
            continue
        relation = content.get("m.relates_to", {})
        if relation.get("rel_type") == "m.replace":
            changed = relation["event_id"]
            shown[changed] = shown[changed]._replace(text=words(content["m.new_content"]))
            continue
        thread = relation.get("event_id") if relation.get("rel_type") == "m.thread" else None
        shown[event["event_id"]] = Shown(room_id, event["event_id"], words(content), thread)
    return list(shown.values())


def words(content: dict[str, Any]) -> str:
    """Return what a client shows of a message, without markup."""
    if "formatted_body" not in content:
        return str(content["body"])
    text = re.sub(r"<br>|</p>|</li>|</h\d>|</pre>|</tr>", "\n", content["formatted_body"])
    return html.unescape(re.sub(r"<[^>]+>", "", text)).strip("\n")
