"""The examples of docs/api.md do what the page says, with a gateway that runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from hermes_sessions_testing.scripted_model import streamed
from tests.docs.pages import read_blocks
from tests.gateway.platforms.api.harness import TOKEN, ApiHarness

PAGE = Path(__file__).parents[4] / "docs" / "api.md"
ADDRESS = "http://127.0.0.1:8642"


def texts(language: str) -> list[str]:
    return [block.text for block in read_blocks(PAGE) if block.language == language]


def run(harness: ApiHarness, *command: str) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, "HERMES_API_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_openais_client(harness: ApiHarness) -> None:
    (program,) = texts("python")
    assert ADDRESS in program
    harness.script += [streamed("Nice."), streamed("To Lisbon."), streamed("Sun", " cream")]
    printed = run(harness, sys.executable, "-c", program.replace(ADDRESS, harness.url))
    assert printed == "To Lisbon.\nSun cream"
    assert len(harness.prompts()[-1]) == 6


def test_curl(harness: ApiHarness) -> None:
    address, *examples = texts("bash")
    assert ADDRESS in address
    printed = []
    for example in examples:
        script = f"set -eu\n{address.replace(ADDRESS, harness.url)}\n{example}"
        printed.append(run(harness, "bash", "-c", script))
    receipt, replies, reads, people = printed
    assert json.loads(receipt)["status"] == "stored"
    waited, _, stream = replies.partition("event: ")
    assert json.loads(waited)["reply"]
    assert stream.startswith("receipt")
    assert "event: ended" in stream
    assert '"object":"message"' in reads
    assert '"object":"session"' in reads
    said, listed = people[: people.index("}{") + 1], people[people.index("}{") + 1 :]
    assert json.loads(said)["reply"] == "You said: Hello"
    assert [session["preview"] for session in json.loads(listed)["data"]] == ["Hello"]


def test_every_route_is_on_the_page() -> None:
    from hermes_sessions.gateway.platforms.api.openapi import description

    page = PAGE.read_text(encoding="utf-8").replace("{name}", "{conversation}")
    page = page.replace("/v1/sessions/{id}", "/v1/sessions/{session_id}")
    for path, methods in description()["paths"].items():
        for method in methods:
            assert f"{method.upper()} {path}" in page
