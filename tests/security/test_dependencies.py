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
