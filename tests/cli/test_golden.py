"""Every command's output, compared with golden files: wide, narrow, plain and JSON.

Each form is compared, but stored only where it differs: a form without a file of its own must print
exactly what the form it falls back to prints. To rewrite the files, run
`pytest -p no:xdist tests/cli/test_golden.py --update-golden`; read the diff before you commit it.
"""

import re
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from tests.cli.harness import NOW, Hermes
from tests.cli.sample_lane import FORMER, LANE, live
from tests.cli.sample_store import ARCHIVED, AUTH, OLD, PROJECT, WEATHER, label

GOLDEN = Path(__file__).parent / "golden"

COMMANDS = {
    "list": ["list"],
    "list-untitled": ["list", "--source", "telegram"],
    "list-children": ["list", "--children"],
    "show": ["show", AUTH],
    "show-full": ["show", AUTH, "--full"],
    "show-around": ["show", AUTH, "--around", "15", "--messages", "2"],
    "search": ["search", "token"],
    "search-relaxed": ["search", "files", "depend", "--limit", "1"],
    "search-newest": ["search", "旅行", "OR", "project", "OR", "part", "--sort", "newest"],
    "search-filtered": ["search", '"las', "--source", "telegram", "--role", "user"],
    "optimize": ["optimize"],
    "optimize-rebuild": ["optimize", "--rebuild"],
    "rename": ["rename", WEATHER, "sunny", "west"],
    "delete": ["delete", AUTH, "--yes"],
    "export-markdown": ["export", "-", "--format", "md", "--session-id", AUTH],
    "export-html": ["export", "-", "--format", "html", "--source", "telegram"],
    "export-redacted": ["export", "-", "--redact", "--format", "md", "--session-id", WEATHER],
    "list-some": ["list", "--since", "2025-03-01", "--until", "2025-03-04T12:00"],
    "list-user": ["list", "--user", "u42"],
    "delete-dry-run": ["delete", AUTH, PROJECT, "--dry-run"],
    "purge": ["delete", WEATHER, "--purge", "--yes"],
    "prune-dry-run": ["prune", "--older-than", "5", "--dry-run"],
    "prune": ["prune", "--yes"],
    "stats": ["stats"],
    "stats-sizes": ["stats", "--sizes"],
    "stats-usage": ["stats", "--usage"],
    "trash": ["trash"],
    "restore": ["restore", PROJECT],
    "archive": ["archive", AUTH, "my project"],
    "unarchive": ["unarchive", ARCHIVED],
    "list-archived": ["list", "--archived"],
    "pin": ["pin", WEATHER, "old notes"],
    "unpin": ["unpin", AUTH],
    "list-pinned": ["list", "--pinned"],
    "list-with-pins": ["list"],
    "show-pinned": ["show", AUTH, "--messages", "0"],
    "tag": ["tag", AUTH, "+Needs Review", "-urgent", "api"],
    "list-labels": ["list"],
    "list-tagged": ["list", "--tag", "urgent", "--workspace", "hermes"],
    "show-labels": ["show", AUTH, "--messages", "0"],
    "stats-labels": ["stats"],
    "explain": ["explain", LANE],
    "explain-former": ["explain", FORMER],
}
#: Beside ``hermes sessions``.
OTHER_COMMANDS = {
    "workspaces-list": ["workspaces", "list"],
    "workspaces-show": ["workspaces", "show", "hermes"],
    "workspaces-rename": ["workspaces", "rename", "hermes", "the", "agent"],
    "workspaces-merge": ["workspaces", "merge", "notes", "--into", "hermes"],
    "workspaces-separate": ["workspaces", "separate", "hermes"],
    "insights": ["insights"],
    "insights-all": ["insights", "--days", "0"],
    "insights-source": ["insights", "--source", "telegram"],
    "completion-bash": ["completion", "bash"],
    "completion-zsh": ["completion", "zsh"],
    "completion-fish": ["completion", "fish"],
    "forget-dry-run": ["forget", "--user", "u42", "--dry-run"],
    "forget": ["forget", "--user", "u42", "--yes"],
    "forget-receipts": ["forget", "--receipts"],
    "insights-empty": ["insights", "--days", "7", "--source", "matrix"],
}
#: Of ``hermes sessiondb``; {home} is where the store is.
DATABASE_COMMANDS = {
    "sessiondb-status": ["status"],
    "sessiondb-migrate": ["migrate", "--to", "{home}/copy.db"],
    "sessiondb-migrate-again": ["migrate", "--to", "{home}/copied.db"],
    "sessiondb-migrate-dry-run": ["migrate", "--to", "{home}/copy.db", "--dry-run"],
    "sessiondb-migrate-since": ["migrate", "--to", "{home}/copied.db", "--since", "2025-03-05"],
    "sessiondb-migrate-merge": ["migrate", "--to", "{home}/other.db", "--merge", "overwrite"],
    "sessiondb-verify": ["verify", "{home}/state.db", "{home}/copied.db"],
    "sessiondb-verify-different": ["verify", "{home}/state.db", "{home}/other.db"],
    "sessiondb-upgrade": ["upgrade", "--finish"],
}
#: What looks after a store.
CARE_COMMANDS = {
    "repair": ["repair", "--check-only"],
    "stats-space": ["sessions", "stats", "--space"],
    "hold": ["sessions", "hold", AUTH, "--reason", "a dispute"],
    "holds": ["sessions", "holds"],
    "unhold": ["sessions", "unhold", AUTH],
    "retention-plan": ["sessions", "retention", "plan"],
    "retention-approve": ["sessions", "retention", "approve", "--yes"],
    "retention-dry-run": ["sessions", "retention", "run", "--dry-run"],
    "retention-run": ["sessions", "retention", "run"],
    "retention-status": ["sessions", "retention", "status"],
}
FORMS = {
    "wide": ([], {"COLUMNS": "140"}),
    "pipe": ([], {}),
    "narrow": ([], {"COLUMNS": "64"}),
    "tiny": ([], {"COLUMNS": "36"}),
    "plain": (["--plain"], {}),
    "json": (["--json"], {}),
}
#: The form whose file is used by a form that has none of its own.
FALLBACK = {"pipe": "wide", "narrow": "wide", "tiny": "narrow", "plain": "wide", "json": "wide"}
#: What they print is not laid out for a width.
DATABASE_FORMS = ("pipe", "json")


def prepared(hermes: Hermes, command: str) -> None:
    if command in {"trash", "restore"}:
        hermes.call("sessions", "delete", PROJECT, OLD, "--yes")
    if command == "forget-receipts":
        hermes.call("forget", "--user", "u7", "--platform", "discord", "--yes")
    if "explain" in command:
        with hermes.db() as db:
            live(db)
    if command in {"tag", "list-tagged"} or "labels" in command or "workspaces" in command:
        with hermes.db() as db:
            label(db)
    if command == "workspaces-separate":
        hermes.call("workspaces", "merge", "notes", "--into", "hermes")
    if "pin" in command:
        hermes.call("sessions", "pin", AUTH, WEATHER)


def prepared_database(hermes: Hermes, command: str) -> None:
    if "copied.db" in " ".join(DATABASE_COMMANDS[command]):
        hermes.call("sessiondb", "migrate", "--to", f"{hermes.home}/copied.db")
    with SessionDB(hermes.home / "other.db", clock=lambda: NOW) as db:
        db.create_session(AUTH, "cli")
        db.append_message(AUTH, "user", "Something else")
        db.create_session("another", "cli")


def prepared_care(hermes: Hermes, command: str) -> None:
    if command in {"holds", "unhold"} or command.startswith("retention"):
        hermes.call("sessions", "hold", AUTH, "--reason", "a dispute")
    if command.startswith("retention"):
        (hermes.home / "config.yaml").write_text(
            "retention: {human: {max_age_days: 5, max_count: 4}, cron: {max_bytes: 1MB}}\n"
        )
    if command in {"retention-run", "retention-status"}:
        hermes.call("sessions", "retention", "approve", "--yes")


def settled(text: str) -> str:
    """Sizes depend on the SQLite library, times on the machine; how hits are ranked and pages are
    marked is not tested here.
    """
    text = re.sub(r"Database size: .*", "Database size: 120.0 KB", text)
    text = re.sub(r'"size_bytes": \d+', '"size_bytes": 122880', text)
    text = re.sub(r"the rest: .*", "the rest: 100.0 KB", text)
    text = re.sub(r"Size: .*", "Size: 120.0 KB", text)
    text = re.sub(r"Version: .*", "Version: 3.50.0", text)
    text = re.sub(r'"sqlite_version": ".*"', '"sqlite_version": "3.50.0"', text)
    text = re.sub(r"Receipt \w+", "Receipt 0123456789ab", text)
    text = re.sub(r'"(receipt|digest)": "\w+"', r'"\1": "0123456789ab"', text)
    text = re.sub(r"Freed .*\.\n", "", text)
    text = re.sub(r"Tables: .*", "Tables: …\n", text, flags=re.DOTALL)
    text = re.sub(r'"(tables|indexes)": \{[^}]*\}', r'"\1": {}', text)
    text = re.sub(r'"(free|log)_bytes": \d+', r'"\1_bytes": 0', text)
    text = re.sub(r'"freed_bytes": \d+', '"freed_bytes": 0', text)
    text = re.sub(r"--cursor \S+", "--cursor WzEsIDE4XQ==", text)
    text = re.sub(r'"next_cursor": "\S+"', '"next_cursor": "WzEsIDE4XQ=="', text)
    text = re.sub(r'"ranked": \d+', '"ranked": 2', text)
    text = re.sub(r'"score": [\d.]+', '"score": 1.0', text)
    return re.sub(r'"elapsed_ms": [\d.]+', '"elapsed_ms": 1.0', text)


def golden_file(name: str, form: str) -> Path | None:
    """Return the file with the expected output: the form's own, or the one it falls back to."""
    file = GOLDEN / f"{name}.{form}.txt"
    if file.exists():
        return file
    return golden_file(name, FALLBACK[form]) if form in FALLBACK else None


def write_golden(name: str, form: str, text: str) -> None:
    """Store *text*, unless the form it falls back to prints the same."""
    own = GOLDEN / f"{name}.{form}.txt"
    own.unlink(missing_ok=True)
    other = golden_file(name, form)
    if other is None or other.read_text(encoding="utf-8") != text:
        own.write_text(text, encoding="utf-8")


def check(config: pytest.Config, name: str, form: str, printed: str) -> None:
    if config.getoption("--update-golden", default=False):
        write_golden(name, form, printed)
    file = golden_file(name, form)
    assert file is not None, f"no golden file for {name}"
    assert printed == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [*COMMANDS, *OTHER_COMMANDS])
def test_output(filled: Hermes, pytestconfig: pytest.Config, name: str, form: str) -> None:
    flags, environ = FORMS[form]
    prepared(filled, name)
    words = OTHER_COMMANDS.get(name) or ["sessions", *COMMANDS[name]]
    result = filled.call(*words, *flags, environ=environ)
    assert (result.code, result.err) == (0, "")
    check(pytestconfig, name, form, settled(result.out))


@pytest.mark.parametrize("form", DATABASE_FORMS)
@pytest.mark.parametrize("name", DATABASE_COMMANDS)
def test_output_about_databases(
    filled: Hermes, pytestconfig: pytest.Config, name: str, form: str
) -> None:
    flags, environ = FORMS[form]
    prepared_database(filled, name)
    words = [word.replace("{home}", str(filled.home)) for word in DATABASE_COMMANDS[name]]
    result = filled.call("sessiondb", *words, *flags, environ=environ)
    assert result.code == (1 if "different" in name else 0)
    printed = settled(result.out + result.err).replace(str(filled.home), "/home/.hermes")
    check(pytestconfig, name, form, printed)


@pytest.mark.parametrize("form", DATABASE_FORMS)
@pytest.mark.parametrize("name", CARE_COMMANDS)
def test_output_about_care(
    filled: Hermes, pytestconfig: pytest.Config, name: str, form: str
) -> None:
    flags, environ = FORMS[form]
    prepared_care(filled, name)
    result = filled.call(*CARE_COMMANDS[name], *flags, environ=environ)
    assert result.code == 0
    printed = settled(result.err + result.out).replace(str(filled.home), "/home/.hermes")
    check(pytestconfig, name, form, printed)


def test_no_file_is_left_over() -> None:
    possible = {f"{name}.{form}.txt" for name in [*COMMANDS, *OTHER_COMMANDS] for form in FORMS}
    pairs = {**DATABASE_COMMANDS, **CARE_COMMANDS}
    possible |= {f"{name}.{form}.txt" for name in pairs for form in DATABASE_FORMS}
    assert {file.name for file in GOLDEN.iterdir()} <= possible


def test_no_file_repeats_the_one_it_would_fall_back_to() -> None:
    repeated = []
    for file in GOLDEN.iterdir():
        name, form, _ = file.name.rsplit(".", 2)
        other = golden_file(name, FALLBACK[form]) if form in FALLBACK else None
        if other is not None and other.read_bytes() == file.read_bytes():
            repeated.append(file.name)
    assert not repeated
