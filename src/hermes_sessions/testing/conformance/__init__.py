"""The conformance kit: what every database behind `SessionDB` must do, as tests.

A provider passes when all of it passes. The kit is plain pytest: import everything into a test
module and supply one fixture, ``open_store``, which says how your store is opened::

    import pytest

    from hermes_sessions import SessionDB
    from hermes_sessions.testing.conformance import *


    @pytest.fixture
    def open_store(my_empty_database):
        def open_handle(**options):
            return SessionDB(provider=MyProvider(my_empty_database), **options)

        return open_handle

Every call opens another handle on the same store, which is empty when a test starts. *options* are
keyword arguments of `SessionDB`: always ``clock``, sometimes ``max_message_bytes`` or
``read_only=True``, which your provider must be told, too. Handles that the kit opens, it closes.

The tests use the documented verbs alone; those of `TestPort` use the transactions of the provider,
in the SQL that `hermes_sessions.storage.provider` defines. They make no claim on time, so they may
run in parallel. A docstring that says "behaviour 21" names an entry of
`hermes_sessions.testing.conformance.behaviours`, the list that the page docs/conformance.md shows.
"""
# ruff: noqa: E402 - assertions can only be made to explain themselves before the imports

from __future__ import annotations

from typing import Final

import pytest

#: One module per subject.
SUBJECTS: Final = (
    "anchors",
    "flags",
    "atomicity",
    "concurrency",
    "continuation",
    "conversation",
    "deletion",
    "erasure",
    "import_export",
    "fences",
    "fidelity",
    "handles",
    "handoff",
    "idempotency",
    "holds",
    "ids",
    "insights",
    "leases",
    "lifecycle",
    "lineage",
    "session_list",
    "locks",
    "maintenance",
    "messages",
    "meta",
    "pins",
    "transactions",
    "pruning",
    "replacement",
    "retention",
    "rewind",
    "search",
    "search_results",
    "search_filters",
    "search_queries",
    "search_operators",
    "search_pages",
    "search_scope",
    "search_index",
    "sizes",
    "summaries",
    "titles",
    "topics",
    "trash",
    "usage",
)

# Failures then show the values that were compared; it must happen before the modules are imported.
pytest.register_assert_rewrite(
    *(f"{__name__}.{module}" for module in (*SUBJECTS, "helpers", "recomputation"))
)

from hermes_sessions.testing.conformance.anchors import TestAnchors
from hermes_sessions.testing.conformance.atomicity import TestAtomicity
from hermes_sessions.testing.conformance.concurrency import TestThreads, TestThreadsWithHandles
from hermes_sessions.testing.conformance.continuation import TestContinuation
from hermes_sessions.testing.conformance.conversation import TestConversation
from hermes_sessions.testing.conformance.deletion import TestDeletion
from hermes_sessions.testing.conformance.erasure import TestErasure
from hermes_sessions.testing.conformance.fences import TestFences, TestHeldChains
from hermes_sessions.testing.conformance.fidelity import TestFidelity
from hermes_sessions.testing.conformance.fixtures import clock, db, open_another
from hermes_sessions.testing.conformance.flags import TestArchive
from hermes_sessions.testing.conformance.handles import TestClosing, TestReadOnly, TestSecondHandle
from hermes_sessions.testing.conformance.handoff import TestHandoff
from hermes_sessions.testing.conformance.holds import TestHolds
from hermes_sessions.testing.conformance.idempotency import (
    TestIdempotency,
    TestIdempotencyAcrossHandles,
)
from hermes_sessions.testing.conformance.ids import TestIds
from hermes_sessions.testing.conformance.import_export import (
    TestExport,
    TestImport,
    TestImportLimits,
)
from hermes_sessions.testing.conformance.insights import TestInsights
from hermes_sessions.testing.conformance.leases import (
    TestHoldersThatEnded,
    TestLeases,
    TestLeasesAtOnce,
)
from hermes_sessions.testing.conformance.lifecycle import TestLifecycle
from hermes_sessions.testing.conformance.lineage import TestLineage
from hermes_sessions.testing.conformance.locks import TestCompressionLocks
from hermes_sessions.testing.conformance.maintenance import TestMaintenance
from hermes_sessions.testing.conformance.messages import TestMessageLimits, TestMessages
from hermes_sessions.testing.conformance.meta import TestMeta
from hermes_sessions.testing.conformance.pins import TestPins
from hermes_sessions.testing.conformance.pruning import TestPruning
from hermes_sessions.testing.conformance.replacement import TestReplacement
from hermes_sessions.testing.conformance.retention import TestRetention
from hermes_sessions.testing.conformance.rewind import TestRewind
from hermes_sessions.testing.conformance.search import TestSearch
from hermes_sessions.testing.conformance.search_filters import TestSearchFilters
from hermes_sessions.testing.conformance.search_index import (
    TestSearchAcrossHandles,
    TestSearchUpkeep,
)
from hermes_sessions.testing.conformance.search_operators import TestSearchOperators
from hermes_sessions.testing.conformance.search_pages import TestSearchPages
from hermes_sessions.testing.conformance.search_queries import TestHostileText
from hermes_sessions.testing.conformance.search_results import TestSearchAnswers
from hermes_sessions.testing.conformance.search_scope import TestScope
from hermes_sessions.testing.conformance.session_list import TestListing
from hermes_sessions.testing.conformance.sizes import TestSizes
from hermes_sessions.testing.conformance.summaries import TestSummaries
from hermes_sessions.testing.conformance.titles import TestTitles
from hermes_sessions.testing.conformance.topics import TestTopics
from hermes_sessions.testing.conformance.transactions import TestIsolation, TestPort
from hermes_sessions.testing.conformance.trash import TestTrash
from hermes_sessions.testing.conformance.usage import TestUsage

__all__ = [
    "TestAnchors",
    "TestArchive",
    "TestAtomicity",
    "TestClosing",
    "TestCompressionLocks",
    "TestContinuation",
    "TestConversation",
    "TestDeletion",
    "TestErasure",
    "TestExport",
    "TestFences",
    "TestFidelity",
    "TestHandoff",
    "TestHeldChains",
    "TestHoldersThatEnded",
    "TestHolds",
    "TestHostileText",
    "TestIdempotency",
    "TestIdempotencyAcrossHandles",
    "TestIds",
    "TestImport",
    "TestImportLimits",
    "TestInsights",
    "TestIsolation",
    "TestLeases",
    "TestLeasesAtOnce",
    "TestLifecycle",
    "TestLineage",
    "TestListing",
    "TestMaintenance",
    "TestMessageLimits",
    "TestMessages",
    "TestMeta",
    "TestPins",
    "TestPort",
    "TestPruning",
    "TestReadOnly",
    "TestReplacement",
    "TestRetention",
    "TestRewind",
    "TestScope",
    "TestSearch",
    "TestSearchAcrossHandles",
    "TestSearchAnswers",
    "TestSearchFilters",
    "TestSearchOperators",
    "TestSearchPages",
    "TestSearchUpkeep",
    "TestSecondHandle",
    "TestSizes",
    "TestSummaries",
    "TestThreads",
    "TestThreadsWithHandles",
    "TestTitles",
    "TestTopics",
    "TestTrash",
    "TestUsage",
    "clock",
    "db",
    "open_another",
]
