"""Leaving nothing readable of deleted rows: not in the search index, not in the store's files."""

from __future__ import annotations

from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.storage.care.erasure.receipts import Step
from hermes_sessions.storage.search.index_maintenance import Upkeep
from hermes_sessions.storage.store import Store

INDEX = "search index"
FILES = "store files"


def scrub(store: Store, *, rebuild: bool = False) -> list[Step]:
    """Take what was deleted out of the index and out of the files, as far as that is possible now;
    return what became of both. Never raises because somebody is in the way: that is pending.
    """
    with store.provider.leaving_no_trace():
        return [_index(store), _files(store, rebuild=rebuild)]


def _index(store: Store) -> Step:
    index = store.provider.search_index
    try:
        upkeep = Upkeep(store, index)
        upkeep.catch_up()
        is_compact = upkeep.compact()
        with store.provider.read() as tx:
            is_done = is_compact and upkeep.lag(tx).complete
    except HermesSessionsError as error:
        return Step(INDEX, "pending", why=str(error))
    if not is_done:
        why = "The search index could not be brought up to date, because others write to it."
        return Step(INDEX, "pending", why=why)
    return Step(INDEX)


def _files(store: Store, *, rebuild: bool) -> Step:
    try:
        remains = store.provider.scrub(rebuild=rebuild)
    except HermesSessionsError as error:
        return Step(FILES, "pending", why=str(error))
    if remains:
        return Step(FILES, "pending", why=" ".join(found.why for found in remains))
    return Step(FILES, why=store.provider.keeps)
