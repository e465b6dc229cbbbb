"""Statements that lock several rows lock them in one order, which avoids deadlocks."""

from __future__ import annotations

import pytest

from hermes_sessions import SessionDB, StoreLocked
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.leases import lock_lease, lock_session
from tests.servers.stores import Place


def test_a_lease_is_locked_before_its_sessions(place: Place) -> None:
    """Otherwise a delete and a process that takes the lease wait for each other: PostgreSQL
    finds that out after a second, and has one of them do everything again.
    """
    with (
        SessionDB.from_url(place.url()) as taking,
        SessionDB.from_url(place.url(), lock_timeout=0.1) as deleting,
    ):
        taking.create_session("s", source="cli")
        taking.release_lease(taking.take_lease("s", "the chat", ttl=60))

        def delete_meanwhile(tx: WriteTransaction) -> None:
            lock_lease(tx, taking.store, "s")
            deleting.store.provider.write(
                lambda tx: lock_session(tx, deleting.store, "s", None), isolated=False
            )

        with pytest.raises(StoreLocked):
            taking.store.provider.write(delete_meanwhile, isolated=False)
        assert deleting.delete_session("s")
