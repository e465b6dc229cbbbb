"""Runs the tests that failed once more, each alone, and lists those that then pass as flaky.

    python scripts/flaky_tests.py [PYTEST OPTION]...

Called by ./test after a failed run. Among thousands of tests of locks, crashes and time limits, one
may fail for want of a core. Up to three failures are tried again; more than that are failures. The
exit status is 0 when every one of them passed. The list is in build/flaky-tests.txt, one line each.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

REPORT: Final = Path("build", "flaky-tests.txt")
_MOST: Final = 3


def failed_tests(options: list[str]) -> list[str]:
    """Return the ids of the tests that failed in the last run."""
    command = [*_pytest(options), "--last-failed", "--quiet", "--collect-only"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return [line for line in found.stdout.splitlines() if "::" in line]


def passes_alone(test: str, options: list[str]) -> bool:
    """Run one test in a process of its own; its output goes to the terminal."""
    return subprocess.run([*_pytest(options), test], check=False).returncode == 0


def write_report(tests: list[str]) -> None:
    """List flaky tests in the report; without any, there is no report."""
    REPORT.unlink(missing_ok=True)
    if tests:
        REPORT.parent.mkdir(exist_ok=True)
        REPORT.write_text("".join(f"flaky: {test} (passed when run alone)\n" for test in tests))


def main(options: list[str]) -> int:
    """Try the failures of the last run again; return the exit status."""
    write_report([])
    failures = failed_tests(options)
    if not 0 < len(failures) <= _MOST:
        return 1
    print(f"{len(failures)} failed; running each again, alone", flush=True)
    flaky = [test for test in failures if passes_alone(test, options)]
    write_report(flaky)
    return 0 if flaky == failures else 1


def _pytest(options: list[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", *options]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
