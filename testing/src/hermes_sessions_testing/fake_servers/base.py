"""The base of fake messenger servers: waiting, closing, calling webhooks."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Self, TypeVar

from hermes_sessions_testing.fake_servers.http_server import post, post_half

#: Seconds until a wait is a failure; far longer than any test needs.
_PATIENCE: Final = 60.0
#: The status for a call without a response.
_NO_ANSWER: Final = 599


class FakeServer(ABC):
    """A server with a thread that calls webhooks until the server is closed."""

    def __init__(self, name: str) -> None:
        #: Statuses that webhooks returned.
        self.deliveries: list[int] = []
        #: Guards the state of the server, and is notified of every change.
        self._changed = threading.Condition()
        self._is_over = False
        self._postman = threading.Thread(target=self._deliver, name=f"{name}-webhook", daemon=True)

    def wait_for(self, condition: Callable[[], Any]) -> None:
        """Block until *condition* holds."""
        with self._changed:
            assert self._changed.wait_for(condition, _PATIENCE), (
                "the condition did not hold in time"
            )

    def close(self) -> None:
        """Stop the server, its deliveries and all waiting calls. A second call does nothing."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        self._stop_listening()
        if self._postman.is_alive():
            self._postman.join(_PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @abstractmethod
    def _stop_listening(self) -> None:
        """Stop accepting calls."""

    @abstractmethod
    def _deliver(self) -> None:
        """Deliver queued payloads to the webhook until the server closes. Runs in the thread."""

    def _note(self, status: int, *, comes_again: bool) -> None:
        """Record the status of a webhook, and pause briefly before a retry.

        The caller holds `_changed`.
        """
        self.deliveries.append(status)
        self._changed.notify_all()
        if comes_again:
            self._changed.wait_for(lambda: self._is_over, 0.01)


@dataclass(slots=True, eq=False, kw_only=True)
class Delivery:
    """A payload for a webhook."""

    body: bytes
    #: Sent instead of the headers with the messenger's signature.
    headers: Mapping[str, str] | None = None


D = TypeVar("D", bound=Delivery)


class SigningFakeServer(FakeServer, Generic[D]):
    """A server that signs payloads and repeats each until the webhook returns 200."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        #: Returns the URL of the webhook; empty while there is none.
        self.callback: Callable[[], str] = lambda: ""
        self._waiting: deque[D] = deque()
        self._cuts = 0

    def cut_deliveries(self, times: int = 1) -> None:
        """Drop the connection in the middle of the next *times* calls; they are retried."""
        with self._changed:
            self._cuts += times

    @abstractmethod
    def _headers(self, delivery: D) -> dict[str, str]:
        """Return the headers of a payload."""

    def _deliver(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over or self._waiting)
                if self._is_over:
                    return
                delivery = self._waiting[0]
                is_cut, self._cuts = self._cuts > 0, max(self._cuts - 1, 0)
            status = self._bring(delivery, is_cut)
            with self._changed:
                # Failed calls are retried, except those with a wrong signature.
                if status == 200 or delivery.headers is not None:
                    self._waiting.remove(delivery)
                self._note(status, comes_again=status != 200)

    def _bring(self, delivery: D, is_cut: bool) -> int:
        url = self.callback()
        if not url:
            return _NO_ANSWER
        headers = self._headers(delivery)
        if is_cut:
            post_half(url, delivery.body, headers)
            return _NO_ANSWER
        return post(url, delivery.body, headers)
