"""The conformance kit for databases: the tests that every provider must pass.

The kit is plain pytest: import everything into a test module and supply one fixture,
``open_store``, which opens your store::

    import pytest

    from hermes_sessions import SessionDB
    from hermes_sessions_testing.conformance import *


    @pytest.fixture
    def open_store(my_empty_database):
        def open_handle(**options):
            return SessionDB(provider=MyProvider(my_empty_database), **options)

        return open_handle

Each call opens another handle on the same store, which is empty when a test starts. *options* are
keyword arguments of `SessionDB`: always ``clock``, sometimes ``max_message_bytes`` or
``read_only=True``; pass the last one on to your provider. The kit closes the handles it opens.

The tests call only documented methods of `SessionDB`. `TestPort` and `TestIsolation` also use the
provider's transactions, with the SQL that `hermes_sessions.storage.provider` defines. No test
depends on timing, so they can run in parallel. A docstring that says "behaviour 21" refers to
`hermes_sessions_testing.conformance.behaviours`, the list in docs/conformance.md.
"""
# ruff: noqa: E402 - assertion rewriting must be registered before the imports

from __future__ import annotations

from typing import Final

import pytest

#: One module per subject.
SUBJECTS: Final = (
    "attachments",
    "blobs",
    "compaction",
    "concurrency",
    "conversation",
    "deletion",
    "fences",
    "fidelity",
    "flags",
    "handles",
    "handoff",
    "idempotency",
    "ids",
    "import_export",
    "labels",
    "leases",
    "lifecycle",
    "lineage",
    "list_filters",
    "maintenance",
    "messages",
    "messenger_peers",
    "payloads",
    "prune_filters",
    "raw_sql",
    "retention",
    "revisions",
    "rewind",
    "search",
    "search_filters",
    "search_index",
    "search_queries",
    "search_results",
    "search_scope",
    "session_directories",
    "session_list",
    "state_documents",
    "titles",
    "topics",
    "transactions",
    "transcript_tail",
    "trash",
    "usage",
    "workspaces",
)

# Failures then show the values that were compared; it must happen before the modules are imported.
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in (*SUBJECTS, "helpers")))

from hermes_sessions_testing.conformance.attachments import TestAttachmentLifetime, TestAttachments
from hermes_sessions_testing.conformance.blobs import TestBlobs
from hermes_sessions_testing.conformance.compaction import TestCompaction, TestCompressionState
from hermes_sessions_testing.conformance.concurrency import TestThreads, TestThreadsWithHandles
from hermes_sessions_testing.conformance.conversation import TestConversation
from hermes_sessions_testing.conformance.deletion import TestDeletion, TestErasure
from hermes_sessions_testing.conformance.fences import TestFences, TestHeldChains
from hermes_sessions_testing.conformance.fidelity import TestFidelity
from hermes_sessions_testing.conformance.fixtures import clock, db, open_another
from hermes_sessions_testing.conformance.flags import TestArchive, TestHolds, TestPins
from hermes_sessions_testing.conformance.handles import TestClosing, TestReadOnly, TestSecondHandle
from hermes_sessions_testing.conformance.handoff import TestHandoff
from hermes_sessions_testing.conformance.idempotency import (
    TestIdempotency,
    TestIdempotencyAcrossHandles,
)
from hermes_sessions_testing.conformance.ids import TestIds
from hermes_sessions_testing.conformance.import_export import (
    TestExport,
    TestImport,
    TestImportLimits,
)
from hermes_sessions_testing.conformance.labels import TestLabels
from hermes_sessions_testing.conformance.leases import (
    TestCompressionLocks,
    TestHoldersThatEnded,
    TestLeases,
    TestLeasesAtOnce,
)
from hermes_sessions_testing.conformance.lifecycle import TestLifecycle
from hermes_sessions_testing.conformance.lineage import TestContinuation, TestLineage
from hermes_sessions_testing.conformance.list_filters import TestListFilters, TestLists
from hermes_sessions_testing.conformance.maintenance import TestMaintenance, TestMeta, TestSizes
from hermes_sessions_testing.conformance.messages import (
    TestAnchors,
    TestMessageLimits,
    TestMessages,
)
from hermes_sessions_testing.conformance.messenger_peers import (
    TestGatewayRouting,
    TestMessengerPeers,
)
from hermes_sessions_testing.conformance.payloads import TestPayloadReader, TestPayloads
from hermes_sessions_testing.conformance.prune_filters import (
    TestArchiving,
    TestEmptySessions,
    TestPruneFilters,
)
from hermes_sessions_testing.conformance.raw_sql import TestRawSQL
from hermes_sessions_testing.conformance.retention import TestPruning, TestRetention
from hermes_sessions_testing.conformance.revisions import TestRevisions
from hermes_sessions_testing.conformance.rewind import TestReplacement, TestRewind
from hermes_sessions_testing.conformance.search import TestSearch
from hermes_sessions_testing.conformance.search_filters import TestSearchFilters
from hermes_sessions_testing.conformance.search_index import (
    TestSearchAcrossHandles,
    TestSearchUpkeep,
)
from hermes_sessions_testing.conformance.search_queries import (
    TestHostileText,
    TestLanguages,
    TestSearchOperators,
)
from hermes_sessions_testing.conformance.search_results import TestSearchAnswers, TestSearchPages
from hermes_sessions_testing.conformance.search_scope import TestScope
from hermes_sessions_testing.conformance.session_directories import TestSessionDirectories
from hermes_sessions_testing.conformance.session_list import TestListing, TestSummaries
from hermes_sessions_testing.conformance.state_documents import TestState, TestStateAtOnce
from hermes_sessions_testing.conformance.titles import TestTitles
from hermes_sessions_testing.conformance.topics import TestTopics
from hermes_sessions_testing.conformance.transactions import TestAtomicity, TestIsolation, TestPort
from hermes_sessions_testing.conformance.transcript_tail import (
    TestPop,
    TestSoftClear,
    TestSuffix,
    TestTailAtOnce,
)
from hermes_sessions_testing.conformance.trash import TestTrash
from hermes_sessions_testing.conformance.usage import TestInsights, TestUsage
from hermes_sessions_testing.conformance.workspaces import TestWorkspaces

__all__ = [
    "TestAnchors",
    "TestArchive",
    "TestArchiving",
    "TestAtomicity",
    "TestAttachmentLifetime",
    "TestAttachments",
    "TestBlobs",
    "TestClosing",
    "TestCompaction",
    "TestCompressionLocks",
    "TestCompressionState",
    "TestContinuation",
    "TestConversation",
    "TestDeletion",
    "TestEmptySessions",
    "TestErasure",
    "TestExport",
    "TestFences",
    "TestFidelity",
    "TestGatewayRouting",
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
    "TestLabels",
    "TestLanguages",
    "TestLeases",
    "TestLeasesAtOnce",
    "TestLifecycle",
    "TestLineage",
    "TestListFilters",
    "TestListing",
    "TestLists",
    "TestMaintenance",
    "TestMessageLimits",
    "TestMessages",
    "TestMessengerPeers",
    "TestMeta",
    "TestPayloadReader",
    "TestPayloads",
    "TestPins",
    "TestPop",
    "TestPort",
    "TestPruneFilters",
    "TestPruning",
    "TestRawSQL",
    "TestReadOnly",
    "TestReplacement",
    "TestRetention",
    "TestRevisions",
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
    "TestSessionDirectories",
    "TestSizes",
    "TestSoftClear",
    "TestState",
    "TestStateAtOnce",
    "TestSuffix",
    "TestSummaries",
    "TestTailAtOnce",
    "TestThreads",
    "TestThreadsWithHandles",
    "TestTitles",
    "TestTopics",
    "TestTrash",
    "TestUsage",
    "TestWorkspaces",
    "clock",
    "db",
    "open_another",
]
