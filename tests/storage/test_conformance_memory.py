"""The conformance kit on stores in memory: the suites that need one handle."""

from collections.abc import Callable

import pytest

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.conformance import (  # noqa: F401 - pytest collects what is here
    TestAnchors,
    TestArchive,
    TestAtomicity,
    TestClosing,
    TestCompressionLocks,
    TestConversation,
    TestDeletion,
    TestErasure,
    TestExport,
    TestHostileText,
    TestIdempotency,
    TestIds,
    TestImport,
    TestLifecycle,
    TestLineage,
    TestListing,
    TestMaintenance,
    TestMessages,
    TestMeta,
    TestPort,
    TestPruning,
    TestReplacement,
    TestRewind,
    TestScope,
    TestSearch,
    TestSearchAnswers,
    TestSearchFilters,
    TestSearchOperators,
    TestSearchPages,
    TestSearchUpkeep,
    TestThreads,
    TestTitles,
    TestTrash,
    TestUsage,
    clock,
    db,
    open_another,
)


@pytest.fixture
def open_store() -> Callable[..., SessionDB]:
    def open_handle(**options: object) -> SessionDB:
        return SessionDB(":memory:", **options)

    return open_handle


def test_every_handle_has_a_memory_of_its_own() -> None:
    with SessionDB(":memory:") as one, SessionDB(":memory:") as other:
        one.create_session("s", "cli")
        assert other.get_session("s") is None
