"""How the platforms of every gateway are, kept in the store for whoever asks."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Final

from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.meta import Meta
from hermes_sessions.storage.repositories.processes import Processes
from hermes_sessions.storage.store import Store

#: Of what is said about one platform.
_MAX_WORDS: Final = 300

#: What is said about each platform, by the id of the process that says so.
Reports = dict[str, dict[str, str]]


class PlatformReports:
    """What the gateways of one bot say about their platforms."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._meta = Meta(store)
        self._key = f"gateway:{namespace}:platforms"

    def report(self, process_id: str, states: Mapping[str, str]) -> None:
        """Say how the platforms of a process are; nothing is written when that is known.

        Raises:
            StoreError: it was not said.
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
        """Return what these processes say."""
        said = _parsed(self._meta.find(self._key))
        return {name: said[name] for name in process_ids if name in said}


def _parsed(text: str | None) -> Reports:
    """Return what was written; what cannot be read is written anew at the next heartbeat."""
    try:
        said = json.loads(text or "{}")
    except ValueError:
        return {}
    if not isinstance(said, dict):
        return {}
    return {name: states for name, states in said.items() if isinstance(states, dict)}
