"""Adding a column touches its declaration and its record; everything else follows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_sessions import SessionDB, create_backup
from hermes_sessions.storage.jsonl import write_jsonl
from tests.storage import new_column
from tests.storage.transfer.stores import KINDS, NewStore, stores_in

PROGRAM = Path(new_column.__file__).parent / "program.py"


@pytest.fixture
def new_store(tmp_path: Path, request: pytest.FixtureRequest) -> NewStore:
    return stores_in(tmp_path, request)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_column(kind: str, new_store: NewStore, tmp_path: Path) -> None:
    touched = new_column.add_columns(tmp_path / "src")
    assert len(touched) <= 3
    old, folder = new_store(kind), tmp_path / "folder"
    folder.mkdir()
    with SessionDB.from_url(old) as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "hello")
        create_backup(db, folder / "before", portable=True)
        with (folder / "before.jsonl").open("wb") as file:
            write_jsonl(db.iter_export(), file)
    result = subprocess.run(
        [sys.executable, PROGRAM, old, *(new_store(kind) for _ in range(3)), folder],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src"), "HERMES_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
