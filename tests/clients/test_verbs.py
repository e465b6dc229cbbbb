"""The verbs of our `hermes_state` return what those of hermes-agent 0.19 return."""

from __future__ import annotations

import inspect
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import verb_calls
from tests.clients.released import SOURCES, interpreter

RELEASE = "0.19.0"
#: Where results differ, by verb and the path in the result, and why.
DIFFERENT = {
    ("rewind_to_message", "keys"): "ours follow theirs",
    ("release_compression_lock", ""): "ours says whether the caller held it",
    ("delete_telegram_topic_binding", ""): "ours says whether there was one",
    ("get_anchored_view", ".window"): "ours counts messages of the roles that are kept",
    ("get_anchored_view", ".bookend_end"): "ours counts messages of the roles that are kept",
    ("resolve_session_by_title", ""): "the latest activity wins, not the latest start",
    ("get_session", ".message_count"): "counters follow a rewind",
    ("get_session", ".tool_call_count"): "counters follow a rewind",
}
RESULTS = "subject", [subject.__name__ for subject in verb_calls.SUBJECTS]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """What theirs and ours return, by subject."""
    found = []
    for whose in ([], [SOURCES]):
        home = tmp_path_factory.mktemp("home")
        program = Path(inspect.getfile(verb_calls))
        file = home / "results.json"
        subprocess.run(
            [interpreter(RELEASE), program, file, *whose], cwd=home, check=True, timeout=120
        )
        found.append(json.loads(file.read_text(encoding="utf-8")))
    return found[0], found[1]


def differences(theirs: Any, ours: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the path of each difference, and what is there."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        if list(theirs) != list(ours):
            yield f"{path}keys", list(theirs), list(ours)
        for key in theirs.keys() & ours.keys():
            yield from differences(theirs[key], ours[key], f"{path}.{key}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for one, other in zip(theirs, ours, strict=True):
            yield from differences(one, other, path)
    elif (theirs, type(theirs)) != (ours, type(ours)):
        yield path, theirs, ours


@pytest.mark.parametrize(*RESULTS)
def test_results(results: tuple[dict[str, Any], dict[str, Any]], subject: str) -> None:
    theirs, ours = (found[subject] for found in results)
    found = [
        (call, *difference)
        for (call, theirs_is), (_, ours_is) in zip(theirs, ours, strict=True)
        for difference in differences(theirs_is, ours_is)
        if (call.partition("(")[0], difference[0]) not in DIFFERENT
    ]
    assert found == []
