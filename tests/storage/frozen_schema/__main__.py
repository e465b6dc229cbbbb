"""Freeze what is new: ``python -m tests.storage.frozen_schema``."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hermes_sessions import SessionDB
from tests.storage import frozen_schema
from tests.storage.sqlite.hermes_files import NAMES, make

for database in ("postgresql", "mysql"):
    frozen_schema.write(database, frozen_schema.server_steps(database))
with tempfile.TemporaryDirectory() as folder:
    for name in ("fresh", *NAMES):
        path = Path(folder) / f"{name}.db"
        if name != "fresh":
            make(name, path)
        SessionDB(path).close()
        found = frozen_schema.objects_in(path)
        fresh = frozen_schema.read("sqlite").get("fresh", {})
        assert isinstance(fresh, dict)
        # Of upgraded files, what differs from a fresh one.
        kept = {key: sql for key, sql in found.items() if fresh.get(key) != sql}
        lacking = {key: "" for key in fresh if key not in found}
        frozen_schema.write("sqlite", {name: {**kept, **lacking}})
