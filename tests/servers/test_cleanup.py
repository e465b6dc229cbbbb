"""A used and emptied store is like a new one."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions import SessionDB
from tests.servers.cleanup import empty_mysql, empty_postgresql
from tests.servers.stores import Place, use

#: Columns with the time at which a row was written. (Marks of writes are never emptied.)
_TIMES = {"written", "applied_at"}


def _rows(place: Place) -> dict[str, list[dict[str, Any]]]:
    schema = "DATABASE()" if place.kind == "mariadb" else "current_schema()"
    columns: dict[str, list[str]] = {}
    for table, column in place.run(
        "SELECT table_name, column_name FROM information_schema.columns"
        f" WHERE table_schema = {schema} ORDER BY table_name, ordinal_position"
    ):
        if column not in _TIMES and table != "write_marks":
            columns.setdefault(table, []).append(column)
    return {
        table: [
            dict(zip(names, row, strict=True))
            for row in place.run(
                f"SELECT {', '.join(map(_quoted(place), names))} FROM {table} ORDER BY 1"
            )
        ]
        for table, names in columns.items()
    }


def _quoted(place: Place) -> Any:
    return (lambda name: f"`{name}`") if place.kind == "mariadb" else (lambda name: f'"{name}"')


def _empty(place: Place) -> None:
    if place.kind == "mariadb":
        empty_mysql(place.server, place.name)
    else:
        empty_postgresql(place.server, place.name)


@pytest.mark.parametrize("messages", [0, 3_000], ids=["little", "much"])
def test_an_emptied_store_is_like_a_new_one(place: Place, messages: int) -> None:
    with SessionDB.from_url(place.url()):
        new = _rows(place)
    with SessionDB.from_url(place.url()) as db:
        use(db)
        db.append_messages("s", [{"role": "user", "content": "word " * 40}] * messages)
        db.rewind_to_message("s", db.get_messages("s")[0]["id"])
        db.delete_session("s")
        db.create_session("t", "cli")
        db.set_session_title("t", "Another title")
        db.set_meta("key", "value")
    assert _rows(place) != new

    _empty(place)
    assert _rows(place) == new

    with SessionDB.from_url(place.url()) as db:
        use(db)  # It searches what it wrote, too.
        assert [message["id"] for message in db.get_messages("s")] == [1, 2, 3, 4, 5, 6]


def test_a_lost_connection_is_made_again(place: Place) -> None:
    with SessionDB.from_url(place.url()) as db:
        use(db)
    _empty(place)
    place.server.restart()
    with SessionDB.from_url(place.url()) as db:
        use(db)
    _empty(place)
    with SessionDB.from_url(place.url()) as db:
        assert db.list_sessions_rich() == []
