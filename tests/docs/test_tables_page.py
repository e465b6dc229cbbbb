"""The reference of tables and columns is what the declaration says, and says something of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_sessions.storage.tables import ALL_TABLES, SERVER_TABLES, Table
from scripts import tables_page

TABLES = (*ALL_TABLES, *SERVER_TABLES)


def test_the_page_is_what_the_declaration_makes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")
    assert page == tables_page.page(), "run scripts/tables_page.py"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_has_a_sentence(table: Table) -> None:
    assert table.doc.endswith(".")
    assert [c.name for c in table.columns if not c.doc.endswith(".")] == []
