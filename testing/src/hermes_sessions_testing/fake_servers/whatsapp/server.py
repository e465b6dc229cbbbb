"""A fake WhatsApp: the Graph API on a local socket, and calls to a webhook.

::

    with WhatsAppServer() as whatsapp:
        ...  # connect a gateway with whatsapp.token to whatsapp.base_url
        whatsapp.callback = lambda: "http://127.0.0.1:8444/whatsapp"
        whatsapp.write("Hello", person=ANNA)
        whatsapp.wait_for(lambda: whatsapp.sent)
        assert whatsapp.sent[0].text == "Hi, Anna"

Webhook calls are signed, and repeated until they return 200. Tests cause faults with `fail`, `cut`,
`cut_deliveries` and `block`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from hermes_sessions_testing.fake_servers.base import Delivery, SigningFakeServer
from hermes_sessions_testing.fake_servers.http_server import (
    GraphAnswer,
    GraphHttp,
    GraphRequest,
    get,
)

# The users and errors of the fake WhatsApp.


NUMBER_ID: Final = "106540352242922"


NUMBER: Final = "+1 555-078-3881"


Record = dict[str, Any]


class Person(NamedTuple):
    """A WhatsApp user."""

    name: str
    number: str | None
    #: The id that survives a change of number; None where Meta does not send it.
    user_id: str | None = None

    @property
    def id(self) -> str:
        """The id to send messages to."""
        return self.number or self.user_id or ""


ANNA: Final = Person("Anna", "4915700000007", "DE.1349120865530274191")


BERT: Final = Person("Bert", "4915700000008")


GROUP: Final = "Y2FwaV9ncm91cDoxNTU1MDc4Mzg4MToxMjAzNjM0"


class Refusal(Exception):
    """An error response of the Graph API."""

    def __init__(
        self, status: int, code: int, message: str, details: str = "", **headers: str
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.body: Record = {
            "message": f"(#{code}) {message}",
            "type": "OAuthException",
            "code": code,
            "fbtrace_id": "AQDrcbTRGkEQDmVpF0m5W6n",
        }
        if details:
            self.body["error_data"] = {"messaging_product": "whatsapp", "details": details}


def too_many(code: int = 130429, retry_after: float | None = None) -> Refusal:
    """Return the error for a rate limit."""
    headers = {} if retry_after is None else {"Retry_After": f"{retry_after:g}"}
    return Refusal(429, code, "Rate limit hit", "Message failed to send.", **headers)


def outside_window() -> Refusal:
    """Return the error for a message outside the 24-hour window."""
    return Refusal(
        400,
        131047,
        "Re-engagement message",
        "Message failed to send because more than 24 hours have passed since the customer last "
        "replied to this number.",
    )


def contact_of(person: Person) -> Record:
    """Return the contact entry of a user in a webhook call."""
    contact: Record = {"profile": {"name": person.name}}
    if person.number:
        contact["wa_id"] = person.number
    if person.user_id:
        contact["user_id"] = person.user_id
    return contact


def unknown_object(path: str) -> Refusal:
    """Return the error for an unknown object."""
    return Refusal(
        400,
        100,
        f"Unsupported request. Object with ID '{path}' does not exist, cannot be loaded due to "
        f"missing permissions, or does not support this operation.",
    )


TOKEN: Final = "EAAtesttokenoftheserverthatopensnothing"  # noqa: S105 - opens nothing
APP_SECRET: Final = "0123456789abcdef0123456789abcdef"  # noqa: S105
_SIGNATURE: Final = "X-Hub-Signature-256"
_ACCOUNT_ID: Final = "102290129340398"
_MAX_TEXT: Final = 4096
#: Seconds after a user's last message in which replies are allowed.
_WINDOW: Final = 86400.0


@dataclass(frozen=True, slots=True)
class Sent:
    """A message of the gateway."""

    chat_id: str
    message_id: str
    text: str
    key: str | None = None
    reply_to: str | None = None
    is_to_group: bool = False


class WhatsAppServer(SigningFakeServer[Delivery]):
    """The server. It listens from its creation until `close`."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__("whatsapp")
        self.token = TOKEN
        self.app_secret = APP_SECRET
        self.phone_number_id = NUMBER_ID
        self._clock = clock
        #: Messages of the gateway, in the order they were sent.
        self.sent: list[Sent] = []
        #: Read receipts and typing indicators.
        self.marks: list[Record] = []
        self.requests: list[GraphRequest] = []
        #: Contents by media id.
        self.files: dict[str, bytes] = {}
        #: The base URL of media files, if not this server.
        self.file_address: Callable[[str], str] = lambda name: f"{self.base_url}/files/{name}"
        self._last_wrote: dict[str, float] = {}
        self._blocked: set[str] = set()
        self._faults: deque[Refusal | GraphAnswer] = deque()
        self._count = 0
        self._http = GraphHttp(self._answer)
        self._postman.start()

    @property
    def base_url(self) -> str:
        """The URL of the Graph API, for ``platforms.whatsapp.base_url``."""
        return self._http.address

    # ── what users do ─────────────────────────────────────────────────────────────────────────

    def write(
        self,
        text: str | None = None,
        *,
        person: Person = ANNA,
        group: str | None = None,
        **fields: Any,
    ) -> str:
        """Let a user write, and return the message id."""
        message = self.message(text, person=person, group=group, **fields)
        self.push(self.call(self.value([message], [person])))
        return str(message["id"])

    def message(
        self,
        text: str | None = None,
        *,
        person: Person = ANNA,
        group: str | None = None,
        **fields: Any,
    ) -> Record:
        """Return a message as in a webhook call; replies to the user are allowed from now on."""
        with self._changed:
            self._count += 1
            number = self._count
            self._last_wrote[group or person.id] = self._clock()
            if person.user_id:
                self._last_wrote[person.user_id] = self._clock()
        message: Record = {
            "id": f"wamid.HBgNNDkxNTc{number:08d}==",
            "timestamp": str(int(self._clock())),
            "type": "text",
        }
        if person.number:
            message["from"] = person.number
        if person.user_id:
            message["from_user_id"] = person.user_id
        if group is not None:
            message["group_id"] = group
        if text is not None:
            message["text"] = {"body": text}
        return message | fields

    def value(
        self,
        messages: list[Any],
        people: list[Person] | None = None,
        statuses: list[Record] | None = None,
    ) -> Record:
        """Return the change object of a call: messages, contacts and statuses."""
        value: Record = {
            "messaging_product": "whatsapp",
            "metadata": {
                "display_phone_number": "15550783881",
                "phone_number_id": self.phone_number_id,
            },
        }
        if messages:
            value["messages"] = messages
            value["contacts"] = [contact_of(person) for person in people or [ANNA]]
        if statuses:
            value["statuses"] = statuses
        return value

    def call(self, *values: Any, field: str = "messages") -> Record:
        """Return the body of a webhook call."""
        changes = [{"value": value, "field": field} for value in values]
        return {
            "object": "whatsapp_business_account",
            "entry": [{"id": _ACCOUNT_ID, "changes": changes}],
        }

    def tell_status(self, message_id: str, status: str, **fields: Any) -> None:
        """Send a delivery status of a message to the gateway."""
        sent = next(sent for sent in self.sent if sent.message_id == message_id)
        told = {
            "id": message_id,
            "status": status,
            "timestamp": str(int(self._clock())),
            "recipient_id": sent.chat_id,
            "biz_opaque_callback_data": sent.key,
        }
        self.push(self.call(self.value([], statuses=[told | fields])))

    def push(self, *calls: object, signature: str | None = None) -> None:
        """Deliver payloads to the webhook in this order, unchanged: JSON or any bytes.

        The same payload may be pushed twice. *signature* replaces the valid one.
        """
        headers = None if signature is None else {_SIGNATURE: signature}
        with self._changed:
            for call in calls:
                body = call if isinstance(call, bytes) else json.dumps(call).encode()
                self._waiting.append(Delivery(body=body, headers=headers))
            self._changed.notify_all()

    def block(self, chat_id: str) -> None:
        """Let a user block the number."""
        self._blocked.add(chat_id)

    def verify(self, verify_token: str, challenge: str = "1158201444") -> bool:
        """Verify the webhook, as Meta does during set-up."""
        query = {"hub.mode": "subscribe", "hub.challenge": challenge}
        status, body = get(self.callback(), query | {"hub.verify_token": verify_token})
        return status == 200 and body == challenge.encode()

    # ── what goes wrong ───────────────────────────────────────────────────────────────────────

    def fail(self, *refusals: Refusal) -> None:
        """Refuse the next messages of the gateway, one per refusal."""
        with self._changed:
            self._faults.extend(refusals)

    def cut(self, *, is_done: bool = False) -> None:
        """Drop the connection during the next message of the gateway.

        With *is_done*, the message is sent.
        """
        with self._changed:
            self._faults.append(GraphAnswer(is_cut=True, is_done=is_done))

    def babble(self, body: bytes = b"<html>busy</html>", status: int = 502) -> None:
        """Answer the next message with something other than the Graph API's JSON."""
        with self._changed:
            self._faults.append(GraphAnswer(status, body))

    def drop_connections(self) -> None:
        """Drop every open connection to the Graph API."""
        self._http.drop_connections()

    # ── what tests observe─────────────────────────────────────────────────────────────────────

    @property
    def waiting(self) -> list[bytes]:
        """The bodies of unconfirmed webhook calls."""
        with self._changed:
            return [delivery.body for delivery in self._waiting]

    def _stop_listening(self) -> None:
        self._http.close()

    # ── the Graph API ─────────────────────────────────────────────────────────────────────────

    def _answer(self, request: GraphRequest) -> GraphAnswer:
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        try:
            if request.token != self.token:
                raise Refusal(401, 190, "Invalid OAuth access token - Cannot parse access token")
            if request.path.startswith("/files/"):
                content = self.files.get(request.path.removeprefix("/files/"))
                return GraphAnswer(404) if content is None else GraphAnswer(200, content)
            return self._call(request)
        except Refusal as refusal:
            return _json({"error": refusal.body}, refusal.status, refusal.headers)

    def _call(self, request: GraphRequest) -> GraphAnswer:
        _version, _, path = request.path.removeprefix("/").partition("/")
        match request.method, path:
            case "GET", self.phone_number_id:
                number = {"id": path, "display_phone_number": NUMBER, "verified_name": "Hermes"}
                return _json(number)
            case "POST", _ if path == f"{self.phone_number_id}/messages":
                return self._post_message(_parsed(request.body))
            case "GET", _ if path in self.files:
                return _json(self._file(path))
        raise unknown_object(path)

    def _post_message(self, message: Record) -> GraphAnswer:
        if message.get("messaging_product") != "whatsapp":
            raise Refusal(400, 100, "The parameter messaging_product is required.")
        if "status" in message:
            with self._changed:
                self.marks.append(message)
                self._changed.notify_all()
            return _json({"success": True})
        with self._changed:
            fault = self._faults.popleft() if self._faults else None
        if isinstance(fault, Refusal):
            raise fault
        if fault is not None and not fault.is_done:
            return fault
        answer = self._take_message(message)
        return fault or answer

    def _take_message(self, message: Record) -> GraphAnswer:
        chat_id = str(message.get("to") or message.get("recipient") or "")
        body = message.get("text", {}).get("body")
        if not isinstance(body, str) or not body.strip():
            raise Refusal(400, 100, "The parameter text['body'] is required.")
        if len(body) > _MAX_TEXT:
            raise Refusal(
                400, 100, f"Param text['body'] must be at most {_MAX_TEXT} characters long."
            )
        if chat_id not in self._last_wrote or chat_id in self._blocked:
            raise Refusal(400, 131026, "Message undeliverable", "Message Undeliverable.")
        if self._clock() - self._last_wrote[chat_id] > _WINDOW:
            raise outside_window()
        is_to_group = message.get("recipient_type") == "group"
        if is_to_group is not (chat_id == GROUP):
            raise Refusal(400, 100, "Invalid parameter", "recipient_type does not fit.")
        with self._changed:
            sent = Sent(
                chat_id,
                f"wamid.HBgLMTU1NTA3OD{len(self.sent):08d}==",
                body,
                message.get("biz_opaque_callback_data"),
                message.get("context", {}).get("message_id"),
                is_to_group,
            )
            self.sent.append(sent)
            self._changed.notify_all()
        contact = {"input": chat_id, "wa_id": chat_id}
        return _json(
            {
                "messaging_product": "whatsapp",
                "contacts": [contact],
                "messages": [{"id": sent.message_id}],
            }
        )

    def _file(self, name: str) -> Record:
        content = self.files[name]
        return {
            "messaging_product": "whatsapp",
            "url": self.file_address(name),
            "mime_type": "image/jpeg",
            "sha256": hashlib.sha256(content).hexdigest(),
            "file_size": len(content),
            "id": name,
        }

    # ── the webhook ───────────────────────────────────────────────────────────────────────────

    def sign(self, body: bytes) -> str:
        """Return the signature of a body."""
        digest = hmac.new(self.app_secret.encode(), body, hashlib.sha256).hexdigest()
        return f"sha256={digest}"

    def _headers(self, delivery: Delivery) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "User-Agent": "facebookexternalua"}
        if delivery.headers is not None:
            return headers | dict(delivery.headers)
        return headers | {_SIGNATURE: self.sign(delivery.body)}


def _parsed(body: bytes) -> Record:
    try:
        message = json.loads(body)
    except ValueError:
        raise Refusal(400, 100, "Invalid parameter") from None
    return message if isinstance(message, dict) else {}


def _json(
    value: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> GraphAnswer:
    kind = {"Content-Type": "application/json; charset=UTF-8"}
    return GraphAnswer(status, json.dumps(value).encode(), kind | dict(headers or {}))
