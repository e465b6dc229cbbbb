"""A fake signal-cli daemon: its JSON-RPC on a local socket.

::

    with SignalDaemon() as signal:
        ...  # connect an adapter with signal.account to signal.address
        signal.write("Hello", user=ANNA)
        signal.wait_for(lambda: signal.sent)
        assert signal.sent[0].text == "Hi, Anna"

Framing, errors and payloads are those of signal-cli 0.13.19. Messages stay queued until a client
subscribes; once written to a connection they are forgotten, whether or not the client reads them.
Tests cause faults with `fail`, `cut` and `hold_back`.
"""

from __future__ import annotations

import json
import re
import threading
import time
from base64 import b64encode
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self

from hermes_sessions_testing.fake_servers.signal.transport import LineServer, Peer

#: Seconds until a wait is a failure; far longer than any test needs.
_PATIENCE: Final = 60.0
_GLANCE: Final = 0.02
ACCOUNT: Final = "+15550100"
ACCOUNT_UUID: Final = "0b9d1e9e-0000-4000-8000-000000000000"


class Person(NamedTuple):
    """A Signal user."""

    uuid: str
    name: str
    #: None if the user hides it.
    number: str | None = None


ANNA: Final = Person("7a000000-0000-4000-8000-00000000000a", "Anna", "+15550107")
BERT: Final = Person("8b000000-0000-4000-8000-00000000000b", "Bert", "+15550108")
GROUP: Final = "Pmpi+EfPWmsxiomLe9Nx2XF9HOE483p6iKiFj65iMwI="

_STYLE: Final = re.compile(r"(\d+):(\d+):(BOLD|ITALIC|MONOSPACE|STRIKETHROUGH|SPOILER)")

Record = dict[str, Any]
Params = Mapping[str, Any]


class Refusal(Exception):
    """An error response of the daemon."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def not_sent(
    kind: str, code: int = -1, message: str = "Failed to send message", **more: Any
) -> Refusal:
    """Return the error for a message without a successful recipient; *kind* is the reason."""
    address = {"uuid": ANNA.uuid, "number": ANNA.number, "username": None}
    result = {"recipientAddress": address, "type": kind, **more}
    return Refusal(code, message, {"response": {"timestamp": _now(), "results": [result]}})


def too_many(retry_after: int | None = None, token: str | None = None) -> Refusal:
    """Return the error for a rate limit; with a token, one that a captcha lifts."""
    message = "Failed to send message due to rate limiting"
    more = {"token": token, "retryAfterSeconds": retry_after}
    return not_sent("RATE_LIMIT_FAILURE", -5, message, **more)


@dataclass(slots=True)
class Sent:
    """A message of the account, as users see it now."""

    #: The UUID, number or group id it was sent to.
    chat_id: str
    timestamp: int
    text: str
    #: Text styles as sent: ``start:length:STYLE``.
    styles: list[str]
    params: Params
    #: Earlier texts of an edited message.
    earlier: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Call:
    """A recorded request of a client."""

    method: str
    params: Params


class SignalDaemon:
    """The daemon. It listens from its creation until `close`."""

    def __init__(
        self,
        *,
        path: Path | None = None,
        is_multi_account: bool = True,
        receive_mode: Literal["manual", "on-connection"] = "manual",
    ) -> None:
        """Listen on a free port, or on *path*."""
        self.accounts: list[str] = [ACCOUNT]
        #: Messages of the account, in the order they were sent.
        self.sent: list[Sent] = []
        self.calls: list[Call] = []
        #: Contents by id, for getAttachment.
        self.files: dict[str, bytes] = {}
        self._is_multi_account = is_multi_account
        self._is_manual = receive_mode == "manual"
        self._path = path
        self._at_signal: deque[Record] = deque()
        self._subscriptions: dict[int, Peer] = {}
        #: Subscriptions of connections that receive without subscribing.
        self._automatic: set[Peer] = set()
        self._next_subscription = 0
        self._last_timestamp = 0
        self._chats: set[str] = {ANNA.uuid, BERT.uuid, GROUP}
        self._blocked: set[str] = set()
        self._faults: defaultdict[str, deque[Refusal | None]] = defaultdict(deque)
        self._held: defaultdict[str, int] = defaultdict(int)
        self._changed = threading.Condition()
        self._methods: dict[str, Callable[[Peer, Params], Any]] = {
            name.removeprefix("_do_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("_do_")
        }
        self._server = LineServer(self._serve, path)

    @property
    def account(self) -> str:
        """The account's number."""
        return ACCOUNT

    @property
    def address(self) -> str:
        """The address it listens on, for ``platforms.signal.address``."""
        return self._server.address

    # ── what users do ─────────────────────────────────────────────────────────────────────────

    def write(
        self,
        text: str | None,
        *,
        user: Person = ANNA,
        group: str | None = None,
        is_addressed: bool = False,
        **fields: Any,
    ) -> int:
        """Let a user write, and return the message's timestamp.

        With *is_addressed*, a mention of the account precedes the text.
        """
        timestamp = self.tick()
        message: Record = {
            "timestamp": timestamp,
            "message": text,
            "expiresInSeconds": 0,
            "viewOnce": False,
        }
        if is_addressed:
            mention = {"name": "Hermes", "number": ACCOUNT, "uuid": ACCOUNT_UUID}
            message["message"] = f"\ufffc {text}"
            message["mentions"] = [mention | {"start": 0, "length": 1}]
        if group is not None:
            info = {"groupId": group, "groupName": "Team", "revision": 1, "type": "DELIVER"}
            message["groupInfo"] = info
        self.push(envelope(user, timestamp, dataMessage=message | fields))
        return timestamp

    def push(self, *envelopes: Params) -> None:
        """Deliver envelopes to Signal unchanged; the same one may be pushed twice."""
        received = ({"envelope": dict(each), "account": ACCOUNT} for each in envelopes)
        self.push_received(*received)

    def push_received(self, *received: Params) -> None:
        """Deliver the parameters of ``receive``: an envelope and its siblings."""
        with self._changed:
            self._at_signal.extend(dict(each) for each in received)
            self._deliver()

    def babble(self, content: bytes) -> None:
        """Send raw bytes to every receiving client."""
        with self._changed:
            for peer in {*self._subscriptions.values(), *self._automatic}:
                peer.write_raw(content)

    def block(self, chat_id: str) -> None:
        """Let a user leave Signal, or a group remove the account."""
        self._blocked.add(chat_id)

    def tick(self) -> int:
        """Return an unused timestamp in milliseconds."""
        with self._changed:
            self._last_timestamp = max(self._last_timestamp + 1, _now())
            return self._last_timestamp

    # ── what goes wrong ───────────────────────────────────────────────────────────────────────

    def fail(self, method: str, refusal: Refusal) -> None:
        """Refuse the next call of a method."""
        self._faults[method].append(refusal)

    def cut(self, method: str) -> None:
        """Drop the connection on the next call of a method, without carrying it out."""
        self._faults[method].append(None)

    def hold_back(self, method: str) -> None:
        """Delay the next response of a method until another one was sent."""
        self._held[method] += 1

    def drop_connections(self) -> None:
        """Drop every open connection."""
        with self._changed:
            self._subscriptions.clear()
            self._automatic.clear()
            self._server.cut_all()

    def restart(self) -> None:
        """Stop and listen again on the same path."""
        self._server.close()
        if self._path is None:
            raise AssertionError("only a daemon with a path comes back at the same address")
        self._path.unlink()
        self._server = LineServer(self._serve, self._path)

    # ── what tests observe─────────────────────────────────────────────────────────────────────

    @property
    def waiting(self) -> list[int]:
        """The timestamps of messages that no client has received yet."""
        with self._changed:
            return [each.get("envelope", {}).get("timestamp") for each in self._at_signal]

    @property
    def subscribers(self) -> int:
        """The number of subscriptions."""
        return len(self._subscriptions)

    def calls_of(self, method: str) -> list[Call]:
        """Return the recorded calls of a method."""
        return [call for call in list(self.calls) if call.method == method]

    def wait_for(self, condition: Callable[[], Any]) -> None:
        """Block until *condition* holds.

        It is checked again after every change here, and regularly for changes elsewhere.
        """
        until = time.monotonic() + _PATIENCE
        with self._changed:
            while not condition():
                assert time.monotonic() < until, "the condition did not hold in time"
                self._changed.wait(_GLANCE)

    def close(self) -> None:
        """Stop the daemon. A second call does nothing."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # ── JSON-RPC ──────────────────────────────────────────────────────────────────────────────

    def _serve(self, peer: Peer) -> None:
        held: list[Record] = []
        if not self._is_manual:
            with self._changed:
                self._automatic.add(peer)
                self._deliver()
        try:
            for line in peer.lines():
                answer = self._answer(peer, line)
                if answer is None:
                    return
                method, said = answer
                if self._held[method]:
                    self._held[method] -= 1
                    held.append(said)
                    continue
                peer.write(said)
                while held:
                    peer.write(held.pop())
        finally:
            with self._changed:
                self._automatic.discard(peer)
                for number in [n for n, each in self._subscriptions.items() if each is peer]:
                    del self._subscriptions[number]
                self._changed.notify_all()

    def _answer(self, peer: Peer, line: bytes) -> tuple[str, Record] | None:
        """Return the response to a line; None to drop the connection."""
        number = None
        method = ""
        try:
            request = _parsed(line)
            number, method = request.get("id"), str(request.get("method"))
            if request.get("jsonrpc") != "2.0":
                raise Refusal(-32600, "only jsonrpc version 2.0 is supported")
            if "method" not in request:
                raise Refusal(-32600, "method field must be set")
            params = dict(request.get("params") or {})
            self._record(Call(method, params))
            if self._faults[method]:
                fault = self._faults[method].popleft()
                if fault is None:
                    return None
                raise fault
            self._check_account(method, params)
            result = self._methods[method](peer, params)
        except UnicodeDecodeError:
            return None
        except Refusal as refusal:
            return method, _refused(refusal, number)
        return method, {"jsonrpc": "2.0", "result": result, "id": number}

    def _check_account(self, method: str, params: Params) -> None:
        if method not in self._methods or (method == "listAccounts" and not self._is_multi_account):
            raise Refusal(-32601, "Method not implemented")
        if not self._is_multi_account or method in {"version", "listAccounts"}:
            return
        if "account" not in params:
            raise Refusal(-32602, "Method requires valid account parameter")
        if params["account"] not in self.accounts:
            raise Refusal(-32602, "Specified account does not exist")

    def _record(self, call: Call) -> None:
        with self._changed:
            self.calls.append(call)
            self._changed.notify_all()

    def _deliver(self) -> None:
        """Send pending messages to receiving clients and forget them. The caller holds the lock."""
        while self._at_signal and (self._subscriptions or self._automatic):
            received = self._at_signal.popleft()
            for peer in self._automatic:
                peer.write({"jsonrpc": "2.0", "method": "receive", "params": received})
            for number, peer in self._subscriptions.items():
                params = {"subscription": number, "result": received}
                peer.write({"jsonrpc": "2.0", "method": "receive", "params": params})
        self._changed.notify_all()

    def _do_version(self, _peer: Peer, _params: Params) -> Record:
        return {"version": "0.13.19"}

    def _do_listAccounts(self, _peer: Peer, _params: Params) -> list[Record]:  # noqa: N802
        return [{"number": number} for number in self.accounts]

    def _do_subscribeReceive(self, peer: Peer, _params: Params) -> int:  # noqa: N802
        with self._changed:
            number = self._next_subscription
            self._next_subscription += 1
            self._subscriptions[number] = peer
            self._deliver()
            return number

    def _do_unsubscribeReceive(self, _peer: Peer, params: Params) -> None:  # noqa: N802
        with self._changed:
            if self._subscriptions.pop(params.get("subscription", -1), None) is None:
                raise Refusal(-1, "Unknown subscription id")

    def _do_send(self, _peer: Peer, params: Params) -> Record:
        chat_id = self._chat(params)
        text = str(params.get("message") or "")
        if not text:
            raise Refusal(
                -1,
                "Sending empty message is not allowed, either a message, attachment or sticker "
                "must be given.",
            )
        styles = list(params.get("textStyle", []))
        for style in styles:
            _check_style(style, text)
        timestamp = self.tick()
        with self._changed:
            edited = params.get("editTimestamp")
            for sent in self.sent if edited else ():
                if sent.timestamp == edited:
                    sent.earlier.append(sent.text)
                    sent.text, sent.styles = text, styles
            if not edited:
                self.sent.append(Sent(chat_id, timestamp, text, styles, params))
            self._changed.notify_all()
        address = {"uuid": ANNA.uuid, "number": ANNA.number, "username": None}
        return {
            "timestamp": timestamp,
            "results": [{"recipientAddress": address, "type": "SUCCESS"}],
        }

    def _do_sendTyping(self, _peer: Peer, params: Params) -> Record:  # noqa: N802
        self._chat(params)
        return {"timestamp": self.tick(), "results": []}

    def _do_getAttachment(self, _peer: Peer, params: Params) -> Record:  # noqa: N802
        content = self.files.get(str(params.get("id")))
        if content is None:
            raise Refusal(-1, f"Could not find attachment with ID: {params.get('id')}")
        return {"data": b64encode(content).decode()}

    def _chat(self, params: Params) -> str:
        if "groupId" in params:
            chat_id = str(params["groupId"])
            if chat_id not in self._chats or chat_id in self._blocked:
                raise Refusal(-1, f"Group not found: {chat_id}")
            return chat_id
        (chat_id,) = params["recipient"]
        person = next((each for each in (ANNA, BERT) if chat_id in each), None)
        uuid = chat_id if person is None else person.uuid
        if uuid not in self._chats or self._blocked & {uuid, chat_id}:
            raise not_sent("UNREGISTERED_FAILURE")
        return uuid


def envelope(user: Person, timestamp: int, **content: Any) -> Record:
    """Return an envelope as signal-cli receives it: sender, timestamp and one kind of content."""
    return {
        "source": user.number or user.uuid,
        "sourceNumber": user.number,
        "sourceUuid": user.uuid,
        "sourceName": user.name,
        "sourceDevice": 1,
        "timestamp": timestamp,
        "serverReceivedTimestamp": timestamp,
        "serverDeliveredTimestamp": timestamp,
        **content,
    }


def _parsed(line: bytes) -> Record:
    """Return the request in a line.

    Raises:
        Refusal: the line is not a request.
        UnicodeDecodeError: the line is not UTF-8; signal-cli then closes the connection.
    """
    text = line.decode()
    if not text.strip():
        raise Refusal(-32700, "Empty input line")
    try:
        request = json.loads(text)
    except ValueError as error:
        raise Refusal(-32700, f"Unexpected character: {error}") from error
    if isinstance(request, list):
        raise Refusal(-32600, "invalid request")
    if not isinstance(request, dict):
        raise Refusal(-32600, "unexpected type: NUMBER")
    return request


def _refused(refusal: Refusal, number: object) -> Record:
    error = {"code": refusal.code, "message": refusal.message, "data": refusal.data}
    return {"jsonrpc": "2.0", "error": error, "id": number}


def _check_style(style: str, text: str) -> None:
    found = _STYLE.fullmatch(style)
    if found is None:
        raise Refusal(-1, f"Invalid text style syntax ({style})")
    if int(found[2]) < 1 or int(found[1]) + int(found[2]) > len(text.encode("utf-16-le")) // 2:
        raise Refusal(-1, f"Text style outside of the text ({style})")


def _now() -> int:
    return int(time.time() * 1000)
