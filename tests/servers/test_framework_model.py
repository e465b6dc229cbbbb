"""What frameworks use against a model, on servers."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from hermes_sessions import SessionDB
from tests.servers.stores import Place
from tests.storage.framework_machine import FrameworkMachine


@pytest.mark.slow
def test_against_a_model(place: Place, long_run: bool) -> None:
    class OnServer(FrameworkMachine):
        open_store = staticmethod(lambda: SessionDB.from_url(place.url()))

    run_state_machine_as_test(
        OnServer,
        settings=settings(max_examples=50 if long_run else 4, stateful_step_count=30),
    )
