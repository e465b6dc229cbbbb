"""The version before the columns of Hermes 0.19 uses a store that has them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from tests.servers.stores import mysql_place, postgresql_place
from tests.update.versions import ROOT, unpack

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'state.db'}"
    place_of: Callable[..., Any] = (
        postgresql_place if request.param == "postgresql" else mysql_place
    )
    new_url: str = place_of(request.getfixturevalue(request.param), "verbs").new_url()
    return new_url


def fill(db: SessionDB) -> None:
    for session_id in ("kept", "rewound", "archived", "deleted"):
        db.create_session(session_id, "telegram")
        db.append_message(session_id, "user", f"pineapple in {session_id}")
        db.append_message(session_id, "assistant", {"an": "object"})
    db.add_tags("kept", ["fruit"])
    db.provider.write(
        lambda tx: tx.run(
            "UPDATE sessions SET cwd = '/src/app', session_key = 'agent:main:telegram:dm:1' "
            "WHERE id = 'kept'"
        )
    )


def columns_of(db: SessionDB, session_id: str) -> dict[str, Any]:
    names = ("cwd", "session_key", "tags", "title", "archived", "revision", "message_count")
    with db.provider.read() as tx:
        row = tx.one(f"SELECT {', '.join(names)} FROM sessions WHERE id = ?", (session_id,))
    assert row is not None
    return dict(zip(names, row, strict=True))


def test_its_verbs_beside_the_present_version(url: str, tmp_path: Path) -> None:
    earlier = unpack("0.2.0", tmp_path)
    with SessionDB.from_url(url) as db:
        fill(db)
        before = {name: columns_of(db, name) for name in ("kept", "rewound", "archived")}
        done = subprocess.run(
            [sys.executable, ROOT / "tests" / "update" / "verbs.py", url],
            env={**os.environ, "PYTHONPATH": str(earlier)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
        assert found == {
            "listed": ["archived", "deleted", "kept", "rewound"],
            "replay": ["pineapple in rewound", {"an": "object"}],
            "hits": ["archived", "deleted", "kept", "rewound"],
            "exported": ["archived", "deleted", "kept", "rewound"],
        }
        kept, rewound = columns_of(db, "kept"), columns_of(db, "rewound")
        assert kept["revision"] > before["kept"]["revision"]
        # Two appends and a rewind.
        assert rewound["revision"] >= before["rewound"]["revision"] + 3
        assert rewound["message_count"] == before["rewound"]["message_count"]
        changed = {"title": "Renamed", "message_count": 3, "revision": kept["revision"]}
        assert kept == before["kept"] | changed
        assert columns_of(db, "archived")["archived"] == 1
        assert db.get_session("deleted") is None
        record = db.get_session("new")
        assert record is not None
        assert (record["parent_session_id"], record["input_tokens"]) == ("kept", 3)
        hits = {hit["session_id"] for hit in db.search_messages("pineapple")}
        assert hits == {"kept", "rewound", "archived", "new"}
        assert db.get_messages("kept")[-1]["content"] == "from the earlier version"
