"""The conformance kit of platforms on HTTP.

Replies are read by whoever asked, in the same call, and so there is nothing to send: the part of
the kit about sending does not apply. Nor does it apply that programs are not listened to.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import httpx
import pytest

from hermes_sessions.gateway.platforms.api.adapter import ApiAdapter
from hermes_sessions.gateway.platforms.api.settings import ApiSettings
from hermes_sessions_testing.platforms import TestConnecting, TestMapping, TestReceiving
from tests.gateway.platforms.redelivering_client import PendingMessage, RedeliveringClient

__all__ = ["TestConnecting", "TestReceiving"]

TOKEN = "a-token-that-nobody-guesses"


class TestMappingOfCalls(TestMapping):
    test_programs_are_not_listened_to = None  # type: ignore[assignment] - all callers are


del TestMapping


class ApiMessenger(RedeliveringClient):
    """Clients that send a message again if it was not taken, under the same key."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self._host = "127.0.0.1"
        self._is_cut = False
        self._http = httpx.Client(
            base_url=f"http://127.0.0.1:{self._port}",
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=60,
        )
        super().__init__()

    def make_adapter(self) -> ApiAdapter:
        return ApiAdapter(ApiSettings(token=TOKEN, host=self._host, port=self._port))

    def bring(self, letter: PendingMessage) -> bool:
        if self._is_cut:
            self._is_cut = False
            self._break_off()
        try:
            answer = self._http.post(
                f"/v1/conversations/{letter.sender}/messages",
                json={"text": letter.text, "user": letter.sender},
                headers={"Idempotency-Key": letter.id},
            )
        except httpx.TransportError:
            return False
        return answer.status_code < 500

    def _break_off(self) -> None:
        with socket.create_connection(("127.0.0.1", self._port)) as line:
            line.sendall(b"POST /v1/conversations/x/messages HTTP/1.1\r\nHost: x\r\nContent-Le")

    def bring_unreadable(self) -> None:
        for body in (b"", b"{", b"\xff", b"[]", b'{"text": 5}', b'{"text": "' + b"x" * 2_000_000):
            assert self._http.post("/v1/conversations/x/messages", content=body).is_client_error

    def refuse_logins(self) -> None:
        self._host = "not-an-address-of-this-machine.invalid"

    def lose_connections(self) -> None:
        self._is_cut = True

    def close(self) -> None:
        super().close()
        self._http.close()


@pytest.fixture
def messenger() -> Iterator[ApiMessenger]:
    messenger = ApiMessenger()
    yield messenger
    messenger.close()
