"""SIGKILL between receiving and replying: the real command, killed and started again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.gateway.platforms.crash_restart import gateway, killed_while_answering, stored
from tests.gateway.platforms.whatsapp.harness import WhatsAppTown


@contextmanager
def reached(town: WhatsAppTown) -> Iterator[None]:
    """A gateway to which messages are brought, until it is killed."""
    with gateway(town, "whatsapp") as command:
        port = re.search(r"expected at port (\d+)", "".join(command.lines))
        assert port, command.lines
        town.whatsapp.callback = lambda: f"http://127.0.0.1:{port[1]}/whatsapp"
        try:
            yield
        finally:
            town.whatsapp.callback = lambda: ""


@pytest.mark.slow
def test_a_message_is_answered_although_the_gateway_was_killed(tmp_path: Path) -> None:
    with WhatsAppTown(tmp_path) as town:
        town.write_config()
        with killed_while_answering(town, reached(town)):
            message_id = town.whatsapp.write("Do not forget me")
            town.whatsapp.wait_for(lambda: not town.whatsapp.waiting)
            assert town.whatsapp.deliveries[-1] == 200
        # Meta, too, may not be sure that it was confirmed.
        message = town.whatsapp.message("Do not forget me") | {"id": message_id}
        town.whatsapp.push(town.whatsapp.call(town.whatsapp.value([message])))
        with reached(town):
            assert town.wait_for_replies(1) == ["You said: Do not forget me"]
            town.whatsapp.write("Still there?")
            assert town.wait_for_replies(2)[1:] == ["You said: Still there?"]
        (said,) = stored(town)
        assert said.count("Do not forget me") == 1
