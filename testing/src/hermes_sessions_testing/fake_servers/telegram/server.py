"""A fake Telegram: the Bot API on a local socket.

::

    with TelegramServer() as telegram:
        ...  # connect a bot with telegram.token to telegram.base_url
        telegram.write("Hello", user=ANNA)
        telegram.wait_for(lambda: telegram.sent)
        assert telegram.sent[0].text == "Hi, Anna"

Updates stay queued until the bot confirms them by an offset, or accepts them on its webhook. Tests
cause faults with `fail`, `cut` and `block`.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hermes_sessions_testing.fake_servers.base import FakeServer
from hermes_sessions_testing.fake_servers.http_server import Answer, HttpServer, post
from hermes_sessions_testing.fake_servers.telegram.markup import MarkupError, shown_text

TOKEN: Final = "123456789:AAbbccddeeffgghhiijjkkllmmnnooppqqr"  # noqa: S105 - opens nothing
BOT: Final = {"id": 123456789, "is_bot": True, "first_name": "Hermes", "username": "hermes_bot"}
ANNA: Final = {"id": 7, "is_bot": False, "first_name": "Anna", "username": "anna"}
BERT: Final = {"id": 8, "is_bot": False, "first_name": "Bert", "username": "bert"}
GROUP: Final = {"id": -100200, "type": "supergroup", "title": "Team", "is_forum": True}

_NOT_MODIFIED: Final = (
    "message is not modified: specified new message content and reply markup are exactly the same "
    "as a current content and reply markup of the message"
)

Params = Mapping[str, Any]
Record = dict[str, Any]


class Refusal(Exception):
    """An error response of the Bot API."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters


def bad_request(description: str, **parameters: int) -> Refusal:
    """Return the error for a bad request."""
    return Refusal(400, f"Bad Request: {description}", **parameters)


def too_many(retry_after: int) -> Refusal:
    """Return the error for a rate limit."""
    return Refusal(429, f"Too Many Requests: retry after {retry_after}", retry_after=retry_after)


@dataclass(slots=True)
class Sent:
    """A message of the bot, as users see it now."""

    chat_id: int
    message_id: int
    #: The text without markup.
    text: str
    #: The text as the bot sent it.
    raw: str
    parse_mode: str | None = None
    thread_id: int | None = None
    reply_to: int | None = None
    #: Earlier texts of an edited message.
    earlier: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Call:
    """A recorded request of the bot."""

    method: str
    params: Params


class TelegramServer(FakeServer):
    """The server. It listens from its creation until `close`."""

    def __init__(self, token: str = TOKEN) -> None:
        super().__init__("telegram")
        self.token = token
        #: Messages of the bot, in the order they were sent.
        self.sent: list[Sent] = []
        self.calls: list[Call] = []
        #: Maps the URL of a webhook to the address to call, as a reverse proxy would.
        self.route: Callable[[str], str] = lambda url: url
        #: The bot's command menu.
        self.commands: dict[str, str] = {}
        #: Contents by file id, for getFile.
        self.files: dict[str, bytes] = {}
        self._updates: deque[Record] = deque()
        self._next_update = 1000
        self._next_message = 1
        self._chats: dict[int, Record] = {}
        self._threads: defaultdict[int, set[int]] = defaultdict(set)
        self._blocked: set[int] = set()
        self._moved: dict[int, int] = {}
        self._faults: defaultdict[str, deque[Refusal | Answer]] = defaultdict(deque)
        self._webhook: Record = {}
        self._polls = 0
        self._methods: dict[str, Callable[[Params], Any]] = {
            name.removeprefix("_do_").lower(): getattr(self, name)
            for name in dir(self)
            if name.startswith("_do_")
        }
        self._http = HttpServer(self._answer)
        self._postman.start()

    @property
    def base_url(self) -> str:
        """The base URL for bots, for ``platforms.telegram.base_url``."""
        return self._http.address

    # ── what users do ─────────────────────────────────────────────────────────────────────────

    def write(
        self,
        text: str | None = None,
        *,
        user: Params = ANNA,
        chat: Params | None = None,
        thread_id: int | None = None,
        **fields: Any,
    ) -> int:
        """Let a user write, in a private chat unless *chat* is given. Return the message id."""
        chat = dict(chat or {"id": user["id"], "type": "private", "first_name": user["first_name"]})
        with self._changed:
            message_id = self._take_message_id()
        message = {"message_id": message_id, "date": 1700000000, "chat": chat, "from": dict(user)}
        if text is not None:
            message["text"] = text
        if thread_id is not None:
            message |= {"message_thread_id": thread_id, "is_topic_message": True}
        self.push({"message": message | fields})
        return message_id

    def push(self, *updates: Params) -> list[int]:
        """Deliver updates unchanged and together, number those without one, return the numbers.

        The same content may be pushed twice, in any order.
        """
        numbers = []
        with self._changed:
            for update in updates:
                number = update.get("update_id", self._next_update)
                self._next_update = max(self._next_update, number) + 1
                self._meet(update.get("message"))
                self._updates.append({"update_id": number, **update})
                numbers.append(number)
            self._changed.notify_all()
        return numbers

    def block(self, chat_id: int) -> None:
        """Let a user block the bot."""
        self._blocked.add(chat_id)

    def delete_topic(self, chat_id: int, thread_id: int) -> None:
        """Delete a topic."""
        self._threads[chat_id].discard(thread_id)

    def move(self, chat_id: int, new_chat_id: int) -> None:
        """Turn a group into a supergroup with a new id."""
        self._chats[new_chat_id] = self._chats[chat_id] | {"id": new_chat_id}
        self._moved[chat_id] = new_chat_id

    # ── what goes wrong ───────────────────────────────────────────────────────────────────────

    def fail(self, method: str, *refusals: Refusal) -> None:
        """Refuse the next calls of a method, one per refusal."""
        with self._changed:
            self._faults[method.lower()].extend(refusals)

    def cut(self, method: str, *, times: int = 1, is_done: bool = False) -> None:
        """Drop the connection of the next calls before responding.

        With *is_done*, the call takes effect.
        """
        with self._changed:
            self._faults[method.lower()].extend([Answer(is_cut=True, is_done=is_done)] * times)

    def drop_connections(self) -> None:
        """Drop every open connection."""
        self._http.drop_connections()

    def babble(self, method: str, body: bytes = b"<html>busy</html>", status: int = 200) -> None:
        """Answer the next call with something other than the Bot API's JSON."""
        with self._changed:
            self._faults[method.lower()].append(Answer(status, body))

    # ── what tests observe─────────────────────────────────────────────────────────────────────

    @property
    def waiting(self) -> list[int]:
        """The numbers of unconfirmed updates."""
        with self._changed:
            return [update["update_id"] for update in self._updates]

    @property
    def webhook(self) -> Record:
        """The parameters of the last setWebhook; empty without a webhook."""
        return dict(self._webhook)

    def calls_of(self, method: str) -> list[Call]:
        """Return the recorded calls of a method."""
        return [call for call in list(self.calls) if call.method == method.lower()]

    def _stop_listening(self) -> None:
        self._http.close()

    # ── the Bot API ───────────────────────────────────────────────────────────────────────────

    def _answer(self, path: str, params: Params) -> Answer:
        if path.startswith(f"/file/bot{self.token}/"):
            content = self.files.get(path.rpartition("/")[2])
            return Answer(404) if content is None else Answer(200, content)
        token, _, method = path.removeprefix("/bot").partition("/")
        method = method.lower()
        try:
            if token != self.token:
                raise Refusal(401, "Unauthorized")
            if method not in self._methods:
                raise Refusal(404, "Not Found")
            fault = self._record(Call(method, params))
            if isinstance(fault, Refusal):
                raise fault
            if fault is not None and not fault.is_done:
                return fault
            result = self._methods[method](params)
        except Refusal as refusal:
            body: Record = {"ok": False, "error_code": refusal.code}
            body["description"] = refusal.description
            if refusal.parameters:
                body["parameters"] = refusal.parameters
            return Answer(refusal.code, json.dumps(body).encode())
        return fault or Answer(200, json.dumps({"ok": True, "result": result}).encode())

    def _record(self, call: Call) -> Refusal | Answer | None:
        with self._changed:
            self.calls.append(call)
            self._changed.notify_all()
            faults = self._faults[call.method]
            return faults.popleft() if faults else None

    def _do_getMe(self, _params: Params) -> Record:  # noqa: N802 - its name there
        return dict(BOT) | {"can_join_groups": True, "has_topics_enabled": True}

    def _do_getUpdates(self, params: Params) -> list[Record]:  # noqa: N802
        offset, limit = int(params.get("offset", 0)), int(params.get("limit", 100))
        with self._changed:
            if self._webhook:
                raise Refusal(
                    409,
                    "Conflict: can't use getUpdates method while webhook is active; use "
                    "deleteWebhook to delete the webhook first",
                )
            self._polls += 1
            poll = self._polls
            self._updates = deque(each for each in self._updates if each["update_id"] >= offset)
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._updates or self._polls != poll or self._is_over,
                float(params.get("timeout", 0)),
            )
            if self._polls != poll:
                raise Refusal(
                    409,
                    "Conflict: terminated by other getUpdates request; make sure that only one "
                    "bot instance is running",
                )
            return list(self._updates)[:limit]

    def _do_setWebhook(self, params: Params) -> bool:  # noqa: N802
        with self._changed:
            self._webhook = dict(params)
            self._changed.notify_all()
        return True

    def _do_deleteWebhook(self, params: Params) -> bool:  # noqa: N802
        with self._changed:
            self._webhook = {}
            if params.get("drop_pending_updates") in (True, "true", "True"):
                self._updates.clear()
        return True

    def _do_sendMessage(self, params: Params) -> Record:  # noqa: N802
        chat = self._chat(params)
        thread_id = int(params["message_thread_id"]) if "message_thread_id" in params else None
        if thread_id is not None and thread_id not in self._threads[chat["id"]]:
            raise bad_request("message thread not found")
        text = _shown(params)
        reply = _parsed(params.get("reply_parameters")) or {}
        with self._changed:
            sent = Sent(
                chat["id"],
                self._take_message_id(),
                text,
                str(params.get("text")),
                params.get("parse_mode"),
                thread_id,
                reply.get("message_id"),
            )
            self.sent.append(sent)
            self._changed.notify_all()
        return self._shown_message(sent, chat)

    def _do_editMessageText(self, params: Params) -> Record:  # noqa: N802
        chat = self._chat(params)
        text = _shown(params)
        with self._changed:
            for sent in self.sent:
                if (sent.chat_id, str(sent.message_id)) == (chat["id"], params.get("message_id")):
                    break
            else:
                raise bad_request("message to edit not found")
            if sent.raw == params.get("text"):
                raise bad_request(_NOT_MODIFIED)
            sent.earlier.append(sent.text)
            sent.text, sent.raw = text, str(params.get("text"))
            self._changed.notify_all()
        return self._shown_message(sent, chat)

    def _do_sendChatAction(self, params: Params) -> bool:  # noqa: N802
        self._chat(params)
        return True

    def _do_setMyCommands(self, params: Params) -> bool:  # noqa: N802
        self.commands = {
            each["command"]: each["description"] for each in json.loads(params["commands"])
        }
        return True

    def _do_getFile(self, params: Params) -> Record:  # noqa: N802
        name = str(params.get("file_id"))
        if name not in self.files:
            raise bad_request("wrong file_id or the file is temporarily unavailable")
        size = len(self.files[name])
        return {"file_id": name, "file_unique_id": name, "file_path": name, "file_size": size}

    def _chat(self, params: Params) -> Record:
        try:
            chat_id = int(params.get("chat_id", ""))
        except ValueError:
            raise bad_request("chat not found") from None
        if chat_id in self._moved:
            raise bad_request(
                "group chat was upgraded to a supergroup chat",
                migrate_to_chat_id=self._moved[chat_id],
            )
        if chat_id in self._blocked:
            raise Refusal(403, "Forbidden: bot was blocked by the user")
        if chat_id not in self._chats:
            raise bad_request("chat not found")
        return self._chats[chat_id]

    def _meet(self, message: object) -> None:
        """Record the chat and topic of a message, if any."""
        chat = message.get("chat") if isinstance(message, Mapping) else None
        if isinstance(message, Mapping) and isinstance(chat, Mapping):
            self._chats[chat.get("id", 0)] = dict(chat)
            if message.get("message_thread_id"):
                self._threads[chat["id"]].add(message["message_thread_id"])

    def _take_message_id(self) -> int:
        self._next_message += 1
        return self._next_message - 1

    def _shown_message(self, sent: Sent, chat: Record) -> Record:
        message = {"message_id": sent.message_id, "date": 1700000001, "chat": chat, "from": BOT}
        return message | {"text": sent.text}

    # ── webhooks ──────────────────────────────────────────────────────────────────────────────

    def _deliver(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over or (self._webhook and self._updates))
                if self._is_over:
                    return
                update, webhook = self._updates[0], self._webhook
            headers = {"Content-Type": "application/json"}
            if "secret_token" in webhook:
                headers["X-Telegram-Bot-Api-Secret-Token"] = webhook["secret_token"]
            status = post(self.route(webhook["url"]), json.dumps(update).encode(), headers)
            with self._changed:
                if 200 <= status < 300:
                    self._updates.remove(update)
                self._note(status, comes_again=status >= 300)


def _shown(params: Params) -> str:
    text = str(params.get("text", ""))
    if params.get("parse_mode") == "HTML":
        try:
            text = shown_text(text)
        except MarkupError as error:
            raise bad_request(f"can't parse entities: {error}") from None
    text = text.strip()
    if not text:
        raise bad_request("message text is empty")
    if len(text.encode("utf-16-le", "surrogatepass")) // 2 > 4096:
        raise bad_request("message is too long")
    return text


def _parsed(value: object) -> Any:
    return json.loads(value) if isinstance(value, str) else value
