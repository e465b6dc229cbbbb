"""A conversation lease that is renewed in the background and released at the end.

>>> from hermes_sessions import SessionDB
>>> db = SessionDB(":memory:")
>>> db.create_session("s", source="cli")
's'
>>> with ConversationLease(db, "s", "the chat in terminal 1") as held:
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
from hermes_sessions.storage.store_context import LEASE_SECONDS

logger = Logger(__name__)

#: Renewals within that time, so that one may fail.
_BEATS: Final = 3
#: Waits at most this many seconds for an event; returns whether it was set.
Wait = Callable[[threading.Event, float], bool]


class ConversationLease:
    """Context manager that takes the lease of a session's conversation and renews it in a thread.

    ``lost`` tells whether the lease was lost meanwhile. This can happen when the process slept, or
    the store was unreachable, for longer than the lease lasts. From then on every write with its
    token is refused, and the caller should stop its turn.
    """

    def __init__(
        self,
        db: SessionDB,
        session_id: str,
        holder: Holder | str,
        *,
        ttl: float = LEASE_SECONDS,
        on_lost: Callable[[], None] = lambda: None,
        wait: Wait = threading.Event.wait,
    ) -> None:
        """*holder* describes the holder to users. *on_lost* is called once, in the thread that
        notices the loss.
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
        #: Set when the lease no longer holds the conversation.
        self.lost = threading.Event()
        #: A lease that could not be released, because the store was unreachable.
        self.left: Lease | None = None

    @property
    def lease(self) -> Lease:
        """The lease as of its last renewal."""
        if self._lease is None:
            raise RuntimeError(
                "No lease is held: use `with ConversationLease(…) as held`, or call start() first."
            )
        return self._lease

    @property
    def token(self) -> int:
        """The fencing token to pass as ``fence`` to every write."""
        return self.lease.token

    def start(self) -> Self:
        """Take the lease and start renewing it.

        Raises:
            ConversationHeld: another process holds the conversation; the message names it.
            UnknownSession: the session does not exist.
        """
        self._lease = self._db.take_lease(self._session_id, self._holder, ttl=self._ttl)
        self._ending.clear()
        self._thread = threading.Thread(target=self._keep_alive, name="lease", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Release the lease. A second call does nothing.

        If the store is unreachable, the lease expires by itself.
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
        """Renew the lease now; return whether the conversation is still held.

        Raises:
            StoreError: the store could not be reached.
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
                # Until another process takes it, even an expired lease can be renewed.
                logger.warning("The lease of %s was not renewed: %s", self._session_id, error)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exc: object) -> None:
        self.stop()


#: The former name.
Holding = ConversationLease
