"""The Web API of the fake Slack: its methods, and the errors they return."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from hermes_sessions_testing.fake_servers.slack.transport import ApiAnswer, ApiCall
from hermes_sessions_testing.fake_servers.slack.workspace import (
    ANNA,
    APP_TOKEN,
    BERT,
    BOT_ID,
    BOT_USER_ID,
    GENERAL,
    GROUP,
    SCOPES,
    SECRET,
    TEAM_ID,
    TOKEN,
    Person,
    Place,
    Record,
    Refusal,
    Sent,
    missing_scope,
)

#: Parameters of chat.postMessage and chat.update.
MAX_POST: Final = 40_000
MAX_UPDATE: Final = 4_000
#: The scopes that a method needs.
_SCOPE_OF: Final = {
    "chat.postMessage": "chat:write",
    "chat.update": "chat:write",
    "chat.delete": "chat:write",
    "users.info": "users:read",
    "conversations.info": "channels:read",
    "conversations.replies": "channels:history",
    "files.info": "files:read",
}


class WebApi:
    """The methods of the Web API. May be called from any thread."""

    def __init__(self, changed: threading.Condition, clock: Callable[[], float]) -> None:
        self._changed = changed
        self._clock = clock
        self._count = 0
        self._faults: deque[ApiAnswer | Refusal] = deque()
        self._refused: dict[str, Refusal] = {}
        self._held: set[str] = set()
        self._closed: dict[str, str] = {}
        self.token = TOKEN
        self.app_token = APP_TOKEN
        #: Scopes of the token, separated by commas.
        self.scopes = SCOPES
        self.address = ""
        self.people: dict[str, Person] = {person.id: person for person in (ANNA, BERT)}
        self.places: dict[str, Place] = {place.id: place for place in (GENERAL, SECRET, GROUP)}
        #: Messages of the app, in the order they were sent.
        self.sent: list[Sent] = []
        #: Messages of users, as in events.
        self.said: list[Record] = []
        self.calls: list[ApiCall] = []
        #: Contents by file id, and extra fields of ``files.info``.
        self.files: dict[str, bytes] = {}
        self.file_records: dict[str, Record] = {}

    def next_ts(self) -> str:
        """Return a new message id."""
        with self._changed:
            self._count += 1
            return f"{int(self._clock())}.{self._count:06d}"

    # ── what goes wrong ───────────────────────────────────────────────────────────────────────

    def fail(self, *refusals: Refusal) -> None:
        """Refuse the next messages of the app, one per refusal."""
        with self._changed:
            self._faults.extend(refusals)

    def cut(self, *, is_done: bool = False) -> None:
        """Drop the connection during the next message; with *is_done*, the message is sent."""
        with self._changed:
            self._faults.append(ApiAnswer(b"done" if is_done else b"", is_cut=True))

    def babble(
        self, body: bytes = b"<html>busy</html>", status: int = 502, kind: str = "text/html"
    ) -> None:
        """Answer the next message with something other than the Web API's JSON."""
        with self._changed:
            self._faults.append(ApiAnswer(body, status, content_type=kind))

    def refuse(self, method: str, refusal: Refusal) -> None:
        """Refuse a method from now on."""
        self._refused[method] = refusal

    def hold(self, method: str) -> None:
        """Never respond to a method from now on."""
        self._held.add(method)

    def allow(self, method: str) -> None:
        """Allow a refused method again."""
        self._refused.pop(method, None)

    def close_chat(self, channel: str, error: str = "is_archived") -> None:
        """Refuse all further messages in a chat."""
        self._closed[channel] = error

    # ── responses ────────────────────────────────────────────────────────────────────────────

    def answer(self, call: ApiCall) -> ApiAnswer:
        """Return the response to a call."""
        try:
            with self._changed:
                self.calls.append(call)
                try:
                    return self._called(call)
                finally:
                    self._changed.notify_all()
        except Refusal as refusal:
            return _json(refusal.body, refusal.status, refusal.headers)

    def file(self, name: str, token: str | None) -> ApiAnswer:
        """Return a file, or Slack's login page without a valid token."""
        if token != self.token or "files:read" not in self.scopes:
            return ApiAnswer(b"<!DOCTYPE html><title>Log in</title>", content_type="text/html")
        content = self.files.get(name)
        if content is None:
            return ApiAnswer(b"", 404, content_type="text/html")
        return ApiAnswer(content, content_type="application/octet-stream")

    def _called(self, call: ApiCall) -> ApiAnswer:
        is_for_app = call.method == "apps.connections.open"
        if call.token is None:
            raise Refusal("not_authed")
        if call.token != (self.app_token if is_for_app else self.token):
            is_other = call.token in {self.app_token, self.token}
            raise Refusal("not_allowed_token_type" if is_other else "invalid_auth")
        if call.method in self._held:
            return ApiAnswer(is_held=True)
        if refusal := self._refused.get(call.method):
            raise refusal
        scope = _SCOPE_OF.get(call.method)
        if scope is not None and scope not in self.scopes.split(","):
            raise missing_scope(scope)
        if call.method.startswith("chat.") and self._faults:
            return self._faulty(call)
        return _json({"ok": True} | self._result(call), headers={"X-OAuth-Scopes": self.scopes})

    def _faulty(self, call: ApiCall) -> ApiAnswer:
        fault = self._faults.popleft()
        if isinstance(fault, Refusal):
            raise fault
        if fault.is_cut and fault.body:
            self._result(call)
        return fault

    def _result(self, call: ApiCall) -> Record:
        methods: dict[str, Callable[[Mapping[str, Any]], Record]] = {
            "apps.connections.open": self._open,
            "auth.test": self._identity,
            "chat.delete": self._delete,
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "conversations.info": self._place,
            "conversations.replies": self._replies,
            "files.info": self._file_record,
            "users.info": self._person,
        }
        method = methods.get(call.method)
        if method is None:
            raise Refusal("unknown_method", req_method=call.method)
        return method(call.params)

    def _open(self, _params: Mapping[str, Any]) -> Record:
        return {"url": f"ws://{self.address}/link?ticket=1234-5678&app_id=A0TESTAPP"}

    def _identity(self, _params: Mapping[str, Any]) -> Record:
        return {
            "url": "https://test.slack.com/",
            "team": "Test",
            "user": "hermes",
            "team_id": TEAM_ID,
            "user_id": BOT_USER_ID,
            "bot_id": BOT_ID,
            "is_enterprise_install": False,
        }

    def _post(self, params: Mapping[str, Any]) -> Record:
        channel = str(params.get("channel") or "")
        private = {person.chat for person in self.people.values()}
        if channel in self.people:  # a message to a user id opens the chat
            channel = self.people[channel].chat
        if channel not in private and channel not in self.places:
            raise Refusal("channel_not_found")
        if error := self._closed.get(channel):
            raise Refusal(error)
        text = str(params.get("text") or "")
        if not text.strip():
            raise Refusal("no_text")
        message = Sent(channel, self.next_ts(), text[:MAX_POST], params.get("thread_ts"))
        self.sent.append(message)
        return {"channel": channel, "ts": message.ts, "message": {"text": message.text}}

    def _update(self, params: Mapping[str, Any]) -> Record:
        message = self._message(params)
        text = str(params.get("text") or "")
        if not text.strip():
            raise Refusal("no_text")
        if len(text) > MAX_UPDATE:
            raise Refusal("msg_too_long")
        message.before.append(message.text)
        message.text = text
        return {"channel": message.channel, "ts": message.ts, "text": text}

    def _delete(self, params: Mapping[str, Any]) -> Record:
        message = self._message(params)
        self.sent.remove(message)
        return {"channel": message.channel, "ts": message.ts}

    def _message(self, params: Mapping[str, Any]) -> Sent:
        for message in self.sent:
            if (message.channel, message.ts) == (params.get("channel"), params.get("ts")):
                if closed := self._closed.get(message.channel):
                    raise Refusal(closed)
                return message
        raise Refusal("message_not_found")

    def _person(self, params: Mapping[str, Any]) -> Record:
        person = self.people.get(str(params.get("user")))
        if person is None:
            raise Refusal("user_not_found")
        return {"user": person.record}

    def _place(self, params: Mapping[str, Any]) -> Record:
        place = self.places.get(str(params.get("channel")))
        if place is None:
            raise Refusal("channel_not_found")
        return {"channel": place.record}

    def _replies(self, params: Mapping[str, Any]) -> Record:
        channel, root = params.get("channel"), params.get("ts")
        latest = str(params.get("latest") or "~")
        own = [
            {"ts": sent.ts, "thread_ts": sent.thread_ts, "text": sent.text, "user": BOT_USER_ID}
            for sent in self.sent
            if sent.channel == channel
        ]
        said = [event for event in self.said if event["channel"] == channel]
        found = [each for each in (*own, *said) if root in (each["ts"], each.get("thread_ts"))]
        if not any(each["ts"] == root for each in found):
            raise Refusal("thread_not_found")
        ordered = sorted(found, key=lambda each: str(each["ts"]))
        return {"messages": [each for each in ordered if str(each["ts"]) < latest]}

    def _file_record(self, params: Mapping[str, Any]) -> Record:
        file_id = str(params.get("file"))
        if file_id not in self.files and file_id not in self.file_records:
            raise Refusal("file_not_found")
        address = f"http://{self.address}/files/{file_id}"
        usual = {
            "id": file_id,
            "name": "picture.png",
            "mimetype": "image/png",
            "size": len(self.files.get(file_id, b"")),
            "url_private": address,
            "url_private_download": address,
        }
        return {"file": usual | self.file_records.get(file_id, {})}


def _json(
    value: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> ApiAnswer:
    return ApiAnswer(json.dumps(value).encode(), status, headers or {})
