"""Sessions as JSON Lines files: lossless export, strict import."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.errors import ImportRefused
from hermes_sessions.storage import jsonl
from hermes_sessions.storage.jsonl import JsonlFile, import_file, read_jsonl, write_jsonl
from hermes_sessions.storage.sessiondb import SessionDB
from tests.storage.export_samples import everything, fill, ticking

Record = dict[str, Any]


def written(records: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    write_jsonl(records, file, **options)
    return file.getvalue()


def read(content: bytes, **options: Any) -> list[Record]:
    return list(read_jsonl(io.BytesIO(content), **options))


@pytest.fixture
def db() -> Iterator[SessionDB]:
    with SessionDB(":memory:", clock=ticking()) as db:
        yield db


# ── round trip ────────────────────────────────────────────────────────────────────────────────


def test_a_file_brings_everything_back(db: SessionDB, tmp_path: Path) -> None:
    fill(db)
    path = tmp_path / "backup.jsonl"
    with path.open("wb") as file:
        assert write_jsonl(db.iter_export(), file) == len(db.export_all())
    with SessionDB(":memory:") as copy:
        import_file(copy, path)
        assert everything(copy) == everything(db)
        assert written(copy.iter_export()) == path.read_bytes()
        report = import_file(copy, path)
        assert (report["imported"], report["skipped"]) == (0, len(db.export_all()))


def test_lines_are_what_other_tools_expect(db: SessionDB) -> None:
    fill(db)
    lines = written(db.iter_export()).decode("utf-8").split("\n")
    assert lines.pop() == ""
    parsed = [json.loads(line) for line in lines]
    assert [p["id"] for p in parsed] == [r["id"] for r in db.export_all()]
    head = next(line for line in lines if line.startswith('{"id": "head"'))
    assert '"title": "Projekt 漓江"' in head
    contents = next(p for p in parsed if p["id"] == "contents")
    raw = next(m for m in contents["messages"] if m.get("content_type") == "base64")
    assert raw["content"] == "AP8gcmF3"


def test_reading_gives_back_the_records_themselves(db: SessionDB) -> None:
    fill(db)
    assert read(written(db.iter_export())) == db.export_all()


def test_a_large_session_is_split_over_lines(db: SessionDB) -> None:
    fill(db)
    content = written(db.iter_export(), split_bytes=1_500)
    assert max(map(len, content.split(b"\n"))) < 3_000
    assert content.count(b'"more": true') == content.count(b'"continues": ') > 5
    assert read(content) == db.export_all()


def test_one_message_larger_than_a_part_stays_whole(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_messages("s", [{"role": "user", "content": "x" * n} for n in (10, 5_000, 10)])
    content = written(db.iter_export(), split_bytes=1_000)
    assert content.count(b"\n") == 3
    assert read(content) == db.export_all()


def test_numbers_that_are_not_finite_come_back(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "user", [float("inf"), -float("inf")], tool_calls=[{"n": float("inf")}])
    content = written(db.iter_export())
    assert b"[Infinity, -Infinity]" in content
    assert read(content) == db.export_all()
    with SessionDB(":memory:") as copy:
        copy.import_sessions(read(content))
        assert copy.export_all() == db.export_all()


def test_tool_calls_that_other_tools_wrote_come_back_as_they_are() -> None:
    odd = ["[{", "", "null", '"text"', "[]", '{"a": 1}', "[ 1 ]", "\x00"]
    messages = [
        {"role": "assistant", "content": None, "timestamp": 1.0, "tool_calls": o} for o in odd
    ]
    with SessionDB(":memory:") as db, SessionDB(":memory:") as copy:
        db.import_sessions([{"id": "s", "messages": messages}])
        exported = db.export_session("s")
        assert exported is not None
        assert [m["tool_calls"] for m in exported["messages"]] == [
            "[{",
            "",
            "null",
            '"text"',
            [],
            {"a": 1},
            [1],
            "\x00",
        ]
        copy.import_sessions(read(written(db.iter_export())))
        assert copy.export_all() == db.export_all()
        assert copy.import_sessions(db.export_all())["skipped"] == 1


any_text = st.text(st.characters(exclude_categories=()), max_size=20)
any_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=6,
)
structured = st.lists(any_json, max_size=3) | st.dictionaries(any_text, any_json, max_size=3)
any_message = st.fixed_dictionaries(
    {
        "role": any_text.filter(bool),
        "content": st.none() | any_text | structured | st.binary(max_size=20),
    },
    optional={
        "tool_calls": structured,
        "tool_name": any_text,
        "tool_call_id": any_text,
        "finish_reason": any_text,
        "reasoning": any_text,
        "reasoning_content": any_text,
        "reasoning_details": structured,
        "token_count": st.integers(0, 2**62),
        "timestamp": st.floats(-1e12, 1e12),
    },
)


@given(
    st.lists(any_message, max_size=4),
    any_text.filter(str.strip),
    any_text,
    st.integers(200, 2_000),
)
def test_any_session_survives_a_file(
    messages: list[Record], session_id: str, prompt: str, split_bytes: int
) -> None:
    with SessionDB(":memory:", clock=ticking()) as db, SessionDB(":memory:") as copy:
        db.create_session(session_id, "cli", system_prompt=prompt, user_id=prompt)
        db.append_messages(session_id, messages)
        records = read(written(db.iter_export(), split_bytes=split_bytes))
        assert records == db.export_all()
        assert copy.import_sessions(records)["imported"] == 1
        assert copy.export_all() == db.export_all()
        assert copy.import_sessions(records)["skipped"] == 1


# ── hostile and broken files ──────────────────────────────────────────────────────────────────

GOOD = b'{"id": "good", "messages": []}\n'


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[\n", "Line 2: it is not JSON"),
        (b"[]\n", "Line 2: a session must be a JSON object, one per line, not list"),
        (b'"text"\n', "not str"),
        (b"null\n", "not NoneType"),
        (b"{}{}\n", "Line 2: it is not JSON"),
        (b"{'id': 1}\n", "Line 2: it is not JSON"),
        (b'{"id": "x", "messages": [{"role": "us', "Line 2: the file ends in the middle"),
        (b'{"id": "x", "a": {"b": 1}', "Line 2: it is not JSON"),
        (b'{"id": "\xff"}\n', "Line 2: it is not UTF-8"),
        (b"\x00\x01\x02\x03\n", "Line 2"),
        (bytes(range(256)) * 8, "Line 2"),
        (b'{"id": ' + b"1" * 5_000 + b"}\n", "Line 2"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "Line 2: it is nested too deeply"),
        (b'{"id": "x", "messages": ' + b'{"a":' * 90_000 + b"}\n", "Line 2"),
        (b'{"id": "' + b"x" * 3_000 + b'"}\n', "Line 2: it is longer than 2,000 bytes"),
        (b"x" * 3_000, "Line 2: it is longer than 2,000 bytes"),
        (b'{"continues": "good", "messages": []}\n', "Line 2: nothing before it belongs"),
        (b'{"id": "x", "messages": [], "more": true}\n', "The file ends within session 'x'"),
        (
            b'{"id": "x", "messages": [], "more": true}\n{"id": "y", "messages": []}\n',
            "Line 3: session 'x' must continue here",
        ),
        (
            b'{"id": "x", "messages": [], "more": true}\n{"continues": "y", "messages": []}\n',
            "Line 3: session 'x' must continue here",
        ),
        (
            b'{"id": "x", "messages": [], "more": true}\n{"continues": "x", "messages": 5}\n',
            "Line 3: messages must be a list",
        ),
        (b'{"id": "x", "messages": {}, "more": true}\n', "Line 2: messages must be a list"),
    ],
)
def test_a_broken_line_is_named_and_refused(content: bytes, problem: str) -> None:
    limit = 2_000 if b"x" * 3_000 in content else jsonl.MAX_LINE_BYTES
    with pytest.raises(ImportRefused) as caught:
        read(GOOD + content, max_line_bytes=limit)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n \r\n",
        GOOD,
        GOOD.rstrip(),
        b"\xef\xbb\xbf" + GOOD,
        b"\n" + GOOD.replace(b"\n", b"\r\n"),
    ],
)
def test_what_editors_do_to_a_file_is_accepted(content: bytes) -> None:
    assert [record["id"] for record in read(content)] == (["good"] if content.strip() else [])


@pytest.mark.parametrize(
    ("bad", "problems"),
    [
        (b'{"id": "x", "messages": [{"role": "user", "content": "cut o', ["Line 2"]),
        (
            b'\n\n{"id": ""}\n{"id": "y"}\n{"id": 5}\n',
            ["Line 4: A session id", "Line 6: A session"],
        ),
        (GOOD, ["Line 2: Session 'good' appears twice"]),
        (
            b'{"id": "x", "messages": [{"content": "no role"}]}\n',
            ["Line 2: Message 0: needs a role"],
        ),
        (b'{"id": "x", "messages": {"0": {}}}\n', ["Line 2: messages must be a list"]),
    ],
)
def test_nothing_of_a_bad_file_is_imported(
    db: SessionDB, tmp_path: Path, bad: bytes, problems: list[str]
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(GOOD + bad)
    with pytest.raises(ImportRefused, match="Nothing was imported") as caught:
        import_file(db, path)
    for problem in problems:
        assert problem in str(caught.value)
    assert db.session_count() == 0


def test_many_errors_are_not_all_shown(db: SessionDB, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"id": 1}\n' * 500)
    with pytest.raises(ImportRefused, match="… and 490 more") as caught:
        import_file(db, path)
    assert len(str(caught.value)) < 2_000


def test_a_missing_file_a_directory_and_a_database_are_refused(
    db: SessionDB, tmp_path: Path
) -> None:
    with pytest.raises(ImportRefused, match="cannot be read"):
        import_file(db, tmp_path / "missing.jsonl")
    with pytest.raises(ImportRefused, match="cannot be read"):
        import_file(db, tmp_path)
    with SessionDB(tmp_path / "other.db") as other:
        other.create_session("s", "cli")
        with pytest.raises(ImportRefused, match="database"):
            import_file(db, tmp_path / "other.db")
        other.append_message("s", "user", "its locks are still its own")


def test_progress_reaches_its_end_and_never_goes_back(db: SessionDB, tmp_path: Path) -> None:
    fill(db)
    path = tmp_path / "backup.jsonl"
    with path.open("wb") as file:
        write_jsonl(db.iter_export(), file)
    steps: list[tuple[int, int]] = []
    with SessionDB(":memory:") as copy:
        import_file(copy, path, lambda done, total: steps.append((done, total)))
    assert steps == sorted(steps)
    assert steps[-1] == (2 * path.stat().st_size,) * 2


def test_memory_for_a_file_does_not_grow_with_its_sessions(tmp_path: Path) -> None:
    def peak(sessions: int) -> int:
        path = tmp_path / f"{sessions}.jsonl"
        messages = [
            {"role": "user", "content": "text " * 40, "timestamp": float(n)} for n in range(100)
        ]
        with path.open("wb") as file:
            write_jsonl(({"id": f"s{n}", "messages": messages} for n in range(sessions)), file)
        tracemalloc.start()
        try:
            assert sum(len(record["messages"]) for record in JsonlFile(path)) == 100 * sessions
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(200) < 1.5 * peak(10)


# ── killed ────────────────────────────────────────────────────────────────────────────────────

IMPORTER = """
import sys
from hermes_sessions.storage.jsonl import import_file
from hermes_sessions.storage.sessiondb import SessionDB

def tell(done, total):
    print(done, total, flush=True)
    sys.stdin.readline()

with SessionDB(sys.argv[1], durability="normal") as db:
    print(import_file(db, sys.argv[2], tell)["ok"], flush=True)
"""


@pytest.mark.slow
def test_an_import_killed_again_and_again_is_completed(tmp_path: Path, long_run: bool) -> None:
    path, store = tmp_path / "backup.jsonl", tmp_path / "target.db"
    with SessionDB(":memory:", clock=ticking()) as db:
        fill(db)
        for number in range(60 if long_run else 9):
            db.create_session(f"long{number}", "cli")
            parent = f"long{number - 1}" if number % 3 else None
            if parent:
                db.end_session(parent, "compression")
                db.create_session(f"long{number}", "cli", parent_session_id=parent)
            texts = [{"role": "user", "content": f"{number}.{n}"} for n in range(40 + 130 * number)]
            db.append_messages(f"long{number}", texts)
        with path.open("wb") as file:
            write_jsonl(db.iter_export(), file)
        wanted = everything(db)

    patience, runs = 1, 0
    while not _import_until(store, path, patience):
        patience += 2 if long_run else 9
        runs += 1
        with SessionDB(store) as half:
            # A partial file is always a prefix of the whole file.
            for record in half.iter_export():
                complete = next(r for r in wanted["records"] if r["id"] == record["id"])
                assert record["messages"] == complete["messages"][: len(record["messages"])]
    assert runs > 3
    with SessionDB(store) as done:
        assert everything(done) == wanted


def _import_until(store: Path, path: Path, patience: int) -> bool:
    """Import in another process; kill it at its n-th step and at once thereafter."""
    with subprocess.Popen(
        [sys.executable, "-c", IMPORTER, str(store), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for step, line in enumerate(process.stdout, start=1):
            if line.strip() == "True":
                process.stdin.close()
                return process.wait() == 0
            process.stdin.write("\n")
            process.stdin.flush()
            if step == patience:
                os.kill(process.pid, signal.SIGKILL)
        process.stdin.close()
        assert process.wait() == -signal.SIGKILL
    return False
