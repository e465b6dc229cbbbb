"""Search filters: in the query and as parameters, included and excluded, and their counts."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.text.query.filters import SearchConditions
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import compress, found, say

HOUR = 3600.0


def fill(db: SessionDB, clock: FrozenClock) -> None:
    """Store five messages about plums, each in a session of its own kind, an hour apart."""
    now = clock()
    kinds: dict[str, dict[str, Any]] = {
        "s1": {
            "title": "Fruit",
            "user_id": "anna",
            "model": "vendor/Claude-9",
            "tags": ["fruit", "needs review"],
            "metadata": {"ticket": 42, "team": "Ops"},
        },
        "s10": {
            "title": "Fruit #2",
            "source": "telegram",
            "user_id": "bert",
            "model": "gpt-5",
            "tags": ["fruit"],
            "metadata": {"ticket": "42", "in": {"team": "ops"}},
        },
        "S1b": {"title": "fruit salad", "source": "telegram", "user_id": "anna"},
        "other": {"source": "cron"},
    }
    for hours, (session_id, options) in enumerate(kinds.items()):
        db.create_session(
            session_id,
            options.pop("source", "cli"),
            started_at=now - 10 * HOUR,
            **{name: value for name, value in options.items() if name != "title"},
        )
        db.set_session_title(session_id, options.get("title"))
        db.append_message(
            session_id, "user", f"plum in {session_id}", timestamp=now - (5 - hours) * HOUR
        )
    call = {"id": "c", "function": {"name": "web_search", "arguments": "{}"}}
    db.append_message(
        "s1", "assistant", "plum is called", tool_calls=[call], timestamp=now - 0.5 * HOUR
    )
    db.append_message(
        "s1", "tool", "plum Error: none left", tool_name="web_search", timestamp=now - 0.25 * HOUR
    )


IN_S1 = {"plum in s1", "plum is called", "plum Error: none left"}
EVERYTHING = IN_S1 | {"plum in s10", "plum in S1b", "plum in other"}

#: By text: the same as parameters, and what is found.
FILTERS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "source:cli": ({"sources": ("cli",)}, IN_S1),
    "source:cli source:cron": ({"sources": ("cli", "cron")}, IN_S1 | {"plum in other"}),
    "-source:cli -source:cron": (
        {"exclude_sources": ("cli", "cron")},
        {"plum in s10", "plum in S1b"},
    ),
    "source:CLI": ({"sources": ("CLI", "cli")}, IN_S1),
    "-source:Cli -source:Cron": (
        {"exclude_sources": ("cli", "cron")},
        {"plum in s10", "plum in S1b"},
    ),
    "role:Tool": ({"roles": ("tool",)}, {"plum Error: none left"}),
    "role:tool": ({"roles": ("tool",)}, {"plum Error: none left"}),
    "-role:user": ({"exclude_roles": ("user",)}, {"plum is called", "plum Error: none left"}),
    "tool:web_search": ({"tools": ("web_search",)}, {"plum is called", "plum Error: none left"}),
    "tool:Web_Search": ({"tools": ("Web_Search",)}, {"plum is called", "plum Error: none left"}),
    "tool:web": ({"tools": ("web",)}, set()),
    "tool:web%search": ({"tools": ("web%search",)}, set()),
    "-tool:web_search": (
        {"exclude_tools": ("web_search",)},
        EVERYTHING - {"plum is called", "plum Error: none left"},
    ),
    "model:claude": ({"models": ("claude",)}, IN_S1),
    "model:CLAUDE-9": ({"models": ("CLAUDE-9",)}, IN_S1),
    "model:gpt_5": ({"models": ("gpt_5",)}, set()),
    "model:claude model:gpt": ({"models": ("claude", "gpt")}, IN_S1 | {"plum in s10"}),
    "-model:claude": ({"exclude_models": ("claude",)}, EVERYTHING - IN_S1),
    "user:anna": ({"users": ("anna",)}, IN_S1 | {"plum in S1b"}),
    "user:Anna": ({"users": ("Anna",)}, set()),
    "user:ann": ({"users": ("ann",)}, set()),
    "-user:anna": ({"exclude_users": ("anna",)}, {"plum in s10", "plum in other"}),
    "session:s1": ({"sessions": ("s1",)}, IN_S1),
    "session:s": ({"sessions": ("s",)}, EVERYTHING - {"plum in other"}),
    "session:S10": ({"sessions": ("S10",)}, {"plum in s10"}),
    "session:s_": ({"sessions": ("s_",)}, set()),
    "session:s%": ({"sessions": ("s%",)}, set()),
    "session:oth session:s10": ({"sessions": ("oth", "s10")}, {"plum in other", "plum in s10"}),
    "-session:s1": ({"exclude_sessions": ("s1",)}, EVERYTHING - IN_S1),
    "-session:s": ({"exclude_sessions": ("s",)}, {"plum in other"}),
    "in:fruit": ({"titles": ("fruit",)}, IN_S1 | {"plum in s10"}),
    'in:"fruit #2"': ({"titles": ("fruit #2",)}, IN_S1 | {"plum in s10"}),
    "in:frui_": ({"titles": ("frui_",)}, set()),
    '-in:"Fruit Salad"': ({"exclude_titles": ("Fruit Salad",)}, EVERYTHING - {"plum in S1b"}),
    "has:error": ({"has": ("error",)}, {"plum Error: none left"}),
    "has:Error": ({"has": ("error",)}, {"plum Error: none left"}),
    "has:tool_calls": ({"has": ("tool_calls",)}, {"plum is called"}),
    "has:title": ({"has": ("title",)}, EVERYTHING - {"plum in other"}),
    "has:title has:tool_calls": ({"has": ("title", "tool_calls")}, {"plum is called"}),
    "has:error has:tool_calls": ({"has": ("error", "tool_calls")}, set()),
    "-has:title": ({"exclude_has": ("title",)}, {"plum in other"}),
    "-has:error -has:tool_calls": (
        {"exclude_has": ("error", "tool_calls")},
        EVERYTHING - {"plum is called", "plum Error: none left"},
    ),
    "tag:fruit": ({"tags": ("fruit",)}, IN_S1 | {"plum in s10"}),
    "tag:FRUIT": ({"tags": ("FRUIT",)}, IN_S1 | {"plum in s10"}),
    "tag:frui": ({"tags": ("frui",)}, set()),
    "tag:frui_": ({"tags": ("frui_",)}, set()),
    'tag:fruit tag:"needs review"': ({"tags": ("fruit", "needs review")}, IN_S1),
    '-tag:"Needs  review"': ({"exclude_tags": ("needs review",)}, EVERYTHING - IN_S1),
    "tag:+": ({"tags": ("+",)}, set()),
    "meta.ticket:42": ({"metadata": (("ticket", "42"),)}, IN_S1 | {"plum in s10"}),
    "meta.team:ops": ({"metadata": (("team", "ops"),)}, IN_S1),
    "meta.team:op": ({"metadata": (("team", "op"),)}, set()),
    "meta.team:o_s": ({"metadata": (("team", "o_s"),)}, set()),
    "-meta.team:ops": ({"exclude_metadata": (("team", "ops"),)}, EVERYTHING - IN_S1),
    "meta.team:dev meta.team:ops": ({"metadata": (("team", "dev"), ("team", "ops"))}, IN_S1),
    "meta.team:ops meta.ticket:7": ({"metadata": (("team", "ops"), ("ticket", "7"))}, set()),
    "source:telegram user:anna": (
        {"sources": ("telegram",), "users": ("anna",)},
        {"plum in S1b"},
    ),
}


class TestSearchFilters:
    """Several values of one name are alternatives, different names must all hold."""

    def test_in_the_text(self, db: SessionDB, clock: FrozenClock) -> None:
        """As ``name:value``, before or after the search terms."""
        fill(db, clock)
        expected = {text: kept for text, (_, kept) in FILTERS.items()}
        assert {text: set(found(db, f"plum {text}")) for text in FILTERS} == expected
        assert {text: set(found(db, f"{text} plum")) for text in FILTERS} == expected

    def test_as_parameters(self, db: SessionDB, clock: FrozenClock) -> None:
        """The same filters, with the same meaning."""
        fill(db, clock)
        answers = {
            text: set(found(db, "plum", conditions=SearchConditions(**given)))
            for text, (given, _) in FILTERS.items()
        }
        assert answers == {text: kept for text, (_, kept) in FILTERS.items()}

    def test_as_parameters_of_the_documented_verb(self, db: SessionDB, clock: FrozenClock) -> None:
        """The same filters; where one is given twice, both hold."""
        fill(db, clock)

        def by(given: dict[str, Any], **options: Any) -> set[tuple[str, int]]:
            rows = db.search_messages(
                "plum", conditions=SearchConditions(**given), limit=-1, **options
            )
            return {(row["session_id"], row["ordinal"]) for row in rows}

        def as_search(given: dict[str, Any]) -> set[tuple[str, int]]:
            answer = db.search("plum", conditions=SearchConditions(**given), limit=100)
            return {(hit.session_id, hit.ordinal) for hit in answer.hits}

        for given, _ in FILTERS.values():
            assert by(given) == as_search(given)
        assert by({"users": ("anna",)}, role_filter=["tool"]) == {("s1", 3)}
        assert by({"sources": ("cron",)}, source_filter=["telegram"]) == set()
        assert by({"sources": ("cron", "telegram")}, source_filter=["telegram", "cli"]) == {
            ("s10", 1),
            ("S1b", 1),
        }
        assert by({"roles": ("user",)}, role_filter=["tool"]) == set()
        assert by({"roles": ("user", "tool")}, role_filter=["tool"]) == {("s1", 3)}
        assert by({"exclude_sources": ("cli",)}, exclude_sources=["cron"]) == {
            ("s10", 1),
            ("S1b", 1),
        }
        with pytest.raises(InvalidInput):
            db.search_messages("plum", conditions=SearchConditions(has=("wings",)))

    def test_the_text_narrows_within_the_parameters(
        self, db: SessionDB, clock: FrozenClock
    ) -> None:
        """Any filter in the text with any parameter finds what both keep, and nothing else."""
        fill(db, clock)
        for given, kept in FILTERS.values():
            conditions = SearchConditions(**given)
            for text, (_, narrowed) in FILTERS.items():
                hits = set(found(db, f"plum {text}", conditions=conditions))
                assert hits == kept & narrowed, (given, text)

    def test_the_text_narrows_within_the_documented_parameters(
        self, db: SessionDB, clock: FrozenClock
    ) -> None:
        """Those of `search_messages`, and moments in either direction."""
        fill(db, clock)

        def by(text: str, **options: Any) -> set[str]:
            return {row["session_id"] for row in db.search_messages(text, **options)}

        assert by("plum source:cli", source_filter=["telegram"]) == set()
        assert by("plum source:telegram", source_filter=["telegram", "cli"]) == {"s10", "S1b"}
        assert by("plum source:telegram", source_filter=[]) == set()
        assert by("plum source:cron", exclude_sources=["cron"]) == set()
        assert by("plum -source:cli", source_filter=["cli", "cron"]) == {"other"}
        assert by("plum role:user", role_filter=["tool"]) == set()
        assert by("plum role:tool", role_filter=["tool", "user"]) == {"s1"}
        assert by("source:cli", source_filter=["telegram"]) == set()
        edge = clock() - 3 * HOUR
        assert by("plum after:5h", conditions=SearchConditions(after=edge)) == {
            "s1",
            "S1b",
            "other",
        }
        assert by("plum before:1min", conditions=SearchConditions(before=edge)) == {"s1", "s10"}
        assert by("plum after:2h", conditions=SearchConditions(before=edge)) == set()

    def test_what_text_and_parameters_keep_apart_is_told(
        self, db: SessionDB, clock: FrozenClock
    ) -> None:
        """When query and parameter contradict each other, the report names both."""
        fill(db, clock)
        edge = clock() - 3 * HOUR
        for text, given, subject in (
            ("source:cli", {"sources": ("telegram",)}, "source"),
            ("-source:cli", {"sources": ("cli",)}, "source"),
            ("source:cron", {"exclude_sources": ("cron",)}, "source"),
            ("role:user", {"roles": ("tool",)}, "role"),
            ("user:anna", {"users": ("bert",)}, "user"),
            ("session:s10", {"sessions": ("s1",)}, "session"),
            ("model:gpt", {"models": ("claude",)}, "model"),
            ('in:"fruit salad"', {"titles": ("Fruit",)}, "title"),
            ("-has:title", {"has": ("title",)}, "has"),
            ("after:2h", {"before": edge}, "time"),
        ):
            account = db.search(f"plum {text}", conditions=SearchConditions(**given)).account
            said = [note for note in account.notes if "exclude each other" in note]
            assert len(said) == 1, (text, account.notes)
            assert f"The {subject} filter" in said[0]
            assert account.total == 0
        account = db.search(
            "plum source:cli", conditions=SearchConditions(sources=("telegram",))
        ).account
        (note,) = account.notes
        assert note == (
            "The source filter in the query and the source filter given with the search exclude "
            "each other: no message satisfies both."
        )
        assert account.removed == {"sources": 6}
        # Both can hold at once, so the empty result has another reason.
        account = db.search(
            "pear source:cli", conditions=SearchConditions(sources=("cli",))
        ).account
        assert account.notes == []

    def test_filters_alone_list_what_they_keep(self, db: SessionDB, clock: FrozenClock) -> None:
        """Without search terms, the newest messages come first."""
        fill(db, clock)
        db.append_message("other", "user", "not about fruit")
        assert found(db, "source:cron") == ["not about fruit", "plum in other"]
        assert found(db, "", conditions=SearchConditions(roles=("tool",))) == [
            "plum Error: none left"
        ]
        assert found(db, "source:cron", sort="oldest") == ["plum in other", "not about fruit"]

    def test_moments(self, db: SessionDB, clock: FrozenClock) -> None:
        """At or after, and before; the stricter of two holds; a dash turns one around."""
        fill(db, clock)
        now = clock()
        edge = now - 4 * HOUR
        late = {"plum in s10", "plum in S1b", "plum in other"} | IN_S1 - {"plum in s1"}
        assert set(found(db, "plum", conditions=SearchConditions(after=edge))) == late
        assert set(found(db, "plum", conditions=SearchConditions(before=edge))) == {"plum in s1"}
        between = SearchConditions(after=edge, before=now - 3 * HOUR)
        assert found(db, "plum", conditions=between) == ["plum in s10"]
        expected = {
            "after:4h": late,
            "before:4h": {"plum in s1"},
            "-before:4h": late,
            "-after:4h": {"plum in s1"},
            "after:4h after:1h": {"plum is called", "plum Error: none left"},
            "after:4h before:3h": {"plum in s10"},
            f"after:{now - HOUR:.0f}": {"plum is called", "plum Error: none left"},
            "after:2001 before:2002": set(),
        }
        assert {text: set(found(db, f"plum {text}")) for text in expected} == expected

    def test_an_id_means_its_session_alone(self, db: SessionDB, clock: FrozenClock) -> None:
        """Beginnings of ids count only while no session has that very id."""
        fill(db, clock)
        assert set(found(db, "plum session:s1")) == IN_S1
        db.trash_sessions(["s1"])
        assert set(found(db, "plum session:s1")) == {"plum in s10", "plum in S1b"}
        db.restore_sessions(["s1"])
        assert set(found(db, "plum session:s1")) == IN_S1
        db.delete_session("s1")
        assert set(found(db, "plum session:s1")) == {"plum in s10", "plum in S1b"}

    def test_conversations(self, db: SessionDB, clock: FrozenClock) -> None:
        """All sessions of a thread, by the id of its first."""
        say(db, "root", "plum one")
        compress(db, clock, "root", "tip")
        db.append_message("tip", "user", "plum two")
        say(db, "else", "plum three")
        inside, outside = {"plum one", "plum two"}, {"plum three"}
        assert (
            set(found(db, "plum", conditions=SearchConditions(conversations=("root",)))) == inside
        )
        without = SearchConditions(exclude_conversations=("root",))
        assert set(found(db, "plum", conditions=without)) == outside
        assert found(db, "plum", conditions=SearchConditions(conversations=("tip",))) == []

    def test_archived_sessions(self, db: SessionDB) -> None:
        """They are found unless excluded."""
        say(db, "kept", "plum one")
        say(db, "put away", "plum two")
        db.set_session_archived("put away")
        assert set(found(db, "plum")) == {"plum one", "plum two"}
        assert found(db, "plum", conditions=SearchConditions(include_archived=False)) == [
            "plum one"
        ]

    def test_very_many_values(self, db: SessionDB) -> None:
        """All of them apply, within the database's limit of parameters."""
        say(db, "s", "plum one")
        others = tuple(f"none-{number}" for number in range(700))
        for conditions in (
            SearchConditions(conversations=(*others, "s")),
            SearchConditions(sessions=(*others, "s")),
            SearchConditions(exclude_sources=others),
            SearchConditions(models=others, exclude_sessions=("s",)),
        ):
            expected = [] if conditions.models else ["plum one"]
            assert found(db, "plum", conditions=conditions) == expected
        with pytest.raises(InvalidInput):
            db.search("plum", conditions=SearchConditions(conversations=("x",) * 2_000_000))

    def test_what_each_filter_removed(self, db: SessionDB, clock: FrozenClock) -> None:
        """Counted for each filter alone, while the others hold."""
        fill(db, clock)
        account = db.search("plum source:cli role:user").report
        assert (account.total, account.total_is_exact) == (1, True)
        assert account.removed == {"sources": 3, "roles": 2}
        account = db.search("plum source:nowhere").report
        assert (account.total, account.removed) == (0, {"sources": 6})
        assert db.search("plum has:error has:title").report.removed == {"has error": 4}
        assert db.search("plum").report.removed == {}
        assert db.search("plum source:cli", count=False).report.removed == {}

    def test_filters_that_cannot_be_read(self, db: SessionDB, clock: FrozenClock) -> None:
        """In the query they are ignored and reported; as a parameter they are an error."""
        fill(db, clock)
        for text in ("after:soon", "before:2025-02-30", "has:wings", "-after:never", 'source:""'):
            answer = db.search(f"plum {text}")
            assert len(answer.hits) == len(EVERYTHING), text
            assert any(repair.startswith("ignored") for repair in answer.report.repairs), text
        with pytest.raises(InvalidInput):
            db.search("plum", conditions=SearchConditions(has=("wings",)))
        with pytest.raises(InvalidInput):
            db.search("plum", conditions=SearchConditions(exclude_has=("wings",)))

    def test_what_looks_like_a_filter(self, db: SessionDB) -> None:
        """An unknown name is text, and a filter may stand inside a group."""
        say(db, "s", "TODO: fix the roof", "see http://example.com/a:b")
        assert found(db, "todo: fix") == ["TODO: fix the roof"]
        assert found(db, "http://example.com") == ["see http://example.com/a:b"]
        assert found(db, "(source:cli roof)") == ["TODO: fix the roof"]
        assert found(db, "roof -(source:cli)") == []
