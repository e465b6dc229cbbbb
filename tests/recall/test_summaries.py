"""Summaries are a gift: in parallel, bounded, and never in the way of the plain result."""

import threading
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.recall import SummaryBounds
from hermes_sessions.recall.summaries import UNFINISHED, ParallelJobs, run_together
from tests.recall.conftest import Ask
from tests.recall.conversations import MORNING, talk

FAILED = {"summary": None, "summary_note": "the summary failed: plain result"}
TOO_LATE = {"summary": None, "summary_note": "the summary took too long: plain result"}


def told(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name.startswith("summary")}


@pytest.fixture
def kettles(db: SessionDB) -> SessionDB:
    for i in range(4):
        talk(db, f"s{i}", f"kettle number {i}", "noted", start=MORNING + i)
    return db


def test_a_summary_beside_the_plain_result(kettles: SessionDB, ask: Ask) -> None:
    sent: dict[str, str] = {}

    def summarise(prompt: str, text: str) -> str:
        sent[text] = prompt
        return f"  about {text[:30]}  "

    plain = ask("kettle", sort="newest")
    answer = ask("kettle", sort="newest", summarise=summarise)
    for entry, without in zip(answer["results"], plain["results"], strict=True):
        number = entry["session_id"][1:]
        assert entry.pop("summary") == f"about [user] kettle number {number}\n\n[assis"
        assert entry == without
    text = "[user] kettle number 3\n\n[assistant] noted"
    assert "this question: kettle\n" in sent[text]
    assert len(sent) == 3


def test_without_a_model_nothing_is_said_about_summaries(kettles: SessionDB, ask: Ask) -> None:
    assert [told(entry) for entry in ask("kettle")["results"]] == [{}, {}, {}]


def test_other_shapes_are_not_summarised(kettles: SessionDB, ask: Ask) -> None:
    def summarise(prompt: str, text: str) -> str:
        raise AssertionError("not to be called")

    assert ask(summarise=summarise)["success"]
    assert ask(session_id="s1", summarise=summarise)["success"]
    assert ask("zeppelin", summarise=summarise)["success"]


@pytest.mark.parametrize("bad", [RuntimeError("no"), "", "   ", None, 7])
def test_a_failure_leaves_the_plain_result(kettles: SessionDB, ask: Ask, bad: Any) -> None:
    def summarise(prompt: str, text: str) -> Any:
        if "number 2" not in text:
            return "fine"
        if isinstance(bad, Exception):
            raise bad
        return bad

    answer = ask("kettle", sort="newest", summarise=summarise)
    outcomes = {entry["session_id"]: told(entry) for entry in answer["results"]}
    assert outcomes == {"s3": {"summary": "fine"}, "s2": FAILED, "s1": {"summary": "fine"}}
    assert all(entry["messages"] for entry in answer["results"])


def test_number_and_length_are_bounded(db: SessionDB, kettles: SessionDB, ask: Ask) -> None:
    lengths = []

    def summarise(prompt: str, text: str) -> str:
        lengths.append(len(text))
        return "word " * 1_000

    talk(db, "long", "x " * 5_000 + "kettle" + " y" * 5_000, start=MORNING + 9)
    bounds = SummaryBounds(sessions=2, input_characters=1_000, output_characters=50)
    answer = ask("kettle", sort="newest", limit=4, summarise=summarise, summary_bounds=bounds)
    assert max(lengths) == 1_000
    assert len(lengths) == 2
    assert [len(entry["summary"] or "") for entry in answer["results"][:2]] <= [50, 50]
    note = {"summary": None, "summary_note": "not summarised: plain result"}
    assert [told(entry) for entry in answer["results"][2:]] == [note, note]


def test_a_long_conversation_is_sent_around_its_match(db: SessionDB, ask: Ask) -> None:
    seen = []

    def summarise(prompt: str, text: str) -> str:
        seen.append(text)
        return "fine"

    talk(db, "long", *["filler " * 300] * 20, "the blue kettle", *["filler " * 300] * 20)
    ask("kettle", summarise=summarise, summary_bounds=SummaryBounds(input_characters=2_000))
    assert "[user] the blue kettle" in seen[0]
    assert len(seen[0]) <= 2_000


def test_summaries_count_against_the_budget(kettles: SessionDB, ask: Ask) -> None:
    answer = ask("kettle", summarise=lambda prompt, text: "long " * 1_000, max_tokens=700)
    assert answer["tokens"]["estimated"] <= 700
    assert answer["results"][0]["summary"]


def test_a_model_that_hangs_does_not_hold_up_the_answer(kettles: SessionDB, ask: Ask) -> None:
    release = threading.Event()

    def summarise(prompt: str, text: str) -> str:
        release.wait()
        return "too late"

    bounds = SummaryBounds(seconds=0.01)
    answer = ask("kettle", summarise=summarise, summary_bounds=bounds)
    assert [told(entry) for entry in answer["results"]] == [TOO_LATE] * 3
    release.set()


def test_slow_jobs_do_not_hold_up_quick_ones() -> None:
    release = threading.Event()

    def slow() -> object:
        release.wait()
        return "slow"

    def until_two_are_done(race: ParallelJobs) -> None:
        race.wait_for(lambda: race.finished == 2)

    outcomes = run_together(
        [slow, lambda: "first", lambda: "second"], parallel=2, wait=until_two_are_done
    )
    assert outcomes == [UNFINISHED, "first", "second"]
    release.set()


def test_no_more_run_at_the_same_time_than_allowed() -> None:
    running = 0
    most = 0
    lock = threading.Lock()
    both_there = threading.Barrier(2)

    def job() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        both_there.wait()
        with lock:
            running -= 1

    run_together([job] * 6, parallel=2, wait=lambda race: race.wait_for(race.is_over))
    assert most == 2


def test_jobs_that_were_not_started_in_time_are_never_started() -> None:
    started = []
    release = threading.Event()
    first_is_running = threading.Event()

    def job() -> None:
        started.append(1)
        first_is_running.set()
        release.wait()

    outcomes = run_together([job] * 3, parallel=1, wait=lambda race: first_is_running.wait())
    release.set()
    assert outcomes == [UNFINISHED] * 3
    assert len(started) == 1
