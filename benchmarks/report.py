"""The report of a run: tables for the terminal and a JSON document for machines."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.comparisons import COMPARISONS, SERVER_COMPARISONS
from benchmarks.opponents import OPPONENTS
from benchmarks.results import Results
from benchmarks.sizes import Size
from benchmarks.targets import TARGETS

FORMAT = 1


def number(value: float | None) -> str:
    """A value with about three significant digits, the way a person would write it."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Aligned columns; the first ``left`` ones to the left, the others to the right."""
    widths = [max(_width(row[place]) for row in [header, *rows]) for place in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell + " " * (width - _width(cell))
            if place < left
            else " " * (width - _width(cell)) + cell
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    return "\n".join([line(header), line(["─" * width for width in widths]), *map(line, rows)])


def targets_table(results: Results) -> str:
    """Each target with what was measured, its bounds and the verdict."""
    rows = [
        [
            str(target.number),
            target.what,
            _with_unit(target.measure(results), target.unit),
            str(target.must or ""),
            str(target.goal or ""),
            target.verdict(results),
        ]
        for target in TARGETS
    ]
    return table(["#", "target", "measured", "must", "goal", "verdict"], rows, left=2)


def comparisons_table(results: Results) -> str:
    """Each comparison with every opponent's own number and its ratio to Hermes 0.13."""
    compared = [results.rounds.get(comparison.scenario, {}) for comparison in COMPARISONS]
    opponents = [name for name in OPPONENTS if any(name in found for found in compared)]
    rows = []
    for comparison in COMPARISONS:
        cells = [f"{comparison.title} ({comparison.unit})"]
        for opponent in opponents:
            value = results.value(comparison.scenario, opponent, comparison.metric)
            advantage = comparison.advantage(results, opponent)
            ratio = "" if advantage is None else f" ({number(advantage)}×)"
            cells.append("" if value is None else number(value) + ratio)
        rows.append(cells)
    return table(["median (times as fast as Hermes 0.13)", *opponents], rows)


def servers_table(results: Results) -> str:
    """What was measured on servers: the plain driver, or our own SQLite store, is 1."""
    rows = []
    for comparison in SERVER_COMPARISONS:
        for opponent in results.rounds.get(comparison.scenario, {}):
            value = results.value(comparison.scenario, opponent, comparison.metric)
            advantage = comparison.advantage(results, opponent)
            cells = [f"{comparison.title} ({comparison.unit})", OPPONENTS[opponent].label]
            rows.append([*cells, number(value), "" if advantage is None else number(advantage)])
    return table(["on a server", "who", "median", "times as fast"], rows, left=2) if rows else ""


def document(
    results: Results,
    *,
    size: Size,
    machine: dict[str, Any],
    sqlite_versions: dict[str, str],
    server_versions: dict[str, str] | None = None,
    date: str,
) -> dict[str, Any]:
    """Everything a run found out, ready for JSON. Carries no host name and no path."""
    return {
        "format": FORMAT,
        "date": date,
        "size": size.name,
        "rounds": size.rounds,
        "machine": machine,
        "servers": server_versions or {},
        "opponents": {
            name: {
                "label": OPPONENTS[name].label,
                "packages": [
                    *OPPONENTS[name].environment.without_dependencies,
                    *OPPONENTS[name].environment.requirements,
                ],
                **({"sqlite": version} if version else {"server": OPPONENTS[name].server}),
            }
            for name, version in sqlite_versions.items()
        },
        "targets": [
            {
                "number": target.number,
                "what": target.what,
                "measured": target.measure(results),
                "unit": target.unit,
                "must": str(target.must) if target.must else None,
                "goal": str(target.goal) if target.goal else None,
                "verdict": target.verdict(results),
            }
            for target in TARGETS
        ],
        "results": results.as_json(),
    }


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write the document with a stable layout, so that two runs can be compared as text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _with_unit(value: float | None, unit: str) -> str:
    return number(value) if value is None else f"{number(value)} {unit}".rstrip()


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
