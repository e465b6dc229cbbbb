import json
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.recall import Scope, session_search
from tests.recall.conftest import Ask
from tests.recall.conversations import HOUR, MORNING, continue_in, ids_of, talk


def contents(messages: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages]


def test_the_shape(db: SessionDB, ask: Ask) -> None:
    texts = [f"line {i}" for i in range(30)]
    texts[15] = "we chose the blue kettle"
    ids = talk(db, "s1", *texts, title="Tea")
    answer = ask("kettle")
    (entry,) = answer.pop("results")
    assert answer == {
        "success": True,
        "mode": "discover",
        "query": "kettle",
        "count": 1,
        "sessions_searched": 1,
        "complete": True,
        "tokens": answer["tokens"],
    }
    assert contents(entry.pop("bookend_start")) == texts[:3]
    assert contents(entry.pop("bookend_end")) == texts[-3:]
    window = entry.pop("messages")
    assert contents(window) == texts[10:21]
    assert window[5] == {
        "id": ids[15],
        "role": "assistant",
        "content": "we chose the blue kettle",
        "anchor": True,
    }
    assert not any("anchor" in message for i, message in enumerate(window) if i != 5)
    assert entry == {
        "session_id": "s1",
        "when": "March 01, 2026 at 09:00 AM",
        "source": "cli",
        "model": "m-1",
        "title": "Tea",
        "matched_role": "assistant",
        "match_message_id": ids[15],
        "match_when": "March 01, 2026 at 09:15 AM",
        "snippet": "we chose the blue >>>kettle<<<",
        "messages_before": 10,
        "messages_after": 9,
    }


def test_bookends_do_not_overlap_the_window_and_have_text(db: SessionDB, ask: Ask) -> None:
    talk(db, "s1", "one", "two", "", "kettle", "five")
    (entry,) = ask("kettle")["results"]
    assert entry["bookend_start"] == entry["bookend_end"] == []
    assert contents(entry["messages"]) == ["one", "two", "", "kettle", "five"]


def test_tool_messages_are_shown_only_as_the_match(db: SessionDB, ask: Ask) -> None:
    talk(db, "s1", "list the files", "gladly")
    call = [{"id": "c1", "function": {"name": "terminal", "arguments": '{"cmd": "ls"}'}}]
    db.append_message("s1", "assistant", tool_calls=call)
    db.append_message("s1", "tool", "kettle.txt", tool_name="terminal", tool_call_id="c1")
    db.append_message("s1", "tool", "more output", tool_name="terminal", tool_call_id="c2")
    assert ask("kettle")["results"] == []
    (entry,) = ask("kettle", role_filter="tool")["results"]
    assert [m["role"] for m in entry["messages"]] == ["user", "assistant", "assistant", "tool"]
    assert entry["messages"][2]["tool_calls"] == call
    match = entry["messages"][-1]
    assert (match["tool_name"], match["tool_call_id"], match["anchor"]) == ("terminal", "c1", True)


def test_what_the_default_roles_hide_is_said(db: SessionDB, ask: Ask) -> None:
    talk(db, "s1", "list the files")
    db.append_message("s1", "tool", "kettle.txt", tool_name="terminal")
    answer = ask("kettle")
    assert answer["message"] == (
        "Nothing was found. Matches were removed by: role_filter (1). Try fewer or other words."
    )
    assert "sessions_searched" not in answer


@pytest.mark.parametrize("text", ["kettle role:tool", "kettle tool:terminal", "kettle has:error"])
def test_filters_in_the_text_may_ask_for_tool_messages(db: SessionDB, ask: Ask, text: str) -> None:
    talk(db, "s1", "list the files")
    db.append_message("s1", "tool", "error: no kettle", tool_name="terminal")
    assert ids_of(ask(text)) == ["s1"]


def test_a_role_may_be_asked_for_or_all(db: SessionDB, ask: Ask) -> None:
    talk(db, "user", "kettle")
    talk(db, "assistant", "what", "kettle")
    assert ids_of(ask("kettle", role_filter="assistant")) == ["assistant"]
    assert ids_of(ask("kettle", role_filter=["USER"])) == ["user"]
    assert sorted(ids_of(ask("kettle", role_filter="all"))) == ["assistant", "user"]


def test_a_conversation_is_one_result_with_the_matching_sessions_own_title_and_date(
    db: SessionDB, ask: Ask
) -> None:
    talk(db, "head", "let us talk about tea", title="Tea")
    db.end_session("head", "compression")
    (match,) = talk(
        db,
        "tip",
        "the blue kettle",
        parent="head",
        edge="compression",
        start=MORNING + 90 * 24 * HOUR,
        title="Kettles",
    )
    (entry,) = ask("kettle")["results"]
    assert (entry["session_id"], entry["parent_session_id"]) == ("tip", "head")
    assert (entry["title"], entry["when"]) == ("Kettles", "May 30, 2026 at 09:00 AM")
    assert entry["match_message_id"] == match


def test_the_root_is_named_from_any_depth(db: SessionDB, ask: Ask) -> None:
    talk(db, "a", "tea")
    continue_in(db, "a", "b", "more tea")
    continue_in(db, "b", "c", "a kettle")
    assert ask("kettle")["results"][0]["parent_session_id"] == "a"


def test_copies_of_a_message_in_continuations_are_one_result(db: SessionDB, ask: Ask) -> None:
    talk(db, "a", "the kettle is blue")
    for i, (old, new) in enumerate([("a", "b"), ("b", "c"), ("c", "d")], 1):
        continue_in(db, old, new, "the kettle is blue", start=MORNING + i * HOUR)
    (entry,) = ask("kettle")["results"]
    assert "other_matches" not in entry


def test_further_matches_are_shown_whole(db: SessionDB, ask: Ask) -> None:
    talk(db, "a", "the kettle is blue", *["no"] * 20, "the kettle broke")
    continue_in(db, "a", "b", "a kettle was bought", start=MORNING + 2 * HOUR)
    for i in range(4):
        talk(db, f"s{i}", f"kettle number {i}", start=MORNING + 3 * HOUR)
    answer = ask("kettle", limit=5)
    (entry,) = [entry for entry in answer["results"] if entry["session_id"] in "ab"]
    places = ("bookend_start", "messages", "bookend_end", "other_matches")
    texts = {m["content"] for place in places for m in entry[place]}
    assert texts >= {"the kettle is blue", "the kettle broke", "a kettle was bought"}
    elsewhere = {m["session_id"] for m in entry["other_matches"]}
    assert elsewhere == {"a", "b"} - {entry["session_id"]}
    fewer = ask("kettle", limit=2)
    assert len(fewer["results"]) == 2
    assert len(fewer["more_matches"]) >= 3
    assert all("kettle" in match["content"] for match in fewer["more_matches"])


def test_a_small_budget_goes_to_matches_first(db: SessionDB, ask: Ask) -> None:
    filler = "something else that is said at some length in between, for the context of it " * 3
    texts = [filler] * 40
    for i in range(0, 40, 8):
        texts[i] = f"about kettle number {i}: " + "it has many interesting properties " * 5
    talk(db, "s1", *texts)
    answer = ask("kettle", max_tokens=700)
    (entry,) = answer["results"]
    places = ("bookend_start", "messages", "bookend_end", "other_matches")
    shown = [message for place in places for message in entry[place]]
    whole = [m["content"] for m in shown if "kettle" in m["content"] and "truncated" not in m]
    assert sorted(whole) == sorted(texts[::8])


def test_matches_in_sight_are_not_repeated(db: SessionDB, ask: Ask) -> None:
    talk(db, "s1", "kettle", "kettle", "kettle")
    (entry,) = ask("kettle")["results"]
    assert "other_matches" not in entry


def test_the_current_conversation_never_appears(db: SessionDB, ask: Ask) -> None:
    talk(db, "head", "kettle")
    continue_in(db, "head", "tip", "kettle")
    talk(db, "other", "kettle")
    assert ids_of(ask("kettle", current_session_id="tip")) == ["other"]
    assert ids_of(ask("kettle", exclude_conversations=["other", "nobody"])) == ["tip"]
    nothing = ask("kettle", current_session_id="tip", exclude_conversations=["other"])
    assert nothing["results"] == []
    assert "the current or an excluded conversation (3)" in nothing["message"]


def test_a_match_in_the_title_only(db: SessionDB, ask: Ask) -> None:
    ids = talk(db, "s1", "hello", "hi", title="The blue kettle")
    (entry,) = ask("kettle")["results"]
    assert (entry["matched"], entry["match_message_id"]) == ("title", ids[0])
    assert entry["snippet"] == "The blue >>>kettle<<<"


def test_sorting_by_time(db: SessionDB, ask: Ask) -> None:
    for i, name in enumerate(("first", "second", "third")):
        talk(db, name, "kettle " * (3 - i), start=MORNING + i * HOUR)
    assert ids_of(ask("kettle", sort="newest")) == ["third", "second", "first"]
    assert ids_of(ask("kettle", sort="oldest", limit=2)) == ["first", "second"]


def test_better_matches_come_first(db: SessionDB, ask: Ask) -> None:
    talk(db, "passing", "we also bought a kettle among very many other things " + "x y z " * 50)
    talk(db, "about", "kettle", "which kettle", "the blue kettle", title="The kettle")
    talk(db, "later", "one kettle in passing " + "x y z " * 50, start=MORNING + HOUR)
    assert ids_of(ask("kettle"))[0] == "about"


def test_time_and_source_limits(db: SessionDB, ask: Ask) -> None:
    talk(db, "old", "kettle", start=MORNING - 48 * HOUR)
    talk(db, "new", "kettle", source="telegram")
    assert ids_of(ask("kettle", after="2d")) == ["new"]
    assert ids_of(ask("kettle", before="2026-03-01")) == ["old"]
    assert ids_of(ask("kettle", source="telegram")) == ["new"]
    assert ids_of(ask("kettle source:telegram")) == ["new"]
    assert ids_of(ask("source:telegram")) == ["new"]


# ── how the question was read ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("question", "step"),
    [
        ("what about the kettle", "without common words"),
        ("kettles brewing", "other forms of the words"),
        ("the kettle and the zeppelin", "any of the words"),
        ("ettl", "inside words"),
    ],
)
def test_a_relaxed_question_says_so(db: SessionDB, ask: Ask, question: str, step: str) -> None:
    talk(db, "s1", "brew with our kettle")
    answer = ask(question)
    assert ids_of(answer) == ["s1"]
    assert answer["reading"]["step"] == step
    assert answer["reading"]["explanation"]


def test_a_stricter_reading_comes_before_a_weaker_one(db: SessionDB, ask: Ask) -> None:
    talk(db, "strict", "brew with our kettle " + "x y z " * 50, start=MORNING - 90 * 24 * HOUR)
    talk(db, "weak", "kettle", "kettle", "kettle", title="Kettle")
    answer = ask("kettles brewing")
    assert ids_of(answer) == ["strict", "weak"]
    assert answer["reading"]["step"] == "other forms of the words"


def test_a_repaired_question_says_so(db: SessionDB, ask: Ask) -> None:
    talk(db, "s1", "brew with our kettle")
    answer = ask('"our kettle')
    assert ids_of(answer) == ["s1"]
    assert answer["reading"]["repairs"]
    assert "step" not in answer["reading"]


def test_a_question_taken_as_asked_says_nothing(db: SessionDB, ask: Ask) -> None:
    talk(db, "s1", "brew with our kettle")
    assert "reading" not in ask("our kettle")


def test_nothing_to_search_for(db: SessionDB, ask: Ask) -> None:
    talk(db, "s1", "brew")
    answer = ask('""')
    assert (answer["success"], answer["mode"], answer["results"]) == (True, "discover", [])
    assert answer["message"] == "This query contains nothing to search for."


def test_the_same_question_has_the_same_answer(db: SessionDB, ask: Ask) -> None:
    for i in range(8):
        talk(db, f"s{i}", "kettle", "kettle and pot", start=MORNING)
    assert ask("kettle OR pot", limit=5) == ask("kettle OR pot", limit=5)


def test_an_index_that_is_behind_is_said_without_numbers(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SessionDB(path) as db:
        talk(db, "mine", "kettle", *["filler"] * 2_100)
    with SessionDB(path) as db:
        db.provider.write(lambda tx: tx.run("UPDATE search_state SET indexed_through = 0"))
        # A reader cannot bring the index up to date.
        with SessionDB(path, read_only=True) as reader:
            answer = session_search(reader, "filler", scope=Scope(user_id="anna"))
    assert answer["complete"] is False
    assert "still being built" in answer["incomplete_because"]
    assert "2,1" not in json.dumps(answer)


def test_the_query_narrows_within_the_arguments(db: SessionDB, ask: Ask) -> None:
    talk(db, "s1", "the blue kettle", source="cli")
    talk(db, "s2", "the red kettle", source="telegram")
    for query, options, expected in (
        ("kettle source:cli", {"source": "telegram"}, []),
        ("kettle source:telegram", {"source": "telegram,cli"}, ["s2"]),
        ("kettle role:tool", {"role_filter": "user"}, []),
        ("kettle before:1y", {"after": "2026-02-01"}, []),
    ):
        answer = ask(query, **options)
        assert ids_of(answer) == expected, query
        assert expected or "exclude each other" in answer["message"]
