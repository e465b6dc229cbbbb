"""What servers that play a messenger have in common: waiting, closing, calling webhooks."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Self, TypeVar

from hermes_sessions_testing.fake_servers.http_server import post, post_half

#: A guard against hanging, not a measurement.
_PATIENCE: Final = 60.0
#: Nobody answered.
_NO_ANSWER: Final = 599


class FakeServer(ABC):
    """Has a thread that brings things to webhooks; it runs until the server is closed."""

    def __init__(self, name: str) -> None:
        #: What webhooks answered.
        self.deliveries: list[int] = []
        #: Held by whoever looks at, or changes, what the server knows; tells that it changed.
        self._changed = threading.Condition()
        self._is_over = False
        self._postman = threading.Thread(target=self._deliver, name=f"{name}-webhook", daemon=True)

    def wait_for(self, condition: Callable[[], Any]) -> None:
        """Return when something is the case."""
        with self._changed:
            assert self._changed.wait_for(condition, _PATIENCE), "it did not happen"

    def close(self) -> None:
        """Stop listening and bringing, and end whoever waits; a second call does nothing."""
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
        """Take no more calls of gateways."""

    @abstractmethod
    def _deliver(self) -> None:
        """Bring what waits to a webhook, until it is over; in the thread."""

    def _note(self, status: int, *, comes_again: bool) -> None:
        """Note what a webhook answered; returns when the next call may be made. `_changed` is
        held.
        """
        self.deliveries.append(status)
        self._changed.notify_all()
        if comes_again:
            self._changed.wait_for(lambda: self._is_over, 0.01)


@dataclass(slots=True, eq=False, kw_only=True)
class Delivery:
    """What is on its way to a webhook."""

    body: bytes
    #: Instead of those by which the messenger proves that it is itself.
    headers: Mapping[str, str] | None = None


D = TypeVar("D", bound=Delivery)


class SigningFakeServer(FakeServer, Generic[D]):
    """Signs what it brings, and brings it until it is answered with 200."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        #: Where calls are brought to; an empty address: nowhere yet.
        self.callback: Callable[[], str] = lambda: ""
        self._waiting: deque[D] = deque()
        self._cuts = 0

    def cut_deliveries(self, times: int = 1) -> None:
        """Let the connection be lost in the middle of the next calls; they come again."""
        with self._changed:
            self._cuts += times

    @abstractmethod
    def _headers(self, delivery: D) -> dict[str, str]:
        """Return what is sent with a body."""

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
                # It is tried again whatever goes wrong, but no signature gets better by that.
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
