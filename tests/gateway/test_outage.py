"""While the database is unavailable, no confirmed message is lost, and users are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.care.health import State
from hermes_sessions_testing.fake_servers.telegram.server import ANNA
from tests.gateway.harness import TelegramHarness
from tests.servers.proxy import proxy_to
from tests.servers.stores import Place


@pytest.mark.fault(
    "The database is unavailable while messages arrive",
    "They wait in a file and are answered once, in order; people are told",
)
def test_messages_wait_in_a_file_and_are_answered_in_order(place: Place, tmp_path: Path) -> None:
    with proxy_to(place.port) as proxy:

        def open_db() -> SessionDB:
            # Long enough for a busy machine; so long the outage is waited for, a few times.
            return SessionDB.from_url(place.url(proxy.port), lock_timeout=4)

        with TelegramHarness(tmp_path, open_db) as harness:
            running = harness.start()
            harness.telegram.write("Before")
            assert harness.wait_for_replies(1) == ["You said: Before"]
            proxy.lost_requests = 1.0
            proxy.cut_all()
            for text in ("One", "/queue Two", "Three"):
                harness.telegram.write(text)
            harness.telegram.wait_for(lambda: not harness.telegram.waiting)
            told = harness.wait_for_replies(2)[1]
            assert "database is unavailable" in told
            assert running.gateway is not None
            assert running.gateway.gateway_metrics.store().state is State.DOWN
            assert "database" in running.gateway.gateway_metrics.problems()
            stranger = {**ANNA, "id": 77}
            harness.telegram.write("Who am I?", user=stranger)
            proxy.lost_requests = 0.0
            assert running.gateway is not None
            running.gateway.beat_now()
            harness.telegram.wait_for(lambda: any("Three" in text for text in harness.replies()))
            answers = [text for text in harness.replies() if text.startswith("You said")]
            wanted = ("Before", "One", "Two", "Three")
            assert answers == [f"You said: {text}" for text in wanted]
            # The sender was unknown; Telegram delivered it again.
            assert "hermes gateway pair" in harness.wait_for_replies(1, 77)[0]
            gateway_metrics = running.gateway.gateway_metrics
            harness.telegram.wait_for(lambda: gateway_metrics.store().is_healthy)
        assert list((tmp_path / "gateway" / "spool").iterdir()) == []
