"""Programs that talk to a gateway which listens: each message is sent until it is taken."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from hermes_sessions_testing.platforms import MessengerServer, Shown
from hermes_sessions_testing.platforms.harness import Room, Sender

PATIENCE = 60.0


class PendingMessage(NamedTuple):
    """One message on its way."""

    id: str
    sender: str
    text: str


class RedeliveringClient(MessengerServer):
    """One letter after the other, in a thread; a letter that was not taken is brought again.

    Who listens has nobody to log in to, and no groups.
    """

    rooms: tuple[Room, ...] = ("private",)

    def __init__(self) -> None:
        self._letters: dict[str, PendingMessage] = {}
        self._bag: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._changed = threading.Condition()
        self._confirmed: set[str] = set()
        self._waiting = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._walk, name="postman")
        self._thread.start()

    def bring(self, letter: PendingMessage) -> bool:
        """Bring a letter; tell whether it need not be brought again."""
        raise NotImplementedError

    def bring_unreadable(self) -> None:
        """Bring what is no letter."""
        raise NotImplementedError

    def write(self, text: str, *, sender: Sender = "anna", room: Room = "private") -> str:
        letter = PendingMessage(f"m{len(self._letters)}", sender, text)
        self._letters[letter.id] = letter
        self.deliver_again(letter.id)
        return letter.id

    def deliver_again(self, message_id: str) -> None:
        self._put(lambda: self._bring_until_taken(self._letters[message_id]))

    def deliver_unreadable(self) -> None:
        self._put(self.bring_unreadable)

    def _put(self, work: Callable[[], None]) -> None:
        with self._changed:
            self._waiting += 1
        self._bag.put(work)

    def _walk(self) -> None:
        while (work := self._bag.get()) is not None:
            work()
            with self._changed:
                self._waiting -= 1
                self._changed.notify_all()

    def _bring_until_taken(self, letter: PendingMessage) -> None:
        while not self.bring(letter):
            if self._is_over.wait(0.01):
                return
        with self._changed:
            self._confirmed.add(letter.id)

    def is_confirmed(self, message_id: str) -> bool:
        return message_id in self._confirmed

    def has_unconfirmed(self) -> bool:
        return self._waiting > 0

    def wait_until(self, condition: Callable[[], Any]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE)

    def close(self) -> None:
        self._is_over.set()
        self._bag.put(None)
        self._thread.join(PATIENCE)

    def block(self, chat_id: str) -> None:
        raise NotImplementedError

    def limit_rate(self, seconds: float) -> None:
        raise NotImplementedError

    def lose_next_send(self) -> None:
        raise NotImplementedError

    def shown(self) -> list[Shown]:
        raise NotImplementedError
