"""``hermes model``."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_sessions.agent.clients import local_model
from tests.cli.harness import Hermes


def test_which_model_answers(hermes: Hermes) -> None:
    environ = {"HERMES_BASE_URL": "https://host.example/v1", "HERMES_MODEL": "m-1"}
    result = hermes.call("model", "show", environ=environ)
    assert (result.code, "m-1 at host.example" in result.out) == (0, True)
    assert "HERMES_API_KEY" in result.out
    assert "config.yaml" in result.out
    document = hermes.call("model", "show", "--json", environ=environ).json
    assert (document["model"], document["is_local"]) == ("m-1", False)
    assert hermes.call("model", "show", "--json").json["is_local"]


def test_fetching(hermes: Hermes, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it installs is tried in the tests of the package."""
    monkeypatch.setattr(local_model, "weights_path", lambda: Path("/there/weights.gguf"))
    result = hermes.call("model", "fetch")
    assert (result.code, result.out) == (0, "The local model is installed: /there/weights.gguf\n")
    assert hermes.call("model", "fetch", "--json").json == {"weights": "/there/weights.gguf"}
