import pytest

from hermes_sessions import SessionDB
from tests.recall.conftest import Ask
from tests.recall.conversations import HOUR, MORNING, continue_in, ids_of, talk


def test_the_shape(db: SessionDB, ask: Ask) -> None:
    talk(db, "s1", "how do I brew tea", "gently", title="Tea")
    assert ask() == {
        "success": True,
        "mode": "browse",
        "results": [
            {
                "session_id": "s1",
                "title": "Tea",
                "source": "cli",
                "when": "March 01, 2026 at 09:00 AM",
                "last_active_when": "March 01, 2026 at 09:01 AM",
                "message_count": 2,
                "preview": "how do I brew tea",
            }
        ],
        "count": 1,
        "message": "The most recent conversations. Search them with query, or open one with "
        "session_id.",
        "tokens": {"budget": 8000, "estimated": 141, "estimate": "pieces of words"},
    }


def test_an_empty_store(ask: Ask) -> None:
    answer = ask()
    assert (answer["results"], answer["count"]) == ([], 0)
    assert answer["message"] == "There are no past conversations."


def test_the_latest_activity_comes_first(db: SessionDB, ask: Ask) -> None:
    talk(db, "old", "a", start=MORNING)
    talk(db, "young", "b", start=MORNING + HOUR)
    db.append_message("old", "user", "back again", timestamp=MORNING + 2 * HOUR)
    assert ids_of(ask()) == ["old", "young"]


def test_one_row_per_conversation(db: SessionDB, ask: Ask) -> None:
    talk(db, "head", "a", title="The plan")
    continue_in(db, "head", "tip", "b", start=MORNING + HOUR)
    talk(db, "branch", "c", parent="head", edge="branch", start=MORNING + 2 * HOUR)
    talk(db, "helper", "d", parent="head", edge="subagent", start=MORNING + 3 * HOUR)
    talk(db, "other", "e", start=MORNING - HOUR)
    assert ids_of(ask(limit=10)) == ["branch", "other"]


def test_the_current_conversation_is_left_out(db: SessionDB, ask: Ask) -> None:
    talk(db, "head", "a")
    continue_in(db, "head", "tip", "b")
    talk(db, "other", "c")
    for current in ("head", "tip"):
        assert ids_of(ask(current_session_id=current)) == ["other"]
    assert ids_of(ask(current_session_id="never stored")) == ["tip", "other"]


def test_conversations_are_left_out_on_request(db: SessionDB, ask: Ask) -> None:
    for name in ("one", "two", "three"):
        talk(db, name, "x")
    assert ids_of(ask(exclude_conversations=["one", "unknown", "three"])) == ["two"]


def test_work_for_others_is_hidden_and_scheduled_work_comes_last(db: SessionDB, ask: Ask) -> None:
    talk(db, "person", "a", start=MORNING)
    for i, source in enumerate(("tool", "subagent", "cron"), 1):
        talk(db, source, "b", source=source, start=MORNING + i * HOUR)
    assert ids_of(ask(limit=10)) == ["person", "cron"]
    assert ids_of(ask(limit=1)) == ["person"]
    assert ids_of(ask(source="tool,cron")) == ["cron", "tool"]
    assert ids_of(ask(source="Tool, CRON")) == ["cron", "tool"]


def test_many_scheduled_runs_do_not_hide_people(db: SessionDB, ask: Ask) -> None:
    talk(db, "person", "a", start=MORNING)
    for i in range(250):
        talk(db, f"run{i}", "b", source="cron", start=MORNING + HOUR + i)
    assert ids_of(ask())[0] == "person"


def test_archived_trashed_and_empty_sessions_are_not_listed(db: SessionDB, ask: Ask) -> None:
    for name in ("archived", "trashed", "kept"):
        talk(db, name, "x")
    talk(db, "empty")
    db.set_session_archived("archived")
    db.trash_sessions(["trashed"])
    assert ids_of(ask(limit=10)) == ["kept"]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"after": "2026-03-02"}, ["d2", "d1"]),
        ({"before": "2026-03-02"}, ["d0"]),
        ({"after": "2026-03-02", "before": "2026-03-03"}, ["d1"]),
        ({"after": "30min"}, []),
    ],
)
def test_time_limits(db: SessionDB, ask: Ask, limits: dict[str, str], expected: list[str]) -> None:
    for day in range(3):
        talk(db, f"d{day}", "x", start=MORNING + day * 24 * HOUR)
    moved = {"clock": lambda: MORNING + 72 * HOUR}
    assert ids_of(ask(**limits, **moved)) == expected


def test_a_small_budget_shows_fewer_rows(db: SessionDB, ask: Ask) -> None:
    for i in range(10):
        talk(
            db, f"s{i}", "what is the longest preview that a row can have " * 3, title=f"T{i} " * 20
        )
    answer = ask(limit=10, max_tokens=500)
    assert 0 < answer["count"] == len(answer["results"]) < 10
    assert answer["tokens"]["estimated"] <= 500
