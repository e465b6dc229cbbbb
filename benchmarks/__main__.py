"""The command: ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import chart, machine, report
from benchmarks.environments import REPOSITORY, EnvironmentFailed
from benchmarks.harness import Harness, RunFailed, choose_opponents
from benchmarks.opponents import OPPONENTS
from benchmarks.results import Results
from benchmarks.scenarios import SCENARIOS
from benchmarks.sizes import SIZES, Size
from benchmarks.targets import TARGETS
from scripts.local_servers import ServerFailed

CACHE = Path.home() / ".cache" / "hermes-sessions-benchmarks"
RESULTS = REPOSITORY / "benchmarks" / "results"
CHART = REPOSITORY / "docs" / "images" / "benchmarks.svg"


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write; returns the exit code.

    0 when everything ran; 1 when a run was worthless or could not be made, and with ``--check``
    also when a target's must was missed or not measured.
    """
    options = _parser().parse_args(arguments)
    size = SIZES[options.size]
    started = time.monotonic()
    date = datetime.now(UTC).date().isoformat()
    options.cache.mkdir(parents=True, exist_ok=True)
    facts = machine.facts(options.cache)
    if facts["load_at_start"] >= facts["cores"] / 2:
        print(f"the machine is busy (load {facts['load_at_start']}): trust the ratios only")
    try:
        harness = Harness(
            size=size,
            opponents=choose_opponents(options.opponents),
            cache=options.cache,
            say=lambda text: print(
                f"[{time.monotonic() - started:5.0f} s] {text}", file=sys.stderr
            ),
        )
        results = harness.run([SCENARIOS[name] for name in options.scenarios])
    except (EnvironmentFailed, ServerFailed, LookupError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except RunFailed as error:
        # Nothing is published, but the results of half an hour are still printed.
        _print_tables(harness.results)
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(_headline(size, facts))
    _print_tables(results)
    print(f"\n{time.monotonic() - started:.0f} seconds")
    content = report.document(
        results,
        size=size,
        machine=facts,
        sqlite_versions=harness.sqlite_versions,
        server_versions=harness.server_versions,
        date=date,
    )
    report.write_json(options.json or _results_file(options, size), content)
    if options.chart is not None or _is_publishable(options, size):
        picture = options.chart or CHART
        picture.parent.mkdir(parents=True, exist_ok=True)
        try:
            drawn = chart.draw(results, subtitle=_headline(size, facts))
        except ValueError as error:
            print(f"No chart: {error}.", file=sys.stderr)
        else:
            picture.write_text(drawn, encoding="utf-8")
    is_met = all(
        target.verdict(results) in ("goal", "must") for target in TARGETS if target.must is not None
    )
    return 1 if options.check and not is_met else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmarks",
        description="Measure the session store against its neighbours: one run, ratios.",
    )
    amount = parser.add_mutually_exclusive_group()
    for name, text in (("quick", "a smoke test, a few minutes"), ("large", "about an hour")):
        amount.add_argument(f"--{name}", dest="size", action="store_const", const=name, help=text)
    parser.set_defaults(size="default")
    parser.add_argument(
        "--opponents",
        type=lambda text: text.split(","),
        default=list(OPPONENTS),
        help=f"comma-separated, from: {', '.join(OPPONENTS)}",
    )
    parser.add_argument(
        "--scenarios",
        type=_known_scenarios,
        default=list(SCENARIOS),
        help=f"comma-separated, from: {', '.join(SCENARIOS)}",
    )
    parser.add_argument(
        "--cache", type=Path, default=CACHE, help="environments and stores; on a real disk"
    )
    parser.add_argument("--json", type=Path, help="where to write the results instead")
    parser.add_argument("--chart", type=Path, help="where to write the chart instead")
    parser.add_argument("--check", action="store_true", help="fail when a must is missed")
    return parser


def _print_tables(results: Results) -> None:
    print(f"\n{report.targets_table(results)}\n\n{report.comparisons_table(results)}")
    if on_servers := report.servers_table(results):
        print(f"\n{on_servers}")


def _known_scenarios(text: str) -> list[str]:
    names = text.split(",")
    unknown = sorted(set(names) - set(SCENARIOS))
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown scenario: {', '.join(unknown)}")
    return [name for name in SCENARIOS if name in names]


def _is_publishable(options: argparse.Namespace, size: Size) -> bool:
    """Only complete runs of the published size replace the published files."""
    is_complete = options.opponents == list(OPPONENTS) and options.scenarios == list(SCENARIOS)
    return is_complete and size.name != "quick"


def _results_file(options: argparse.Namespace, size: Size) -> Path:
    return RESULTS / ("latest.json" if _is_publishable(options, size) else "partial.json")


def _headline(size: Size, facts: dict[str, object]) -> str:
    rounds = f"medians of {size.rounds} interleaved rounds" if size.rounds > 1 else "one round"
    return (
        f"{size.name} run, {rounds}; {facts['cores']} cores,"
        f" fsync {facts['fsync_p50_ms']} ms, Python {facts['python']}"
    )


if __name__ == "__main__":
    sys.exit(main())
