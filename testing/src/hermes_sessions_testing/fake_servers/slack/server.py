"""A fake Slack: Web API, Socket Mode and signed Events API calls on local sockets.

::

    with SlackServer() as slack:
        ...  # connect an app with slack.token and slack.app_token to slack.base_url
        slack.write("Hello")
        slack.wait_for(lambda: slack.sent)
        assert slack.sent[0].shown == "Hi, Anna"

With ``SlackServer(mode="events")`` it posts events to `callback` instead, signed with
`signing_secret`. Unconfirmed events are repeated without end, as with *Delayed Events* turned on.
Tests cause faults with `api.fail`, `api.cut`, `api.refuse`, `drop_connections` and
`ask_to_reconnect`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlencode

from hermes_sessions_testing.fake_servers.base import Delivery, SigningFakeServer
from hermes_sessions_testing.fake_servers.slack.api import WebApi
from hermes_sessions_testing.fake_servers.slack.transport import (
    ApiAnswer,
    ApiCall,
    Link,
    SlackTransport,
)
from hermes_sessions_testing.fake_servers.slack.workspace import (
    ANNA,
    APP_ID,
    BOT_USER_ID,
    SIGNING_SECRET,
    TEAM_ID,
    Person,
    Place,
    Record,
    Sent,
    callback,
    escape,
)

_FORM: Final = "application/x-www-form-urlencoded"


@dataclass(slots=True, eq=False, kw_only=True)
class _Delivery(Delivery):
    kind: str
    id: str
    attempts: int = 0


class SlackServer(SigningFakeServer[_Delivery]):
    """The server. It listens from its creation until `close`."""

    def __init__(
        self,
        *,
        mode: Literal["socket", "events"] = "socket",
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("slack")
        self.mode = mode
        self.signing_secret = SIGNING_SECRET
        self.api = WebApi(self._changed, clock)
        #: Event types that the app subscribes to; a mention in a channel is of both.
        self.subscribed = {"message", "app_mention"}
        #: Headers of the Events API calls.
        self.headers: list[Mapping[str, str]] = []
        #: Ids of acknowledged envelopes.
        self.acknowledged: set[str] = set()
        #: The number of WebSockets opened so far.
        self.opened = 0
        self._clock = clock
        self._count = 0
        self._wire = SlackTransport(self)
        self.api.address = self._wire.address
        if mode == "events":
            self._postman.start()

    @property
    def base_url(self) -> str:
        """The URL of the Web API, for ``platforms.slack.base_url``."""
        return f"http://{self._wire.address}/api"

    @property
    def token(self) -> str:
        """The bot token."""
        return self.api.token

    @property
    def app_token(self) -> str:
        """The app-level token."""
        return self.api.app_token

    @property
    def sent(self) -> list[Sent]:
        """Messages of the app, in the order they were sent."""
        return self.api.sent

    # ── what users do ─────────────────────────────────────────────────────────────────────────

    def write(
        self,
        text: str = "",
        *,
        person: Person = ANNA,
        place: Place | None = None,
        is_mention: bool = False,
        **fields: Any,
    ) -> str:
        """Let a user write, in private unless a place is given. Return the message's ``ts``."""
        event = self.event(text, person=person, place=place, is_mention=is_mention, **fields)
        if "message" in self.subscribed:
            self.push(self.envelop(event))
        if is_mention and place is not None and "app_mention" in self.subscribed:
            mention = {key: event[key] for key in event if key != "channel_type"}
            self.push(self.envelop(mention | {"type": "app_mention"}))
        return str(event["ts"])

    def event(
        self,
        text: str = "",
        *,
        person: Person = ANNA,
        place: Place | None = None,
        is_mention: bool = False,
        **fields: Any,
    ) -> Record:
        """Return a message event for *text* as the user typed it."""
        name = f"<@{BOT_USER_ID}> " if is_mention else ""
        ts = self.api.next_ts()
        event: Record = {
            "type": "message",
            "user": person.id,
            "text": name + escape(text),
            "ts": ts,
            "team": TEAM_ID,
            "channel": place.id if place else person.chat,
            "event_ts": ts,
            "channel_type": place.kind if place else "im",
        }
        event |= fields
        with self._changed:
            self.api.said.append(event)
        return event

    def envelop(self, event: Mapping[str, Any]) -> Record:
        """Return an event in the envelope of the Events API."""
        with self._changed:
            self._count += 1
            return callback(event, self._count, self._clock())

    def type_command(
        self,
        text: str,
        *,
        command: str = "/hermes",
        person: Person = ANNA,
        place: Place | None = None,
        **fields: str,
    ) -> Record:
        """Let a user type a slash command; return the payload that Slack sends."""
        with self._changed:
            self._count += 1
            number = self._count
        payload: Record = {
            "token": "unused",
            "team_id": TEAM_ID,
            "team_domain": "test",
            "channel_id": place.id if place else person.chat,
            "channel_name": place.name if place else "directmessage",
            "user_id": person.id,
            "user_name": person.name.lower(),
            "command": command,
            "text": text,
            "api_app_id": APP_ID,
            "is_enterprise_install": "false",
            "response_url": f"http://{self._wire.address}/response",
            "trigger_id": f"13345224609.738474920.{number:032x}",
        }
        self.push(payload | fields, kind="slash_commands")
        return payload | fields

    def push(
        self, payload: object, *, kind: str = "events_api", headers: Mapping[str, str] | None = None
    ) -> str:
        """Deliver a payload unchanged, JSON or any bytes, and return its id.

        *headers* replace those that Slack sends with a call.
        """
        if isinstance(payload, bytes):
            body = payload
        elif kind == "slash_commands" and self.mode == "events":
            body = urlencode(payload).encode()  # type: ignore[arg-type]
        else:
            body = json.dumps(payload).encode()
        with self._changed:
            self._count += 1
            delivery = _Delivery(
                kind=kind, body=body, id=f"envelope-{self._count}", headers=headers
            )
            self._waiting.append(delivery)
            self._changed.notify_all()
        self._wire.wake()
        return delivery.id

    # ── what goes wrong ───────────────────────────────────────────────────────────────────────

    def drop_connections(self) -> None:
        """Drop every open connection."""
        self._wire.drop()

    def drop_sockets(self) -> None:
        """Drop every open WebSocket."""
        self._wire.drop_sockets()

    def ask_to_reconnect(self, reason: str = "refresh_requested") -> None:
        """Ask the app to open a new WebSocket, as Slack does every few hours."""
        self._wire.tell({"type": "disconnect", "reason": reason, "debug_info": {"host": "applink"}})

    def send_frame(self, frame: Mapping[str, Any]) -> None:
        """Send a raw frame on every WebSocket."""
        self._wire.tell(frame)

    # ── what tests observe─────────────────────────────────────────────────────────────────────

    @property
    def waiting(self) -> list[str]:
        """The ids of unconfirmed payloads."""
        with self._changed:
            return [delivery.id for delivery in self._waiting]

    def _stop_listening(self) -> None:
        self._wire.close()

    # ── transport─────────────────────────────────────────────────────────────────────────────

    def answer(self, call: ApiCall) -> ApiAnswer:
        """See `SlackBackend`."""
        return self.api.answer(call)

    def file(self, name: str, token: str | None) -> ApiAnswer:
        """See `SlackBackend`."""
        return self.api.file(name, token)

    def outgoing(self, link: Link) -> list[str]:
        """See `SlackBackend`: every payload that was not sent on this WebSocket yet."""
        with self._changed:
            if self.mode != "socket":
                return []
            due = [each for each in self._waiting if each.id not in link.sent]
            frames = []
            for delivery in due:
                link.sent.add(delivery.id)
                frames.append(_frame(delivery))
                delivery.attempts += 1
            return frames

    def incoming(self, frame: str) -> None:
        """See `SlackBackend`: an acknowledgement."""
        envelope_id = json.loads(frame).get("envelope_id")
        with self._changed:
            self.acknowledged.add(str(envelope_id))
            for delivery in [each for each in self._waiting if each.id == envelope_id]:
                self._waiting.remove(delivery)
            self._changed.notify_all()

    def linked(self) -> None:
        """See `SlackBackend`."""
        with self._changed:
            self.opened += 1
            self._changed.notify_all()

    # ── the Events API ────────────────────────────────────────────────────────────────────────

    def sign(self, body: bytes, timestamp: str) -> str:
        """Return the signature of a body."""
        signed = b"v0:" + timestamp.encode() + b":" + body
        digest = hmac.new(self.signing_secret.encode(), signed, hashlib.sha256).hexdigest()
        return f"v0={digest}"

    def headers_for(self, body: bytes, *, now: float | None = None) -> dict[str, str]:
        """Return the headers that Slack sends with a body."""
        timestamp = str(int(self._clock() if now is None else now))
        return {
            "X-Slack-Request-Timestamp": timestamp,
            "X-Slack-Signature": self.sign(body, timestamp),
        }

    def _headers(self, delivery: _Delivery) -> dict[str, str]:
        is_form = delivery.kind == "slash_commands"
        headers = {"Content-Type": _FORM if is_form else "application/json"}
        headers |= delivery.headers or self.headers_for(delivery.body)
        if delivery.attempts:
            headers["X-Slack-Retry-Num"] = str(delivery.attempts)
            headers["X-Slack-Retry-Reason"] = "http_error"
        delivery.attempts += 1
        with self._changed:
            self.headers.append(headers)
        return headers


def _frame(delivery: _Delivery) -> str:
    """Return a Socket Mode envelope; a payload that is not JSON is embedded unchanged."""
    envelope: Record = {
        "envelope_id": delivery.id,
        "type": delivery.kind,
        "accepts_response_payload": delivery.kind != "events_api",
    }
    if delivery.attempts:
        envelope |= {"retry_attempt": delivery.attempts, "retry_reason": "timeout"}
    try:
        envelope["payload"] = json.loads(delivery.body)
    except (ValueError, RecursionError):
        envelope["payload"] = delivery.body.decode("utf-8", "replace")
    return json.dumps(envelope)
