"""A store whose pages are all known, and ways to damage it."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import NamedTuple

import apsw

from hermes_sessions import SessionDB

SESSIONS = 8
MESSAGES = 12
PAGE = 4096
#: Long enough to need pages of its own.
LONG = "long " * 1500


class Sound(NamedTuple):
    """The bytes of a sound store, and which pages are whose."""

    raw: bytes
    pages: dict[tuple[str, str], list[int]]

    def zeroed(self, *numbers: int) -> bytes:
        data = bytearray(self.raw)
        for number in numbers:
            data[(number - 1) * PAGE : number * PAGE] = bytes(PAGE)
        return bytes(data)


def content(session: int, message: int) -> str:
    return f"session {session} message {message} {LONG if message % 8 == 0 else 'short ' * 20}"


@functools.cache
def sound() -> Sound:
    """Make it once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.db"
        fill(path)
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        pages: dict[tuple[str, str], list[int]] = {}
        for name, kind, number in connection.execute("SELECT name, pagetype, pageno FROM dbstat"):
            pages.setdefault((str(name), str(kind)), []).append(int(str(number)))
        connection.close()
        return Sound(path.read_bytes(), pages)


def fill(path: Path) -> None:
    with SessionDB(path, durability="normal") as db:
        for session in range(SESSIONS):
            db.create_session(f"s{session}", "cli", started_at=1_700_000_000.0 + session)
            db.append_messages(
                f"s{session}",
                [
                    {
                        "role": ("user", "assistant")[number % 2],
                        "content": content(session, number),
                        "timestamp": 1_700_000_000.0 + session * 100 + number,
                    }
                    for number in range(MESSAGES)
                ],
            )
        db.set_session_title("s3", "the third")
        db.create_session("s3-child", "cli", parent_session_id="s3", edge_kind="branch")
        db.set_meta("colour", "green")
        db.optimize_search()


#: Kinds of damage that are a matter of pages, and the pages.
_ZEROED = {
    "first page": lambda pages: [1],
    "messages leaf": lambda pages: pages["messages", "leaf"][2:3],
    "messages root": lambda pages: pages["messages", "internal"][:1],
    "index leaf": lambda pages: pages["idx_messages_ordinal", "leaf"][:1],
    "sessions": lambda pages: pages["sessions", "leaf"],
    "search": lambda pages: pages["search_index_data", "leaf"],
}


def broken(kind: str) -> bytes:
    """Return the store with a certain damage."""
    store = sound()
    if kind == "header":
        return bytes(100) + store.raw[100:]
    if kind == "cut off":
        return store.raw[: len(store.raw) * 3 // 4 + 100]
    if kind == "index flipped":
        data = bytearray(store.raw)
        start = (store.pages["idx_messages_ordinal", "leaf"][0] - 1) * PAGE
        data[start + 8 : start + 40] = b"\xff" * 32
        return bytes(data)
    return store.zeroed(*_ZEROED[kind](store.pages))


def with_table_twice(path: Path) -> None:
    """Say in the list of tables twice that there is a search index."""
    path.write_bytes(sound().raw)
    connection = apsw.Connection(str(path))
    connection.pragma("writable_schema", 1)
    connection.execute(
        "INSERT INTO sqlite_schema SELECT * FROM sqlite_schema WHERE name = 'search_index'"
    )
    connection.close()
