"""The prepared stores that scenarios start from."""

from __future__ import annotations

from benchmarks.corpus import CorpusSpec
from benchmarks.scenarios.base import PreparedStore

#: Many messages; the first sessions are ended so that they can be pruned.
MESSAGES = PreparedStore(
    name="messages",
    corpus=lambda size: CorpusSpec(
        name="stored", messages=size.store_messages, ended_sessions=size.pruned_sessions
    ),
)

#: A tenth of it, and the largest, for searching.
MESSAGES_SMALL = PreparedStore(
    name="messages-small",
    corpus=lambda size: CorpusSpec(name="stored", messages=size.store_messages_small),
)

MESSAGES_LARGE = PreparedStore(
    name="messages-large",
    corpus=lambda size: CorpusSpec(name="stored", messages=size.store_messages_large),
)

#: What is exported and migrated, and a fifth of it.
MOVED = PreparedStore(
    name="moved",
    corpus=lambda size: CorpusSpec(name="stored", messages=size.moved_messages),
)

MOVED_FIFTH = PreparedStore(
    name="moved-fifth",
    corpus=lambda size: CorpusSpec(name="stored", messages=size.moved_messages // 5),
)

#: Many short sessions, for listing.
SESSIONS = PreparedStore(
    name="sessions",
    corpus=lambda size: CorpusSpec(
        name="listed",
        sessions=size.listed_sessions,
        messages_per_session=2,
        fixed_length=True,
        mean_characters=80,
    ),
)

SESSIONS_LARGE = PreparedStore(
    name="sessions-large",
    corpus=lambda size: CorpusSpec(
        name="listed",
        sessions=size.listed_sessions_large,
        messages_per_session=1,
        fixed_length=True,
        mean_characters=40,
        prompt_characters=100,
    ),
)

#: A few long sessions, for resuming.
TRANSCRIPTS = PreparedStore(
    name="transcripts",
    corpus=lambda size: CorpusSpec(
        name="long",
        sessions=3,
        messages_per_session=size.resumed_messages,
        fixed_length=True,
    ),
)
