"""SIGKILL between receiving and replying: the real command, killed and started again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.gateway.platforms.crash_restart import gateway, killed_while_answering, stored
from tests.gateway.platforms.whatsapp.harness import WhatsAppHarness


@contextmanager
def reached(harness: WhatsAppHarness) -> Iterator[None]:
    """A gateway to which messages are brought, until it is killed."""
    with gateway(harness, "whatsapp") as command:
        port = re.search(r"on port (\d+)", "".join(command.lines))
        assert port, command.lines
        harness.whatsapp.callback = lambda: f"http://127.0.0.1:{port[1]}/whatsapp"
        try:
            yield
        finally:
            harness.whatsapp.callback = lambda: ""


@pytest.mark.slow
def test_a_message_is_answered_although_the_gateway_was_killed(tmp_path: Path) -> None:
    with WhatsAppHarness(tmp_path) as harness:
        harness.write_config()
        with killed_while_answering(harness, reached(harness)):
            message_id = harness.whatsapp.write("Do not forget me")
            harness.whatsapp.wait_for(lambda: not harness.whatsapp.waiting)
            assert harness.whatsapp.deliveries[-1] == 200
        # Meta, too, may not be sure that it was confirmed.
        message = harness.whatsapp.message("Do not forget me") | {"id": message_id}
        harness.whatsapp.push(harness.whatsapp.call(harness.whatsapp.value([message])))
        with reached(harness):
            assert harness.wait_for_replies(1) == ["You said: Do not forget me"]
            harness.whatsapp.write("Still there?")
            assert harness.wait_for_replies(2)[1:] == ["You said: Still there?"]
        (said,) = stored(harness)
        assert said.count("Do not forget me") == 1
