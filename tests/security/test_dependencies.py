"""What we depend on: pinned with hashes, allowed, and installed without a compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import audit

HASH = "--hash=sha256:" + "0" * 64


def test_nothing_is_wrong() -> None:
    assert audit.offline() == []


def test_all_that_users_install_is_looked_at() -> None:
    found = audit.runtime_packages()
    assert {"apsw", "click", "pyyaml", "wcwidth", "psycopg", "pymysql", "httpx", "yarl"} <= found
    assert "pytest" not in found


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("click>=8", "not one version"),
        ("click==8.1.0", "not one version"),
        (f"https://example.org/click.whl {HASH}", "registry"),
        (f"click @ git+https://example.org/click {HASH}", "registry"),
        ("--extra-index-url x", "registry"),
        ("-e .", "registry"),
        (f"pycrypto==2.6.1 {HASH}", "forbidden"),
        (f"Python_Olm==3.2.16 {HASH}", "forbidden"),
    ],
)
def test_what_would_be_wrong(line: str, complaint: str, tmp_path: Path) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text(f"# a remark\nclick==8.1.0 \\\n    {HASH}\n{line}\n")
    [problem] = audit.problems_of_lock(lock)
    assert complaint in problem


def test_two_locks_that_differ(tmp_path: Path) -> None:
    (tmp_path / "a.lock").write_text(f"click==8.1.0 {HASH}\n")
    (tmp_path / "b.lock").write_text(f"Click==8.2.0 {HASH}\n")
    [problem] = audit.differences([tmp_path / "a.lock", tmp_path / "b.lock"])
    assert "Click 8.2.0, but 8.1.0 in a.lock" in problem


def test_without_a_network_it_says_what_it_did_not_look_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["audit.py"])
    assert audit.main() == 0
    assert capsys.readouterr().out.splitlines() == [
        "Nothing wrong was found.",
        "Known vulnerabilities were not looked up: scripts/audit.py --online does that.",
    ]


def pip_audit(folder: Path, out: str, err: str, code: int) -> str:
    """A program that answers as pip-audit does."""
    program = folder / "pip-audit"
    program.write_text(f"#!/bin/sh\nprintf '%s' '{out}'\nprintf '%s' '{err}' >&2\nexit {code}\n")
    program.chmod(0o755)
    return str(program)


def test_vulnerabilities_are_told_from_a_service_that_does_not_answer(tmp_path: Path) -> None:
    lock = tmp_path / "some.lock"
    answer = '{"dependencies": [{"name": "click", "version": "8.1.0", "vulns": [%s]}], "fixes": []}'
    assert audit.advisories(lock, pip_audit(tmp_path, answer % "", "", 0)) == []
    found = pip_audit(tmp_path, answer % '{"id": "PYSEC-1", "fix_versions": []}', "1 found", 1)
    assert audit.advisories(lock, found) == ["some.lock: click 8.1.0 has PYSEC-1"]
    for out, err in (("", "ERROR: click: could not be audited"), ('{"dependencies": []}', "")):
        with pytest.raises(audit.NotAsked, match=r"could not be audited|no package"):
            audit.advisories(lock, pip_audit(tmp_path, out, err, 1))


def test_an_unanswered_question_is_no_clean_result(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["audit.py", "--online"])
    monkeypatch.setattr(audit, "online", lambda: ([], ["run.lock: nobody answered"]))
    assert audit.main() == 2
    said = capsys.readouterr()
    assert said.err == "Not known whether there are vulnerabilities: run.lock: nobody answered\n"
    assert audit.NOT_LOOKED_UP not in said.out
