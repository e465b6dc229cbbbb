"""Processes that refer to blobs while others sweep, and are killed at any moment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from tests.servers.stores import mysql_place, postgresql_place
from tests.storage.blobs.programs import CONTENTS
from tests.storage.sqlite.integrity import require_sound
from tests.storage.sqlite.other_process import ROOT, OtherProcess

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'state.db'}"
    server = request.getfixturevalue(request.param)
    place_of: Callable[..., object] = (
        postgresql_place if request.param == "postgresql" else mysql_place
    )
    return place_of(server, "blobs").new_url()  # type: ignore[attr-defined,no-any-return]


def start(program: str, url: str, name: str) -> OtherProcess:
    return OtherProcess(
        subprocess.Popen(
            [sys.executable, "-m", "tests.storage.blobs.programs", program, url, name],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    )


@pytest.mark.fault(
    "Writers of blobs and sweeps run at once, and are killed",
    "A blob that something refers to is there and intact; nothing else stays",
)
def test_writers_and_sweeps_are_killed(url: str, long_run: bool) -> None:
    steps = 200 if long_run else 12
    with SessionDB.from_url(url) as db:
        for _ in range(3):
            with ExitStack() as running:
                sweepers = [running.enter_context(start("sweep", url, n)) for n in "xy"]
                writers = {n: running.enter_context(start("refer", url, n)) for n in "abc"}
                said = {n: list(islice(w.all_lines(), steps)) for n, w in writers.items()}
                for process in (*writers.values(), *sweepers):
                    process.kill()
            for name, lines in said.items():
                assert "wrong bytes" not in lines
                kept = {(row["key"], row["digest"]) for row in db.list_blob_references(name)}
                assert {tuple(line.split()) for line in lines} <= kept
                for digest in {digest for _, digest in kept}:
                    assert db.get_blob(digest) in CONTENTS
                db.remove_blob_references(name)
            db.sweep_blobs()
            with db.provider.read() as tx:
                assert tx.one("SELECT COUNT(*) FROM blobs") == (0,)
                assert tx.one("SELECT COUNT(*) FROM blob_parts") == (0,)
    if url.startswith("sqlite"):
        require_sound(Path(url.removeprefix("sqlite:///")))
