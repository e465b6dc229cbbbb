"""One noisy session, or a thousand scheduled runs, do not hide other sessions."""

import pytest

from hermes_sessions import SessionDB
from tests.recall.conftest import Ask
from tests.recall.conversations import HOUR, MORNING, ids_of, talk


@pytest.fixture
def noise(db: SessionDB) -> None:
    """Three quiet sessions, then two noisy ones with far more matches than a search ranks."""
    for i in range(3):
        talk(db, f"quiet{i}", "the kettle is blue", "so it is", start=MORNING + i)
    for i in range(2):
        lines = [f"kettle {j}" for j in range(400)]
        talk(db, f"noisy{i}", *lines, start=MORNING + HOUR + i)


@pytest.mark.parametrize("sort", ["relevance", "newest", "oldest"])
def test_every_conversation_with_a_match_appears(
    db: SessionDB, ask: Ask, noise: None, sort: str
) -> None:
    answer = ask("kettle", limit=10, sort=sort)
    assert sorted(ids_of(answer)) == ["noisy0", "noisy1", "quiet0", "quiet1", "quiet2"]
    assert answer["sessions_searched"] == 5


@pytest.mark.parametrize(
    "question",
    ["kettle", "what about the kettle", "kettles", "kettle zeppelin", "ettl", "after:2026"],
)
def test_also_when_the_question_is_relaxed(
    db: SessionDB, ask: Ask, noise: None, question: str
) -> None:
    assert len(ids_of(ask(question, limit=5))) == 5


def test_a_better_match_wins_over_noise(db: SessionDB, ask: Ask, noise: None) -> None:
    talk(db, "best", "which blue kettle", "that one", title="Blue kettle", start=MORNING - HOUR)
    assert ids_of(ask("blue kettle"))[0] == "best"
    assert ids_of(ask("kettle OR blue"))[0] == "best"


def test_scheduled_runs_do_not_hide_people(db: SessionDB, ask: Ask) -> None:
    for i in range(2):
        talk(db, f"person{i}", "the kettle is blue", start=MORNING + i)
    for i in range(150):
        talk(db, f"run{i}", "kettle kettle kettle", source="cron", start=MORNING + HOUR + i)
    found = ids_of(ask("kettle", limit=3))
    assert sorted(found[:2]) == ["person0", "person1"]
    assert found[2].startswith("run")
    assert all(name.startswith("run") for name in ids_of(ask("kettle", source="cron")))
    assert all(name.startswith("run") for name in ids_of(ask("kettle source:cron")))


@pytest.mark.parametrize("source", ["cron", "tool", "subagent"])
def test_demoted_sources_come_last_but_are_found(db: SessionDB, ask: Ask, source: str) -> None:
    talk(db, "demoted", "kettle", title="Kettle", source=source, start=MORNING + HOUR)
    talk(db, "person", "one kettle in passing " + "x y z " * 50)
    assert ids_of(ask("kettle")) == ["person", "demoted"]


def test_an_exact_match_of_a_demoted_source_is_not_lost_to_a_vague_one(
    db: SessionDB, ask: Ask
) -> None:
    talk(db, "person", "a blue pot")
    talk(db, "run", "the blue kettle", source="cron")
    assert ids_of(ask("blue kettle")) == ["run"]


def test_within_a_conversation_the_persons_part_is_shown(db: SessionDB, ask: Ask) -> None:
    talk(db, "person", "one kettle in passing " + "x y z " * 50)
    talk(
        db, "helper", "kettle", title="Kettle", source="subagent", parent="person", edge="subagent"
    )
    (entry,) = ask("kettle")["results"]
    assert entry["session_id"] == "person"
