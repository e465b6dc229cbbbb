"""What frameworks use against a model, on SQLite; tests/servers has the same on servers."""

from __future__ import annotations

from pathlib import Path

from hypothesis import settings
from hypothesis.stateful import rule, run_state_machine_as_test

from hermes_sessions.storage.sessiondb import SessionDB
from tests.storage.framework_machine import FrameworkMachine

BUDGET = settings.default.max_examples if settings.default else 100


class InMemory(FrameworkMachine):
    """A store in memory."""

    open_store = staticmethod(lambda: SessionDB(":memory:"))


TestInMemory = InMemory.TestCase
TestInMemory.settings = settings(max_examples=max(BUDGET // 6, 1), stateful_step_count=40)


def test_on_a_file_that_is_opened_again(tmp_path: Path) -> None:
    class OnFile(FrameworkMachine):
        open_store = staticmethod(lambda: SessionDB(tmp_path / "state.db", durability="normal"))

        @rule()
        def open_again(self) -> None:
            self.db.close()
            self.db = type(self).open_store()

    run_state_machine_as_test(
        OnFile, settings=settings(max_examples=max(BUDGET // 16, 1), stateful_step_count=40)
    )
