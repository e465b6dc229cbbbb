"""One job in an opponent's environment: reads JSON from stdin, writes JSON to stdout.

Started by the harness with the opponent's own Python. Everything the library prints goes to
stderr, so that stdout carries the answer alone.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks import corpus
from benchmarks.opponents import OPPONENTS, Opponent
from benchmarks.scenarios import SCENARIOS, Job

BUILD = "build"


def perform(request: dict[str, Any]) -> dict[str, Any]:
    """Run the requested job and return its metrics."""
    opponent = OPPONENTS[request["opponent"]]
    if request["task"] == BUILD:
        _build(opponent, Path(request["store"]), Path(request["prepared_corpus"]))
        metrics = {}
    else:
        metrics = SCENARIOS[request["task"]].run(
            Job(
                opponent=opponent,
                store=Path(request["store"]),
                corpus=_optional_path(request["corpus"]),
                prepared_corpus=_optional_path(request["prepared_corpus"]),
                scratch=Path(request["scratch"]),
                parameters=request["parameters"],
            )
        )
    return {"metrics": metrics, "sqlite": opponent.sqlite_version()}


def _build(opponent: Opponent, path: Path, prepared_corpus: Path) -> None:
    if opponent.load is None:
        raise LookupError(f"{opponent.name} has no fast way to be filled")
    opponent.load(path, corpus.read(prepared_corpus))
    expected = sum(len(session.messages) for session in corpus.read(prepared_corpus))
    store = opponent.open(path)
    stored = store.count_messages()
    store.close()
    if stored != expected:
        raise RuntimeError(f"{expected} messages loaded, {stored} stored")


def _optional_path(value: str | None) -> Path | None:
    return None if value is None else Path(value)


def main() -> None:
    """Serve one request."""
    answer = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    json.dump(perform(json.load(sys.stdin)), answer)
    answer.close()


if __name__ == "__main__":
    main()
