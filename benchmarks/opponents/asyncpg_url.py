"""What the products that use SQLAlchemy with asyncpg share."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

_PREFIX = "postgresql://"


def asyncpg_url(path: Path) -> str:
    """The store's URL as SQLAlchemy takes it."""
    return "postgresql+asyncpg://" + path.read_text().removeprefix(_PREFIX)


async def count_rows(url: str, table: str) -> int:
    """Count the rows of a table over a connection of its own."""
    asyncpg: Any = import_module("asyncpg")
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        return int(await connection.fetchval(f"SELECT count(*) FROM {table}"))
    finally:
        await connection.close()
