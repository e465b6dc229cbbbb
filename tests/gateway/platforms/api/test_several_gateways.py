"""Two gateways on one store: a waiting client gets the reply, whichever gateway runs the turn."""

from __future__ import annotations

from pathlib import Path

from hermes_sessions_testing.scripted_model import streamed
from tests.gateway.platforms.api.harness import ApiHarness

PATH = "/v1/conversations/walks/messages"


def test_a_reply_of_the_other_gateway(tmp_path: Path) -> None:
    """The one that is asked does not hold the conversation, and hears nothing of the turn."""
    with ApiHarness(tmp_path) as first:
        gate = first.model.gate()
        first.script.append(streamed("Hello", gate, " there"))
        second = ApiHarness(tmp_path)
        second.config = first.config
        with second, first.client() as here, second.client() as there:
            here.post(PATH, json={"text": "One"})
            gate.wait_until_reached()
            there.post(PATH, json={"text": "Two", "id": "two"})
            gate.open()
            answer = there.post(f"{PATH}?wait", json={"text": "Two", "id": "two"}).json()
        assert (answer["status"], answer["reply"]) == ("duplicate", "You said: Two")
    assert [len(prompt) for prompt in first.prompts()] == [2, 4]
