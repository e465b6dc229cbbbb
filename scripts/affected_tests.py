"""Prints the test files that a change affects, the closest first: python affected_tests.py [REV].

Without REV it looks at what is not committed, and, if that is nothing, at the last commit. A test
file is affected when it changed itself, when it lies in the folder named after the changed module,
or when it imports the module directly or through helpers of the tests. What is imported by nearly
everything would select every test: those files are left to ``./test``.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
#: The folders that packages are in.
_SOURCES: Final = (ROOT / "src", ROOT / "testing" / "src")
#: A module that more test files than this import is not close to any of them.
_COMMON: Final = 60
#: Collecting more files than this takes longer than ./check should.
_MOST: Final = 40


def changed_files(revision: str | None) -> list[Path]:
    """Return the files that differ from *revision*, new ones included."""
    base = revision or "HEAD"
    names = _git("diff", "--name-only", base) + _git("ls-files", "-o", "--exclude-standard")
    if not names and revision is None:
        names = _git("diff", "--name-only", "HEAD~1", "HEAD")
    return [ROOT / name for name in names if (ROOT / name).exists()]


def affected_tests(changed: list[Path]) -> list[Path]:
    """Return the test files that *changed* files affect, the closest first."""
    tests = sorted((ROOT / "tests").rglob("*.py"))
    imports = {path: set(_imports(path)) for path in tests}
    found: dict[Path, None] = dict.fromkeys(path for path in changed if _is_test(path))
    for path in changed:
        if path.suffix == ".py":
            found |= dict.fromkeys(_importers(path, imports))
    for path in changed:
        found |= dict.fromkeys(_of_the_same_name(path, tests))
    return list(found)


def _importers(changed: Path, imports: dict[Path, set[str]]) -> list[Path]:
    """Return the test files that import a file, or a helper of the tests that does."""
    wanted, seen = {_module_name(changed)}, set[Path]()
    while wanted:
        near = {path for path, names in imports.items() if names & wanted} - seen
        seen |= near
        wanted = {_module_name(path) for path in near if not _is_test(path)}
    found = sorted(path for path in seen if _is_test(path))
    return found if len(found) <= _COMMON else []


def _of_the_same_name(changed: Path, tests: list[Path]) -> Iterator[Path]:
    """Yield the test files named after a module or the folder that it is in."""
    source = next((folder for folder in _SOURCES if changed.is_relative_to(folder)), None)
    if source is None:
        return
    for path in tests:
        if _is_test(path) and path.stem.startswith(f"test_{changed.stem}"):
            yield path
    package, *inside = changed.parent.relative_to(source).parts or ("",)
    folder = ROOT / "tests" / ("testing" if package == "hermes_sessions_testing" else "")
    folder = folder.joinpath(*inside)
    if folder != ROOT / "tests" and folder.is_dir():
        yield from sorted(folder.glob("test_*.py"))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)


def _module_name(path: Path) -> str:
    base = next((folder for folder in _SOURCES if path.is_relative_to(folder)), ROOT)
    parts = path.relative_to(base).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_test(path: Path) -> bool:
    return path.name.startswith("test_") and path.is_relative_to(ROOT / "tests")


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.splitlines()


def main(revision: str | None) -> None:
    """Print the closest test files, and on standard error how many more there are."""
    found = affected_tests(changed_files(revision))
    for file in found[:_MOST]:
        print(file.relative_to(ROOT))
    if len(found) > _MOST:
        more = len(found) - _MOST
        print(f"check: {more} more test files are affected; ./test runs them", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else None)
