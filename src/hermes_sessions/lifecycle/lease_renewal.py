"""Holding a conversation while something is done in it: a lease, kept alive and then given back.

>>> from hermes_sessions import SessionDB
>>> db = SessionDB(":memory:")
>>> db.create_session("s", source="cli")
's'
>>> with Holding(db, "s", "the chat in terminal 1") as held:
...     message = db.append_message("s", "user", "Mine alone.", fence=held.token)
...     db.lease_of("s").holder
'the chat in terminal 1'
>>> db.lease_of("s") is None
True
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Self

from hermes_sessions.errors import HermesSessionsError, StaleFence, StoreError
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.repositories.leases import Holder, Lease
from hermes_sessions.storage.sessiondb import SessionDB

logger = Logger(__name__)

#: Seconds that a lease outlives the last sign of life of its holder.
TTL: Final = 60.0
#: Signs of life in that time: one may get lost.
_BEATS: Final = 3
#: Waits for an event to be set, for so many seconds at most; returns whether it was.
Wait = Callable[[threading.Event, float], bool]


class Holding:
    """A context manager: takes the lease of a session's conversation, renews it in a thread of its
    own, and gives it back at the end.

    Between the two, ``lost`` tells whether it was taken away, which can happen when the process
    slept, or the store was out of reach, for longer than the lease lasts. From then on every write
    with its token is refused, so that whoever runs a turn should stop.
    """

    def __init__(
        self,
        db: SessionDB,
        session_id: str,
        holder: Holder | str,
        *,
        ttl: float = TTL,
        on_lost: Callable[[], None] = lambda: None,
        wait: Wait = threading.Event.wait,
    ) -> None:
        """*holder* tells people who holds the conversation. *on_lost* is called once, in the thread
        that notices the loss.
        """
        self._db = db
        self._session_id = session_id
        self._holder = holder
        self._ttl = ttl
        self._on_lost = on_lost
        self._wait = wait
        self._lease: Lease | None = None
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        #: Set when the lease does not hold the conversation any more.
        self.lost = threading.Event()
        #: A lease that could not be given back, because the store was out of reach.
        self.left: Lease | None = None

    @property
    def lease(self) -> Lease:
        """The lease, as it was renewed last."""
        if self._lease is None:
            raise RuntimeError("Nothing is held: use `with Holding(…) as held`, or start() first.")
        return self._lease

    @property
    def token(self) -> int:
        """What to pass as ``fence`` to every write."""
        return self.lease.token

    def start(self) -> Self:
        """Take the lease and keep it alive.

        Raises:
            ConversationHeld: somebody else holds the conversation; the error says who.
            UnknownSession: there is no such session.
        """
        self._lease = self._db.take_lease(self._session_id, self._holder, ttl=self._ttl)
        self._ending.clear()
        self._thread = threading.Thread(target=self._keep_alive, name="lease", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Give the lease back. A second call does nothing.

        Where the store cannot be reached, the lease ends by itself.
        """
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._ending.set()
        if thread is not threading.current_thread():
            thread.join()
        if self.lost.is_set():
            return
        try:
            self._db.release_lease(self.lease)
        except StoreError as error:
            self.left = self.lease
            logger.warning("%s stays held until its lease expires: %s", self._session_id, error)

    def renew(self) -> bool:
        """Give a sign of life now; return whether the conversation is still held.

        Raises:
            StoreError: the store could not be asked.
        """
        try:
            self._lease = self._db.renew_lease(self.lease, ttl=self._ttl)
        except StaleFence:
            if not self.lost.is_set():
                self.lost.set()
                self._on_lost()
            return False
        return True

    def _keep_alive(self) -> None:
        while not self._wait(self._ending, self._ttl / _BEATS):
            try:
                if not self.renew():
                    return
            except HermesSessionsError as error:
                # As long as nobody else comes, even an expired lease can still be renewed.
                logger.warning("the lease of %s was not renewed: %s", self._session_id, error)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exc: object) -> None:
        self.stop()
