"""The state of a bot's gateways, read from the store: processes, turns, queues and failures."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hermes_sessions.gateway.message_progress import outcome_of
from hermes_sessions.gateway.platforms.port import Progress
from hermes_sessions.lifecycle.gateway_process import DEAD_AFTER
from hermes_sessions.storage.host_processes import host_name, is_running
from hermes_sessions.storage.provider import WriteTransaction, placeholders
from hermes_sessions.storage.repositories.meta import Meta
from hermes_sessions.storage.repositories.outbox import DRAFT, Outbox
from hermes_sessions.storage.repositories.processes import Process, Processes
from hermes_sessions.storage.repositories.senders import Senders
from hermes_sessions.storage.store_context import StoreContext

# ── platform reports ──────────────────────────────────────────────────────────────────────────

#: The most characters of a platform's state.
_MAX_WORDS: Final = 300

#: The state of each platform, by the id of the reporting process.
Reports = dict[str, dict[str, str]]


class PlatformReports:
    """The platform states that the gateways of one bot report through the store."""

    def __init__(self, store: StoreContext, namespace: str) -> None:
        self._store = store
        self._meta = Meta(store)
        self._key = f"gateway:{namespace}:platforms"

    def report(self, process_id: str, states: Mapping[str, str]) -> None:
        """Store the platform states of a process; no-op if they have not changed.

        Raises:
            StoreError: they were not stored.
        """
        words = {name: " ".join(state.split())[:_MAX_WORDS] for name, state in states.items()}
        if _parsed(self._meta.find(self._key)).get(process_id) == words:
            return

        def work(tx: WriteTransaction) -> None:
            row = tx.one('SELECT value FROM state_meta WHERE "key" = ?', (self._key,))
            others = _parsed(row[0] if row else None)
            there = Processes.not_ended(tx, others)
            kept = {name: said for name, said in others.items() if name in there}
            self._meta.put(tx, self._key, json.dumps({**kept, process_id: words}))

        self._store.provider.write(work)

    def found(self, process_ids: Collection[str]) -> Reports:
        """Return the reports of these processes."""
        said = _parsed(self._meta.find(self._key))
        return {name: said[name] for name in process_ids if name in said}


def _parsed(text: str | None) -> Reports:
    """Return the stored reports; damaged ones are rewritten at the next heartbeat."""
    try:
        said = json.loads(text or "{}")
    except ValueError:
        return {}
    if not isinstance(said, dict):
        return {}
    return {name: states for name, states in said.items() if isinstance(states, dict)}


class Overview(NamedTuple):
    """The state of one bot."""

    namespace: str
    #: See `Gateways`.
    living: list[Process]
    silent: list[Process]
    lanes: dict[str, int]
    #: Messages by state, waiting and running; finished ones are not counted.
    mailbox: dict[str, int]
    outbox: dict[str, int]
    #: Senders who wait for the approval of their pairing.
    pending_senders: int
    #: The platform states of live gateways, by process id.
    platforms: Reports


class Gateways(NamedTuple):
    """The gateways of one bot that have not ended."""

    living: list[Process]
    #: Without a heartbeat for too long, or not running any more on this host.
    silent: list[Process]


class QueuedMessage(NamedTuple):
    """A message that waits or runs."""

    id: int
    session_key: str
    kind: str
    status: str
    received_at: float
    sender: str | None


def find_gateways(store: StoreContext, namespace: str, dead_after: float = DEAD_AFTER) -> Gateways:
    """Return the gateways that are alive: with a heartbeat in the last *dead_after* seconds
    (``gateway.lease_seconds``) and, on this host, with a running process.
    """
    processes, host = Processes(store), host_name()
    gateways = Gateways([], processes.dead(namespace, dead_after))
    for process in processes.living(namespace, dead_after):
        is_gone = process.host == host and not is_running(process)
        (gateways.silent if is_gone else gateways.living).append(process)
    return gateways


def overview(store: StoreContext, namespace: str, dead_after: float = DEAD_AFTER) -> Overview:
    """Return the state of a bot; changes nothing."""
    with store.provider.read() as tx:
        lanes = tx.all(
            "SELECT status, COUNT(*) FROM lanes WHERE namespace = ? GROUP BY status", (namespace,)
        )
        mailbox = tx.all(
            "SELECT mailbox.status, COUNT(*) FROM mailbox JOIN lanes ON lanes.id = mailbox.lane_id "
            "WHERE lanes.namespace = ? AND mailbox.status IN (?, ?) GROUP BY mailbox.status",
            (namespace, "waiting", "running"),
        )
    living, silent = find_gateways(store, namespace, dead_after)
    return Overview(
        namespace,
        living,
        silent,
        {status: int(count) for status, count in lanes},
        {status: int(count) for status, count in mailbox},
        Outbox(store, namespace).counts(),
        len(Senders(store, namespace).list("pending")),
        PlatformReports(store, namespace).found([process.id for process in living]),
    )


def ended_elsewhere(store: StoreContext, item_ids: Sequence[int]) -> list[tuple[int, Progress]]:
    """Return the outcomes of those messages that have ended, in any process."""
    if not item_ids:
        return []
    with store.provider.read() as tx:
        rows: list[Any] = tx.all(
            "SELECT mailbox.id, mailbox.status, mailbox.reason, outbox.text FROM mailbox "
            "LEFT JOIN outbox ON outbox.turn_id = mailbox.turn_id AND outbox.status <> ? "
            f"WHERE mailbox.id IN ({placeholders(len(item_ids))}) AND mailbox.status IN (?, ?)",
            (DRAFT, *item_ids, "done", "dropped"),
        )
    return [
        (int(item_id), Progress("ended", text or "", outcome_of(status, reason)))
        for item_id, status, reason, text in rows
    ]


def waiting_messages(store: StoreContext, namespace: str, limit: int) -> list[QueuedMessage]:
    """Return the messages that wait or run in all lanes, oldest first, without their text."""
    with store.provider.read() as tx:
        rows: list[Any] = tx.all(
            "SELECT mailbox.id, lanes.session_key, mailbox.kind, mailbox.status, "
            "mailbox.received_at, mailbox.sender FROM mailbox "
            "JOIN lanes ON lanes.id = mailbox.lane_id "
            "WHERE lanes.namespace = ? AND mailbox.status IN (?, ?) ORDER BY mailbox.id LIMIT ?",
            (namespace, "waiting", "running", limit),
        )
    return [QueuedMessage(*row) for row in rows]
