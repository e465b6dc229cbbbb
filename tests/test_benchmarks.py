"""The benchmark harness: corpus, arithmetic, chart, and tiny end-to-end runs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks import chart, corpus, questions, report, servers
from benchmarks.__main__ import main
from benchmarks.corpus import CorpusMessage, CorpusSpec
from benchmarks.harness import Harness, RunFailed, choose_opponents
from benchmarks.measures import latency_metrics, median, percentile
from benchmarks.results import Results
from benchmarks.scenarios import SCENARIOS, Job, StoredRowsDiffer
from benchmarks.scenarios.base import append_timed, check_stored
from benchmarks.sizes import QUICK
from benchmarks.targets import TARGETS, Target, at_least, at_most
from benchmarks.vocabulary import RARE_WORDS

TINY = dataclasses.replace(
    QUICK,
    appended_messages=30,
    store_messages=200,
    store_messages_small=100,
    indexed_messages=50,
    large_appends=30,
    processes=2,
    messages_per_process=15,
    appends_while_reading=10,
    search_calls=1,
    listed_sessions=50,
    resumed_messages=20,
    pruned_sessions=4,
    moved_messages=100,
    lanes=(2, 4, 8),
    lane_calls=2,
    gateway_lanes=5,
    openings=2,
    process_starts=1,
)


@pytest.fixture(scope="module")
def sample() -> list[corpus.CorpusSession]:
    return list(corpus.generate(CorpusSpec(name="sample", messages=12_000)))


def messages_of(sessions: list[corpus.CorpusSession]) -> list[CorpusMessage]:
    return [message for session in sessions for message in session.messages]


# ── corpus ────────────────────────────────────────────────────────────────────────────────────


def test_the_corpus_is_the_same_bytes_everywhere() -> None:
    digest = hashlib.sha256()
    for session in corpus.generate(CorpusSpec(name="pinned", sessions=20)):
        digest.update(repr(session).encode())
    assert digest.hexdigest() == (
        "7aa844b76152230e3257bcf71c3c9681a246be286299fe0de6ed5c6a83c696bc"
    ), "published results are about these bytes: raise corpus.VERSION with any change"


def test_seeds_and_names_give_different_corpora() -> None:
    specs = [CorpusSpec(name=name, sessions=1, seed=seed) for name in "ab" for seed in (1, 2)]
    contents = {next(corpus.generate(spec)).messages[0].content for spec in specs}
    assert len(contents) == len(specs)


def test_a_corpus_file_reads_back_as_generated(tmp_path: Path) -> None:
    spec = CorpusSpec(name="file", messages=200)
    path = corpus.write(spec, tmp_path)
    assert list(corpus.read(path)) == list(corpus.generate(spec))
    written = path.stat().st_mtime_ns
    assert corpus.write(spec, tmp_path).stat().st_mtime_ns == written


def test_sizes_are_log_normal_around_600_characters(sample: list[corpus.CorpusSession]) -> None:
    sizes = [len(message.content) for message in messages_of(sample)]
    assert len(sizes) == 12_000
    assert 540 < sum(sizes) / len(sizes) < 660
    assert 340 < median(sizes) < 460  # a log-normal distribution leans to the left
    assert max(sizes) <= 8192


def test_languages_and_kinds_have_their_shares(sample: list[corpus.CorpusSession]) -> None:
    messages = messages_of(sample)
    cjk = [message for message in messages if message.kind.startswith("cjk")]
    glued = [message for message in cjk if message.kind == "cjk-glued"]
    assert 0.13 < len(cjk) / len(messages) < 0.17
    assert 0.29 < len(glued) / len(cjk) < 0.38
    assert {"prose", "code", "output", "call"} <= {message.kind for message in messages}


def test_tool_output_is_json_with_paths_and_hashes(sample: list[corpus.CorpusSession]) -> None:
    outputs = [message for message in messages_of(sample) if message.kind == "output"]
    assert outputs
    for message in outputs:
        record = json.loads(message.content)
        assert record["path"].startswith("/home/dev/projects/")
        assert len(record["sha256"]) == 64
        assert message.tool_name
        assert message.tool_call_id


def test_sessions_have_25_messages_and_some_continue_others(
    sample: list[corpus.CorpusSession],
) -> None:
    assert 22 < 12_000 / len(sample) < 28
    continuing = [session for session in sample if session.parent_id]
    assert 0.08 < len(continuing) / len(sample) < 0.16
    parents = {session.parent_id for session in continuing}
    assert {session.id for session in sample if session.end_reason == "compression"} == parents


@pytest.mark.parametrize(("word", "distance"), list(RARE_WORDS.items()))
def test_rare_words_are_planted_and_nowhere_else(
    sample: list[corpus.CorpusSession], word: str, distance: int
) -> None:
    places = [n for n, message in enumerate(messages_of(sample), 1) if word in message.content]
    assert places == list(range(distance, 12_001, distance))


def test_ended_sessions_are_whole_lineages_at_the_start() -> None:
    spec = CorpusSpec(name="ended", sessions=400, messages_per_session=2, ended_sessions=100)
    sessions = list(corpus.generate(spec))
    ended = [session for session in sessions if session.end_reason]
    assert sessions[: len(ended)] == ended
    assert 100 <= len(ended) < 120
    assert sessions[len(ended)].parent_id is None


def test_queries_are_about_what_the_corpus_has(sample: list[corpus.CorpusSession]) -> None:
    contents = [message.content for message in messages_of(sample)]
    asked = questions.classes(sample)
    assert {"phrase", "path", "mixed", *questions.FIXED} == set(asked)
    literal = ("word_rare", "word_common", "email", "identifier", "phrase", "path")
    for name in (*literal, "cjk_1", "cjk_2", "cjk_4"):
        for query in asked[name]:
            assert any(query.strip('"') in content for content in contents), query
    for query in asked["nothing"]:
        assert not any(word in content for word in query.split() for content in contents)
    with pytest.raises(LookupError, match="mixed, path, phrase"):
        questions.classes([])


# ── arithmetic ────────────────────────────────────────────────────────────────────────────────


def test_percentiles_are_nearest_rank() -> None:
    values = list(range(1000, 0, -1))
    assert percentile(values, 0.5) == 500
    assert percentile(values, 0.99) == 990
    assert percentile(values, 0.999) == 999
    assert percentile(values, 1) == 1000
    assert percentile([7], 0.01) == 7
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)
    with pytest.raises(ValueError, match="share"):
        percentile([1], 1.5)


def test_the_median_of_an_even_number_is_between() -> None:
    assert median([4, 1, 3]) == 3
    assert median([4, 1, 3, 2]) == 2.5
    with pytest.raises(ValueError, match="no values"):
        median([])


def test_latencies_become_throughput_and_percentiles() -> None:
    metrics = latency_metrics([0.001] * 99 + [0.101])
    assert metrics["per_second"] == pytest.approx(500)
    assert metrics["p50_ms"] == metrics["p99_ms"] == pytest.approx(1)
    assert metrics["worst_ms"] == pytest.approx(101)


def test_ratios_pair_the_rounds() -> None:
    results = Results()
    for ours, theirs in ((10, 2), (30, 10), (8, 2)):
        results.add("append", "ours", {"per_second": ours})
        results.add("append", "hermes-0.13", {"per_second": theirs})
    assert results.ratio("append", "per_second", "ours", "hermes-0.13") == 4
    assert results.value("append", "ours", "per_second") == 10
    assert results.worst("append", "ours", "per_second") == 30
    assert results.ratio("append", "per_second", "ours", "raw") is None


def test_verdicts_name_the_better_bound_that_holds() -> None:
    assert str(at_least(0.85)) == "≥ 0.85"
    assert at_most(3).holds(3)
    assert not at_least(2).holds(1.99)
    listing = next(target for target in TARGETS if target.what.startswith("prune, per session"))
    for value, verdict in ((0.5, "goal"), (2.5, "must"), (4.0, "missed")):
        results = Results()
        results.add("prune", "ours", {"per_session_ms": value})
        assert listing.verdict(results) == verdict
    assert listing.verdict(Results()) == "not measured"


def test_every_target_of_the_store_has_a_line() -> None:
    assert {target.number for target in TARGETS} >= {*range(1, 17)}
    assert all(target.must or target.goal for target in TARGETS)


# ── report and chart ──────────────────────────────────────────────────────────────────────────


@pytest.fixture
def measured() -> Results:
    results = Results()
    for opponent, rate in (("ours", 2000.0), ("hermes-0.13", 800.0), ("raw", 2500.0)):
        results.add("append", opponent, {"per_second": rate})
    for opponent, wait in (("ours", 0.2), ("hermes-0.13", 1061.0)):
        results.add("listing", opponent, {"p50_ms": wait})
    return results


def test_the_chart_is_well_formed_and_self_contained(measured: Results) -> None:
    picture = chart.draw(measured, subtitle="a <quick> & small run")
    root = ET.fromstring(picture)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "a <quick> & small run" in texts
    assert "2.5×" in texts
    assert any(text.startswith("5,30") for text in texts)
    assert "prefers-color-scheme: dark" in picture
    assert "href" not in picture


def test_a_chart_needs_something_to_compare() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        chart.draw(Results(), subtitle="")


def test_tables_and_document_show_what_was_measured(measured: Results, tmp_path: Path) -> None:
    targets = report.targets_table(measured)
    assert "2.5 ×" in targets
    assert "not measured" in targets
    assert "0.2 (5,305×)" in report.comparisons_table(measured)
    content = report.document(
        measured, size=QUICK, machine={"cores": 2}, sqlite_versions={"ours": "3"}, date="2026-01-01"
    )
    report.write_json(tmp_path / "results" / "a.json", content)
    stored = json.loads((tmp_path / "results" / "a.json").read_text(encoding="utf-8"))
    assert stored["results"]["append"]["ours"]["per_second"]["median"] == 2000
    assert str(tmp_path) not in json.dumps(stored)


# ── runs ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where corpora and filled stores stay for the next run, as they do for real."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def servers_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers are made where those of other tests are: nothing here measures a disk."""
    monkeypatch.setattr(servers, "ELSEWHERE", Path(tempfile.gettempdir()))


def harness(cache: Path, *opponents: str) -> Harness:
    said: list[str] = []
    run = Harness(size=TINY, opponents=choose_opponents(opponents), cache=cache, say=said.append)
    # The project is installed where the tests run; a second installation would only be slower.
    for name in ("ours", "ours-gateway", "ours-servers"):
        run.pythons[name] = Path(sys.executable)
    return run


@pytest.mark.parametrize("name", ["append", "append-large", "processes"])
def test_plain_sqlite3_runs_from_end_to_end(name: str, tmp_path: Path) -> None:
    run = harness(tmp_path, "raw")
    results = run.run([SCENARIOS[name]])
    assert results.value(name, "raw", "calls") == 30
    assert run.sqlite_versions["raw"].startswith("3.")
    assert not list((tmp_path / "runs").iterdir()), "runs leave nothing behind"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        name
        for name, scenario in SCENARIOS.items()
        if scenario.is_part_of(TINY)
        and "ours" in scenario.opponents
        and not name.endswith(("-postgresql", "-mysql"))  # run beside the servers, below
    ],
)
def test_the_store_runs_from_end_to_end(name: str, cache: Path) -> None:
    results = harness(cache, "ours").run([SCENARIOS[name]])
    assert results.rounds[name]["ours"]


@pytest.mark.slow
def test_the_gateway_runs_from_end_to_end(tmp_path: Path) -> None:
    run = harness(tmp_path, "ours-gateway")
    results = run.run([SCENARIOS["gateway"]])
    (metrics,) = results.rounds["gateway"]["ours-gateway"]
    assert metrics["round_1_mb"] == metrics["first_mb"] > metrics["round_1_pages_mb"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("servers_in_memory")
def test_the_store_and_the_driver_run_on_postgresql(cache: Path) -> None:
    run = harness(cache, "ours", "ours-postgresql", "psycopg")
    names = [
        *("append-postgresql", "processes-postgresql", "list-postgresql", "search-postgresql"),
        "lanes-postgresql",
    ]
    results = run.run([SCENARIOS[name] for name in names])
    for name in names[:2]:
        assert results.value(name, "ours-postgresql", "calls") == 30
        assert results.value(name, "psycopg", "calls") == 30
    assert results.value("processes-postgresql", "ours-postgresql", "lost") == 0
    assert results.value("list-postgresql", "ours-postgresql", "calls")
    assert results.value("lanes-postgresql", "ours-postgresql", "round_trip_most_p50_ms")
    assert otherwise("postgresql").measure(results) == 0
    assert "psycopg, no search" in report.servers_table(results)
    assert run.server_versions["postgresql"]
    assert not list((cache / "servers").iterdir()), "servers leave nothing behind"


@pytest.mark.slow
@pytest.mark.usefixtures("servers_in_memory")
def test_the_store_and_the_driver_run_on_mariadb(cache: Path) -> None:
    run = harness(cache, "ours", "ours-mysql", "pymysql")
    results = run.run([SCENARIOS["append-mysql"], SCENARIOS["search-mysql"]])
    assert results.value("append-mysql", "ours-mysql", "calls") == 30
    assert results.value("append-mysql", "pymysql", "calls") == 30
    assert otherwise("mysql").measure(results) == 0
    assert not list((cache / "servers").iterdir()), "servers leave nothing behind"


def otherwise(server: str) -> Target:
    name = {"postgresql": "PostgreSQL", "mysql": "MariaDB"}[server]
    [found] = [target for target in TARGETS if target.what.endswith(f"otherwise on {name}")]
    return found


def test_answers_of_a_server_that_differ_are_counted() -> None:
    results = Results()
    assert otherwise("mysql").measure(results) is None
    results.add("search-mysql", "ours", {"word_answers": 1.0, "path_answers": 2.0})
    results.add("search-mysql", "ours-mysql", {"word_answers": 1.0, "path_answers": 3.0})
    assert otherwise("mysql").measure(results) == 1
    assert otherwise("mysql").verdict(results) == "missed"


def test_memory_that_grows_with_the_store_is_seen() -> None:
    [growth] = [target for target in TARGETS if target.what.startswith("export, memory, to")]
    results = Results()
    results.add("memory", "ours", {"export_mb": 60.0})
    assert growth.verdict(results) == "not measured"
    results.add("memory-fifth", "ours", {"export_mb": 30.0})
    assert growth.measure(results) == 2
    assert growth.verdict(results) == "missed"


def test_calls_that_grow_with_the_lanes_are_seen() -> None:
    results = Results()
    growing = [target for target in TARGETS if target.number == 17 and target.unit == "×"]
    assert {target.verdict(results) for target in growing} == {"not measured"}
    times = {
        f"{metric}_{stage}_p50_ms": milliseconds
        for metric in ("place", "round_trip")
        for stage, milliseconds in (("few", 1.0), ("many", 1.0), ("most", 1.6))
    }
    results.add("lanes", "ours", times)
    results.add("lanes-postgresql", "ours-postgresql", times)
    assert [target.verdict(results) for target in growing] == ["missed"] * 3


def test_a_server_that_is_not_installed_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "version", lambda kind: None)
    run = harness(tmp_path, "raw", "pymysql")
    results = run.run([SCENARIOS["append"], SCENARIOS["append-mysql"]])
    assert results.value("append", "raw", "calls") == 30
    assert "append-mysql" not in results.rounds


def test_ordinary_questions_are_answered(cache: Path) -> None:
    results = harness(cache, "ours").run([SCENARIOS["recall"]])
    assert results.worst("recall", "ours", "queries") == len(questions.ORDINARY)
    assert results.worst("recall", "ours", "missed") == 0


def test_unknown_opponents_are_named_with_the_known_ones() -> None:
    with pytest.raises(LookupError, match=r"unknown: nobody; known: ours, "):
        choose_opponents(["nobody"])


def test_a_store_that_lost_a_message_fails_the_run(tmp_path: Path) -> None:
    sessions = list(corpus.generate(CorpusSpec(name="lost", messages=10)))
    (raw,) = choose_opponents(["raw"])
    job = Job(
        opponent=raw,
        store=tmp_path / "state.db",
        corpus=None,
        prepared_corpus=None,
        scratch=tmp_path,
        parameters={},
    )
    store = job.open()
    _, acknowledged = append_timed(store, sessions)
    store.close()
    check_stored(job, acknowledged)
    with pytest.raises(StoredRowsDiffer, match="11 messages acknowledged, 10 stored"):
        check_stored(job, acknowledged, already_there=1)


def test_a_failing_worker_fails_the_run_with_its_errors(tmp_path: Path) -> None:
    run = harness(tmp_path, "raw")
    listing = dataclasses.replace(SCENARIOS["listing"], opponents=("raw",))
    with pytest.raises(RunFailed, match="has no listing"):
        run.run([listing])


def test_the_command_prints_the_table_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "results.json"
    code = main(
        [
            "--quick",
            "--opponents=raw",
            "--scenarios=append",
            f"--cache={tmp_path / 'cache'}",
            f"--json={written}",
        ]
    )
    assert code == 0
    assert "verdict" in capsys.readouterr().out
    content = json.loads(written.read_text(encoding="utf-8"))
    assert content["machine"]["fsync_p50_ms"] > 0
    assert content["results"]["append"]["raw"]["calls"]["median"] == 300
