"""SIGKILL between receiving and replying: the real command, killed and started again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from hermes_sessions_testing.scripted_model import streamed
from tests.cli.harness import Hermes
from tests.gateway.fleet import GatewayCommand
from tests.gateway.harness import GatewayHarness, echo


@contextmanager
def gateway(harness: GatewayHarness, platform: str) -> Iterator[GatewayCommand]:
    """``hermes gateway run``, ready, and killed at the end."""
    command = GatewayCommand(Hermes(harness.home))
    try:
        command.wait_for_line(f"ready: {platform}")
        yield command
    finally:
        command.kill()


@contextmanager
def killed_while_answering(
    harness: GatewayHarness, running: AbstractContextManager[object]
) -> Iterator[None]:
    """Let a gateway be killed while the model answers what is written inside; the model answers
    everything after that.
    """
    gate = harness.model.gate()
    harness.model.respond = lambda _request: streamed("never said", gate, " to the end")
    with running:
        yield
        gate.wait_until_reached()
    gate.open()
    harness.model.respond = echo


def stored(harness: GatewayHarness) -> list[list[str]]:
    """What was said, by session."""
    with harness.open_db() as db:
        return [
            [row["content"] for row in db.get_messages(session["id"])]
            for session in db.list_sessions_rich()
        ]
