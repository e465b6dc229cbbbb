"""fork(): both sides continue with an idle store; a child refuses one that was in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.sqlite.integrity import require_sound
from tests.storage.sqlite.other_process import start

IDLE = [
    "both_write",
    "generations_write",
    "child_ends_like_any_program",
    "parent_closes",
    "pool_writes",
    "long_log",
    "among_short_reads",
    "while_a_thread_uses_a_handle_first",
    "while_a_thread_imports",
]
IN_USE = [
    "while_a_thread_writes",
    "while_a_thread_reads",
    "while_a_closed_handle_reads",
    "while_a_read_only_handle_reads",
    "while_a_thread_opens",
    "inside_its_own_write",
    "inside_its_own_write_without_another_word",
    "inside_its_own_read",
]


@pytest.mark.parametrize("program", [*IDLE, *IN_USE])
def test_nothing_is_lost_or_damaged(program: str, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    start(program, path).succeeded()
    require_sound(path)


def test_a_store_in_memory_is_copied(tmp_path: Path) -> None:
    start("in_memory", tmp_path).succeeded()
