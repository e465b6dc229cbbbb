"""hermes sessions export and import."""

import json
import os
import signal
import stat
import threading
from base64 import b64encode
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.cli import files
from tests.care.repair.other_processes import write_and_die
from tests.cli.harness import Hermes, Result
from tests.cli.sample_store import ARCHIVED, AUTH, OLD, PLAN, PROJECT, TOOL, WEATHER
from tests.cli.terminal import SLOW_COMMAND, Terminal
from tests.cli.test_error_output import assert_one_line
from tests.fixtures.hermes import stored

ALL = 10


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def everything(path: Path) -> list[dict[str, Any]]:
    with SessionDB(path) as db:
        return sorted(db.iter_export(), key=lambda record: str(record["id"]))


# ── export ────────────────────────────────────────────────────────────────────────────────────


def test_everything_is_exported_readably_and_privately(filled: Hermes, tmp_path: Path) -> None:
    file = tmp_path / "backup.jsonl"
    result = filled.run("sessions", "export", str(file))
    assert result == Result(0, f"Exported {ALL} sessions (18 messages) to {file}\n", "")
    records = lines_of(file)
    assert len(records) == ALL
    assert {TOOL, ARCHIVED} <= {record["id"] for record in records}
    assert "旅行の計画 🚀" in file.read_text(encoding="utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.jsonl", "home"]


def test_some_sessions(filled: Hermes, tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    filled.call("sessions", "export", str(file), "--source", "discord")
    assert [record["id"] for record in lines_of(file)] == [PLAN]
    one = ["--session-id", "20250305_0915", "--session-id", AUTH]
    result = filled.call("sessions", "export", str(file), "--force", *one, "--json")
    assert result.json == {"exported": 1, "messages": 4, "file": str(file)}
    assert [record["id"] for record in lines_of(file)] == [AUTH]
    both = filled.call("sessions", "export", "-", "--source", "cli", "--session-id", AUTH)
    assert both.code == 2


def test_standard_output_gets_the_lines_and_nothing_else(filled: Hermes) -> None:
    result = filled.run("sessions", "export", "-")
    assert (result.code, result.err) == (0, "")
    assert len([json.loads(line) for line in result.out.splitlines()]) == ALL


def test_a_file_is_not_replaced_by_accident(filled: Hermes, tmp_path: Path) -> None:
    file = tmp_path / "backup.jsonl"
    file.write_text("precious")
    file.chmod(0o640)
    result = filled.call("sessions", "export", str(file))
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f"Error: {file} already exists. Choose another name, or overwrite it with --force.\n"
    )
    assert file.read_text() == "precious"
    link = tmp_path / "link.jsonl"
    link.symlink_to(file)
    assert filled.call("sessions", "export", str(link), "--force").code == 0
    assert link.is_symlink()
    assert len(lines_of(file)) == ALL
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_the_store_is_never_replaced_by_its_export(filled: Hermes, tmp_path: Path) -> None:
    before = everything(filled.store)
    symbolic, hard = tmp_path / "symbolic.db", tmp_path / "hard.db"
    symbolic.symlink_to(filled.store)
    hard.hardlink_to(filled.store)
    for target in (filled.store, symbolic, hard, Path(f"{filled.store}-wal")):
        result = filled.call("sessions", "export", str(target), "--force")
        assert (result.code, result.out) == (1, "")
        assert result.err == f"Error: {target} is part of the store. Choose another file name.\n"
    hard.unlink()
    assert everything(filled.store) == before


def test_places_that_cannot_be_written(filled: Hermes, tmp_path: Path) -> None:
    for target, words in (
        (tmp_path, "is a directory"),
        (tmp_path / "no" / "where.jsonl", "No such file or directory"),
        (Path("/dev/full"), "No space left on device"),
    ):
        result = filled.call("sessions", "export", str(target))
        assert (result.code, result.out) == (1, "")
        assert words in result.err
        assert len(result.err.splitlines()) == 1


def test_a_device_or_pipe_stays_what_it_is(filled: Hermes, tmp_path: Path) -> None:
    assert filled.call("sessions", "export", "/dev/null").code == 0
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text(encoding="utf-8")))
    reader.start()
    assert filled.call("sessions", "export", str(pipe)).code == 0
    reader.join()
    assert len(received[0].splitlines()) == ALL
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_pipes_of_a_shell_are_written_to(filled: Hermes) -> None:
    reading, writing = os.pipe()
    with filled.start("sessions", "export", f"/dev/fd/{writing}", pass_fds=[writing]) as process:
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as pipe:
            assert len(pipe.read().splitlines()) == ALL
    assert process.returncode == 0


# An export that stops in the middle until it is told to end.
STUCK_EXPORT = """
import sys, time
from hermes_sessions.cli.main import run
from hermes_sessions.cli.sessions import export

def stuck(form, records, file):
    file.write(b"half of it")
    file.flush()
    print("stuck", file=sys.stderr, flush=True)
    sys.stdin.read()

export.write_as = stuck
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_an_interrupted_export_leaves_nothing(
    filled: Hermes, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    file = tmp_path / "backup.jsonl"
    file.write_text("the one from yesterday")
    process = filled.start_program(STUCK_EXPORT, "sessions", "export", str(file), "--force")
    assert process.stderr is not None
    assert process.stderr.readline() == "stuck\n"
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == code
    assert "Traceback" not in err
    assert file.read_text() == "the one from yesterday"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.jsonl", "home"]


def test_a_reader_who_leaves_early(filled: Hermes) -> None:
    with filled.db() as db:
        db.append_message(WEATHER, "user", "x" * 1_000_000)
    process = filled.start("sessions", "export", "-")
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait() == 141
    process.stderr.close()
    assert process.stdin is not None
    process.stdin.close()


#: Says last how many kilobytes it took at most. The kernel's other figure for that, ``ru_maxrss``,
#: begins with what the process took that started this one.
MEASURED = """
import re, sys
from hashlib import blake2b
from pathlib import Path
from hermes_sessions.cli.main import run
code = run(sys.argv[1:])
print(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
sys.exit(code)
"""


def test_memory_does_not_grow_with_the_store(hermes: Hermes, tmp_path: Path) -> None:
    taken = []
    with hermes.db() as db:
        for sessions in (range(5), range(5, 60)):
            for number in sessions:
                db.create_session(f"s{number}", "cli")
                db.append_message(f"s{number}", "user", "x" * 1_000_000)
            file = tmp_path / f"{len(taken)}.jsonl"
            process = hermes.start_program(MEASURED, "sessions", "export", str(file))
            out, err = process.communicate()
            assert process.returncode == 0, err
            taken.append(int(out.split()[-1]))
    assert file.stat().st_size > 60_000_000
    assert taken[1] - taken[0] < 20_000


@pytest.mark.parametrize(
    ("name", "beginning"),
    [
        ("a.md", b"# refactoring auth\n"),
        ("a.MARKDOWN", b"# refactoring auth\n"),
        ("a.html", b"<!DOCTYPE html>"),
        ("a.HTM", b"<!DOCTYPE html>"),
        ("a.txt", b'{"id": '),
    ],
)
def test_the_ending_of_a_name_says_the_form(
    filled: Hermes, tmp_path: Path, name: str, beginning: bytes
) -> None:
    filled.call("sessions", "export", str(tmp_path / name), "--session-id", AUTH)
    assert (tmp_path / name).read_bytes().startswith(beginning)
    filled.call("sessions", "export", str(tmp_path / name), "--force", "--format", "jsonl")
    assert len(lines_of(tmp_path / name)) == ALL


def test_filters(filled: Hermes, tmp_path: Path) -> None:
    def found(*options: str) -> set[str]:
        result = filled.call("sessions", "export", "-", *options)
        return {json.loads(line)["id"] for line in result.out.splitlines()}

    assert found("--title", "PROJECT", "--since", "2025-03-03") == {PROJECT}
    assert found("--until", "2025-01-01") == {OLD}
    assert found("--user", "u42") == {WEATHER}
    assert found("--title", "nowhere") == set()
    assert len(filled.call("sessions", "export", "-", "--user", "u7").out.splitlines()) == 1
    wrong = filled.call("sessions", "export", "-", "--since", "1d", "--until", "2d")
    assert (wrong.code, wrong.out) == (2, "")
    both = filled.call("sessions", "export", "-", "--title", "x", "--session-id", AUTH)
    assert both.code == 2


def test_what_a_query_finds(filled: Hermes, tmp_path: Path) -> None:
    def exported(*filters: str) -> list[str]:
        result = filled.call("sessions", "export", "-", *filters)
        assert result.code == 0
        return [json.loads(line)["id"] for line in result.out.splitlines()]

    assert exported("--query", "auth module") == [AUTH]
    assert exported("--query", "weather OR auth") == [AUTH, WEATHER]
    assert exported("--query", "weather OR auth", "--source", "telegram") == [WEATHER]
    assert exported("--query", "weather OR auth", "--title", "REFACT") == [AUTH]
    assert exported("--query", "weather OR auth", "--until", "2025-03-04") == [WEATHER]
    assert exported("--query", "weather OR auth source:cli") == [AUTH]

    page = tmp_path / "page.html"
    result = filled.call("sessions", "export", str(page), "--query", "no such thing anywhere")
    assert (result.code, page.exists()) == (1, False)
    assert "nothing was written" in result.err
    result = filled.call("sessions", "export", str(page), "--query", "x", "--session-id", AUTH)
    assert (result.code, page.exists()) == (2, False)


def test_stored_text_cannot_act_in_a_page(hermes: Hermes, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\x1b[2J\ud800"
    with hermes.db() as db:
        db.create_session("s", evil, model=evil)
        db.set_session_title("s", "<b>title</b>")
        db.append_message("s", evil, evil, tool_name=evil)
        db.append_message("s", "assistant", None, tool_calls=[{"name": evil, "arguments": evil}])
        db.append_message("s", "assistant", b"\x00\x01")
    for name in ("page.html", "page.md"):
        assert hermes.call("sessions", "export", str(tmp_path / name)).code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<b>" not in page
    assert "\x1b" not in page + (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "[non-text content]" in page


def test_what_was_taken_back_is_not_for_readers(hermes: Hermes) -> None:
    with hermes.db() as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "stays")
        gone = db.append_message("s", "user", "taken back")
        db.rewind_to_message("s", gone)
        db.append_message("s", "tool", "```\nfenced\n```")
    markdown = hermes.call("sessions", "export", "-", "--format", "md").out
    assert "stays" in markdown
    assert "taken back" not in markdown
    assert "````\n```\nfenced\n```\n````" in markdown
    assert "taken back" in hermes.call("sessions", "export", "-").out


def test_payloads_are_for_readers_unless_private(hermes: Hermes) -> None:
    with hermes.db() as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "shown", payload={"kind": "not repeated"})
        db.append_message("s", "assistant", payload={"kind": "<item> **1**"})
        db.append_message("s", "assistant", payload={"kind": "encrypted"}, payload_private=True)
    for form, shown in (("md", '<item> **1**"\n}\n```'), ("html", "&lt;item&gt; **1**")):
        text = hermes.call("sessions", "export", "-", "--format", form).out
        assert shown in text
        assert "[private payload]" in text
        assert "encrypted" not in text
        assert "not repeated" not in text
    lines = hermes.call("sessions", "export", "-").out
    assert '{"kind": "encrypted"}' in lines
    shown = hermes.call("sessions", "show", "s").out
    assert shown.count("[non-text content]") == 2
    assert "encrypted" not in shown


def test_secrets_are_redacted_and_counted(hermes: Hermes, tmp_path: Path) -> None:
    key = "sk-" + "a" * 40
    with hermes.db() as db:
        db.create_session("s", "cli", system_prompt=f"key {key}")
        db.append_message("s", "user", f"{key} of anna@example.com in /home/anna/x")
    file = tmp_path / "shared.jsonl"
    result = hermes.call("sessions", "export", str(file), "--redact")
    text = file.read_text(encoding="utf-8")
    assert key not in text
    assert "anna" not in text
    assert result.out.splitlines()[-1] == (
        "Redacted: 2 API key, 1 e-mail address, 1 home directory. "
        "Review the file before you share it."
    )
    again = hermes.call("sessions", "export", str(file), "--redact", "--force", "--json").json
    assert again["redacted"] == {"API key": 2, "e-mail address": 1, "home directory": 1}
    assert hermes.call("sessions", "import", str(file), "--into", str(tmp_path / "b.db")).code == 0


# ── import ────────────────────────────────────────────────────────────────────────────────────


def test_a_stream_that_never_ends_a_line_does_not_fill_the_disk(
    hermes: Hermes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 3 * 1024 * 1024)
    result = hermes.call("sessions", "import", "/dev/zero")
    assert result.code == 1
    assert "Line 1 is longer than 3,145,728 bytes. Nothing was imported." in result.err


@pytest.fixture
def elsewhere(tmp_path: Path) -> Hermes:
    """The command on another machine, so to speak."""
    return Hermes(tmp_path / "elsewhere")


@pytest.fixture
def backup(filled: Hermes, tmp_path: Path) -> Path:
    file = tmp_path / "backup.jsonl"
    assert filled.call("sessions", "export", str(file)).code == 0
    return file


def test_a_round_trip_loses_nothing_and_a_second_one_changes_nothing(
    filled: Hermes, elsewhere: Hermes, backup: Path
) -> None:
    first = elsewhere.run("sessions", "import", str(backup))
    assert first == Result(0, f"Imported {ALL} sessions from {backup}.\n", "")
    assert everything(elsewhere.store) == everything(filled.store)
    again = elsewhere.call("sessions", "import", str(backup))
    assert again.out == (f"Imported 0 sessions from {backup}, {ALL} already stored.\n")
    assert everything(elsewhere.store) == everything(filled.store)


def test_sessions_that_have_grown_are_extended(
    filled: Hermes, elsewhere: Hermes, backup: Path
) -> None:
    elsewhere.call("sessions", "import", str(backup))
    with filled.db() as db:
        db.append_message(WEATHER, "user", "And tomorrow?")
    filled.call("sessions", "export", str(backup), "--force")
    result = elsewhere.call("sessions", "import", str(backup))
    assert "extended 1, 9 already stored" in result.out
    assert everything(elsewhere.store) == everything(filled.store)


def test_a_session_with_other_content_is_left_alone(
    filled: Hermes, elsewhere: Hermes, backup: Path
) -> None:
    with elsewhere.db() as db:
        db.create_session(WEATHER, "cli")
        db.append_message(WEATHER, "user", "Something else entirely")
    result = elsewhere.call("sessions", "import", str(backup))
    assert result.code == 1
    assert "Imported 9 sessions" in result.out
    assert f"Skipped: {WEATHER}: " in result.err
    as_json = elsewhere.call("sessions", "import", str(backup), "--json")
    assert as_json.code == 1
    assert [conflict["id"] for conflict in as_json.json["conflicts"]] == [WEATHER]
    assert (as_json.json["imported"], as_json.json["skipped"]) == (0, 9)
    assert as_json.json["store"] == str(elsewhere.store)


def test_standard_input_and_pipes(filled: Hermes, elsewhere: Hermes, backup: Path) -> None:
    lines = backup.read_text(encoding="utf-8")
    result = elsewhere.run("sessions", "import", "-", stdin=lines)
    assert (result.code, result.err) == (0, "")
    assert everything(elsewhere.store) == everything(filled.store)
    pipe = backup.with_name("pipe")
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text(lines, encoding="utf-8"))
    writer.start()
    again = elsewhere.call("sessions", "import", str(pipe), "--json")
    writer.join()
    assert again.json["skipped"] == ALL


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("not json\n", "Line 1: it is not JSON"),
        ("[1, 2]\n", "Line 1: a session must be a JSON object"),
        ('{"id": "a", "messages": []}\n{"id": "b", "messages": [', "Line 2: the file ends in"),
        ('{"id": "a", "source": "cli", "messages": [{"content": "x"}]}\n', "Line 1: Message 0"),
    ],
)
def test_a_file_with_a_mistake_changes_nothing(
    hermes: Hermes, tmp_path: Path, content: str, words: str
) -> None:
    file = tmp_path / "broken.jsonl"
    file.write_text(content)
    result = hermes.call("sessions", "import", str(file))
    assert (result.code, result.out) == (1, "")
    assert words in result.err
    assert "Nothing was imported." in result.err
    assert hermes.call("sessions", "list", "--json").json["sessions"] == []


def test_files_that_cannot_be_read(hermes: Hermes, tmp_path: Path) -> None:
    for path, words in (
        (tmp_path / "nothing.jsonl", "does not exist"),
        (tmp_path, "is a directory"),
    ):
        result = hermes.call("sessions", "import", str(path))
        assert (result.code, result.out) == (1, "")
        assert words in result.err
        assert len(result.err.splitlines()) == 1
    assert not hermes.home.exists()


def test_nothing_to_import(hermes: Hermes, tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    file.touch()
    assert hermes.call("sessions", "import", str(file)).out == (
        f"Imported 0 sessions from {file}.\n"
    )


# ── databases ─────────────────────────────────────────────────────────────────────────────────


def test_the_file_of_a_later_hermes_in_our_place_is_copied_beside_it(hermes: Hermes) -> None:
    hermes.home.mkdir()
    stored.unpack("v22", hermes.store)
    before = hermes.store.read_bytes()
    result = hermes.run("sessions", "import", str(hermes.store))
    assert result.code == 0, result.err
    copy = hermes.home / "hermes-sessions.db"
    assert f"from {hermes.store} into {copy}" in result.out
    assert "config.yaml" not in result.err
    assert hermes.store.read_bytes() == before
    # From now on, the copy is the store.
    assert hermes.run("sessions", "list", "--json").json["sessions"]
    again = hermes.run("sessions", "import", str(hermes.store), "--json")
    assert again.json["imported"] == 0
    assert again.json["store"] == str(copy)


@pytest.mark.parametrize("name", ["v11", "v13", "v16", "v17", "v22"])
def test_files_of_all_versions_are_merged_into_the_store(
    filled: Hermes, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "their.db"
    stored.unpack(name, file)
    result = filled.call("sessions", "import", str(file), "--json")
    assert result.code == 0, result
    assert result.json["imported"] > 0
    assert result.json["store"] == str(filled.store)
    with filled.db() as db:
        assert db.session_count(include_archived=True) == ALL + result.json["imported"]


def test_into_another_file(filled: Hermes, tmp_path: Path, backup: Path) -> None:
    target = tmp_path / "other" / "copy.db"
    result = filled.call("sessions", "import", str(filled.store), "--into", str(target))
    assert result.code == 0
    assert f"into {target}" in result.out
    assert result.err.endswith(
        f"To use these sessions, set in config.yaml: sessiondb.sqlite.path: {target}\n"
    )
    (named,) = [line for line in result.err.splitlines() if "specific to that store" in line]
    assert {"compression_locks,", "erasures,", "identities,", "lanes,"} <= set(named.split())
    assert everything(target) == everything(filled.store)
    jsonl = filled.call("sessions", "import", str(backup), "--into", str(target), "--json")
    assert jsonl.json["skipped"] == ALL


def test_the_advice_after_an_import_holds_from_everywhere(
    filled: Hermes, tmp_path: Path, backup: Path
) -> None:
    # A relative path in the configuration starts at the home directory.
    done = filled.run("sessions", "import", str(backup), "--into", "other.db", cwd=tmp_path)
    assert done.err.endswith(f"sessiondb.sqlite.path: {tmp_path / 'other.db'}\n")


def test_a_store_cannot_be_imported_into_itself(filled: Hermes) -> None:
    for arguments in ([], ["--into", str(filled.store)]):
        result = filled.call("sessions", "import", str(filled.store), *arguments)
        assert (result.code, result.out) == (1, "")
        assert len(result.err.splitlines()) == 1


def flip(log: Path, at: int) -> None:
    data = bytearray(log.read_bytes())
    data[at] ^= 0xFF
    log.write_bytes(data)


def without(log: Path) -> None:
    """Leave the file alone, as a user does who copies it without the files beside it."""
    log.unlink()
    log.with_name(log.name.replace("-wal", "-shm")).unlink()


@pytest.mark.parametrize("into", [False, True], ids=["store", "into"])
@pytest.mark.parametrize(
    ("damage", "words", "step"),
    [
        (lambda store, log: flip(log, 8), "its write-ahead log is damaged", "repair"),
        (lambda store, log: flip(log, 2000), "its write-ahead log is damaged", "repair"),
        (lambda store, log: store.write_bytes(b""), "but its write-ahead log is not", "repair"),
        (lambda store, log: log.write_bytes(b""), "its write-ahead log is empty", "backup list"),
        (lambda store, log: log.write_bytes(bytes(9000)), "log is empty or missing", "backup list"),
        (lambda store, log: without(log), "log is empty or missing", "backup list"),
    ],
    ids=["beginning", "middle", "file emptied", "log emptied", "log zeroed", "log gone"],
)
def test_a_damaged_log_is_not_a_missing_log(
    hermes: Hermes,
    tmp_path: Path,
    damage: Callable[[Path, Path], object],
    words: str,
    step: str,
    into: bool,
) -> None:
    """Everything that was written is in the log, as after a crash."""
    source = tmp_path / "from elsewhere.db"
    write_and_die(source, "s", "only in the log")
    log = Path(f"{source}-wal")
    damage(source, log)
    before = [path.read_bytes() for path in (source, log) if path.exists()]
    target = ["--into", str(tmp_path / "new.db")] if into else []
    result = hermes.call("sessions", "import", str(source), *target)
    assert_one_line(result, 3, words, f"hermes {step}")
    if step == "repair":
        assert f"hermes repair '{source}'" in result.err
    assert [path.read_bytes() for path in (source, log) if path.exists()] == before
    assert not hermes.store.exists()
    assert not (tmp_path / "new.db").exists()


# ── progress ──────────────────────────────────────────────────────────────────────────────────


def test_long_work_shows_a_bar(
    filled: Hermes, elsewhere: Hermes, tmp_path: Path, backup: Path
) -> None:
    target = tmp_path / "again.jsonl"
    for hermes, arguments in (
        (filled, ["export", str(target)]),
        (elsewhere, ["import", str(backup)]),
        (elsewhere, ["import", str(filled.store)]),
    ):
        with Terminal(hermes, "sessions", *arguments, program=SLOW_COMMAND) as terminal:
            assert terminal.finish() == 0, terminal.screen
        assert "100%" in terminal.screen


def test_an_import_names_what_it_keeps_apart_and_what_it_leaves_out(
    hermes: Hermes, tmp_path: Path
) -> None:
    file = tmp_path / "theirs.db"
    stored.unpack("v22", file)
    result = hermes.call("sessions", "import", str(file))
    assert result.code == 0
    assert result.out.endswith(", bound 2 Telegram topics, added 2 messenger routes.\n")
    kept, *left_out = result.err.splitlines()
    assert kept.startswith("Kept in the table foreign_rows: async_delegations (1 row), ")
    assert "gateway_routing" not in kept
    assert [line.rpartition(": ")[2] for line in left_out] == [
        "locks of programs that use that file",
        "a search index, rebuilt here",
        "SQLite's own",
        "recounted here",
    ]
    document = json.loads(hermes.call("sessions", "import", str(file), "--json").out)
    assert (document["routing"], document["kept"]["async_delegations"]) == (0, 1)
    assert {"table": "sqlite_sequence", "reason": "SQLite's own"} in document["left_out"]


# ── images ────────────────────────────────────────────────────────────────────────────────────

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 80
PNG_TEXT = b64encode(PNG).decode()
IMAGES: list[Any] = [
    [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG_TEXT}"}},
    ],
    [{"type": "image", "source": {"media_type": "image/png", "data": PNG_TEXT}}],
    PNG,
    f"inline ![x](data:image/png;base64,{PNG_TEXT})",
]


@pytest.fixture
def with_images(hermes: Hermes) -> Hermes:
    with SessionDB(hermes.store) as db:
        db.create_session("pictures", "cli")
        for content in IMAGES:
            db.append_message("pictures", "user", content)
    return hermes


@pytest.mark.parametrize(
    ("form", "image"),
    [
        ("html", f'<img alt="Image" src="data:image/png;base64,{PNG_TEXT}">'),
        ("md", f"![Image](data:image/png;base64,{PNG_TEXT})"),
    ],
)
def test_pages_show_images(with_images: Hermes, tmp_path: Path, form: str, image: str) -> None:
    file = tmp_path / f"page.{form}"
    with_images.call("sessions", "export", str(file))
    page = file.read_text(encoding="utf-8")
    assert page.count(image) == len(IMAGES)
    assert page.count(PNG_TEXT) == len(IMAGES)
    assert "inline ![x]([image/png])" in page
    assert "[non-text content]" not in page


def test_an_export_has_its_images_in_it(with_images: Hermes, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    with_images.call("sessions", "export", str(file))
    with SessionDB(with_images.store) as db:
        db.delete_session("pictures")
    with_images.call("sessions", "import", str(file))
    with SessionDB(with_images.store) as db:
        assert [m["content"] for m in db.get_messages("pictures")] == IMAGES
        assert len(db.list_attachments("pictures")) == len(IMAGES)


def test_attachments_in_a_zip(with_images: Hermes, tmp_path: Path) -> None:
    """The zip has each image once, as a file; an import puts them back."""
    quoted = f"[attachment {blake2b(PNG, digest_size=32).hexdigest()}]"
    with SessionDB(with_images.store) as db:
        payload = [{"data": PNG_TEXT}, {"text": "漓江 \ud800"}]
        db.append_messages("pictures", [{"role": "user", "content": "p", "payload": payload}])
        db.append_message("pictures", "user", [quoted, PNG_TEXT])
        wanted = db.get_messages("pictures")
    file = tmp_path / "all.jsonl"
    with_images.call("sessions", "export", str(file), "--attachments", "zip")
    archive = tmp_path / "all.attachments.zip"
    with ZipFile(archive) as opened:
        [name] = opened.namelist()
        assert name.endswith(".png")
        assert opened.read(name) == PNG
    # The message that quotes the placeholder has its image in the line.
    assert file.read_text(encoding="utf-8").count(PNG_TEXT) == 1
    with SessionDB(with_images.store) as db:
        db.delete_session("pictures")
    archive.rename(tmp_path / "elsewhere.zip")
    refused = with_images.call("sessions", "import", str(file))
    assert refused.code != 0
    assert "all.attachments.zip" in refused.err
    (tmp_path / "elsewhere.zip").rename(archive)
    assert with_images.call("sessions", "import", str(file)).code == 0
    with SessionDB(with_images.store) as db:
        assert [m["content"] for m in db.get_messages("pictures")] == [m["content"] for m in wanted]
        assert db.get_messages("pictures")[4]["payload"] == payload
        assert len(db.list_attachments("pictures")) == len(IMAGES) + 1


@pytest.mark.parametrize("target", ["-", "page.html"])
def test_only_a_file_of_lines_has_a_zip(with_images: Hermes, target: str) -> None:
    refused = with_images.call("sessions", "export", target, "--attachments", "zip")
    assert refused.code == 2
    assert "needs a JSONL file" in refused.err


def test_a_damaged_zip_is_refused(with_images: Hermes, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    with_images.call("sessions", "export", str(file), "--attachments", "zip")
    with SessionDB(with_images.store) as db:
        db.delete_session("pictures")
    archive = tmp_path / "all.attachments.zip"
    with ZipFile(archive) as opened:
        [name] = opened.namelist()
    for other in ("", "changed"):
        with ZipFile(archive, "w") as opened:
            opened.writestr(name if other else "other.png", other)
        refused = with_images.call("sessions", "import", str(file))
        assert refused.code != 0
        assert refused.err.count("\n") == 1
    archive.write_bytes(b"not a zip")
    assert "cannot be read" in with_images.call("sessions", "import", str(file)).err
    with SessionDB(with_images.store) as db:
        assert db.get_session("pictures") is None


def test_another_store_is_imported_with_its_images(with_images: Hermes, tmp_path: Path) -> None:
    copy = tmp_path / "other.db"
    imported = with_images.call("sessions", "import", str(with_images.store), "--into", str(copy))
    assert imported.code == 0
    assert "blob" not in imported.err
    with SessionDB(copy) as db:
        assert [m["content"] for m in db.get_messages("pictures")] == IMAGES
        assert len(db.list_attachments("pictures")) == len(IMAGES)


def test_a_terminal_shows_no_base64(with_images: Hermes) -> None:
    for flags in ([], ["--full"]):
        shown = with_images.call("sessions", "show", "pictures", *flags)
        assert shown.code == 0
        assert PNG_TEXT[:40] not in shown.out
        assert "inline ![x]([image/png])" in shown.out
