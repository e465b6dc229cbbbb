#!/usr/bin/env python3
"""Looks at what we depend on:

    scripts/audit.py           what can be known without a network; ./test does this, too
    scripts/audit.py --online  also asks for known vulnerabilities (pip-audit), and whether there
                               are wheels of everything for Linux and macOS, so that no user needs
                               a compiler

It says what is wrong, one line each, and what was not looked up. It leaves with 1 if anything is
wrong, and with 2 if nothing is, but the advisory service did not answer when it was asked.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCKS = (
    ROOT / "requirements" / "run.lock",
    ROOT / "requirements" / "dev.lock",
    ROOT / "src" / "hermes_sessions" / "agent" / "clients" / "local_model.lock",
)
#: What users install; the engine for local models is not installed where tests run.
EXTRAS = ("postgresql", "mysql", "chat", "gateway", "discord", "matrix", "slack")
#: Words of licences that may be used beside ours, as packages name them.
ALLOWED = (
    *("MIT", "BSD", "Apache", "ISC", "PSF", "Python Software Foundation", "MPL", "Mozilla"),
    *("LGPL", "Lesser General Public", "Unlicense", "Zlib", "0BSD", "CC0", "HPND", "any-OSI"),
    *("Public Domain", "Internet Systems Consortium"),
)
#: Never to come in, not even through others, and why.
FORBIDDEN = {
    "pycrypto": "unmaintained since 2014; pycryptodome is its successor",
    "python-jose": "unmaintained, with known holes",
    "pyjwt-old": "a copy with another name",
    "jwt": "not the well-known package; that is pyjwt",
    "yaml": "not the well-known package; that is PyYAML",
    "python-telegram": "not the well-known package; that is python-telegram-bot",
    "discord": "a stand-in; discord.py is the package",
    "python-olm": "needs a compiler and libolm, which is deprecated",
    "pickle5": "unpickles",
    "psycopg2": "needs a compiler",
    "mysqlclient": "needs a compiler",
}
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "macosx_14_0_arm64")


def pinned(lock: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield name, version and hashes of each package of a lock."""
    text = lock.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        found = re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;]+)", line)
        if found:
            yield found[1], found[2], re.findall(r"--hash=sha256:([0-9a-f]{64})", line)


def problems_of_lock(lock: Path) -> Iterator[str]:
    """Yield what is wrong with a lock: each line is one version with hashes, and nothing else."""
    text = lock.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if ":/" in line or line.startswith(("-", "git+", "file:", ".", "/")) or " @ " in line:
            yield f"{lock.name}: {line[:60]!r} does not come from a registry by its name"
        elif "==" not in line or "--hash=sha256:" not in line:
            yield f"{lock.name}: {line[:60]!r} is not one version with hashes"
    for name, _, _ in pinned(lock):
        if why := FORBIDDEN.get(canonicalize_name(name)):
            yield f"{lock.name}: {name} is forbidden: {why}"


def differences(locks: Iterable[Path]) -> Iterator[str]:
    """Yield packages that two locks have in different versions."""
    versions: dict[str, tuple[str, str]] = {}
    for lock in locks:
        for name, version, _ in pinned(lock):
            known, where = versions.setdefault(canonicalize_name(name), (version, lock.name))
            # One line for each version of Python or system is all right within a lock.
            if known != version and where != lock.name:
                yield f"{lock.name}: {name} {version}, but {known} in {where}"


def runtime_packages() -> set[str]:
    """The names of what users of any extra install, as far as it is installed here."""
    waiting = [Requirement(f"hermes-sessions[{','.join(EXTRAS)}]")]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = waiting.pop()
        key = (str(canonicalize_name(wanted.name)), frozenset(wanted.extras))
        if key in seen:
            continue
        seen.add(key)
        for text in metadata.requires(wanted.name) or ():
            needed = Requirement(text)
            extras = ["", *wanted.extras]
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in extras
            ):
                waiting.append(needed)
    return {name for name, _ in seen} - {"hermes-sessions"}


def licences_of(name: str) -> str:
    """Return all that a package says about its licence."""
    found = metadata.metadata(name)
    first = (found.get("License") or "").strip().partition("\n")[0]
    classifiers = [c for c in found.get_all("Classifier") or () if c.startswith("License ::")]
    named = [found.get("License-Expression"), first, *classifiers, _by_its_text(name)]
    return "; ".join(filter(None, named))


def _by_its_text(name: str) -> str:
    """Some packages bring the text of their licence, and do not name it."""
    for file in metadata.files(name) or ():
        if "licen" in file.name.lower() and file.suffix in ("", ".txt", ".md"):
            text = " ".join(file.read_text(encoding="utf-8").split())
            if "Permission is hereby granted, free of charge, to any person obtaining" in text:
                return "MIT by its text"
    return ""


def problems_of_installed() -> Iterator[str]:
    """Yield packages of users with other licences, that are not locked, or were compiled here."""
    locked = {canonicalize_name(name): version for name, version, _ in pinned(LOCKS[1])}
    for name in sorted(runtime_packages()):
        licences = licences_of(name)
        if not any(word.lower() in licences.lower() for word in ALLOWED):
            yield f"{name}: licence {licences or 'not named'!r} is not among those allowed"
        if name not in locked:
            yield f"{name}: not in {LOCKS[1].name}. Run scripts/lock"
        wheel = metadata.distribution(name).read_text("WHEEL") or ""
        tags = re.findall(r"^Tag: (.*)$", wheel, re.MULTILINE)
        if not tags or all(re.search(r"-linux_", tag) for tag in tags):
            yield f"{name}: was built on this machine; there is no wheel of it"


def offline() -> list[str]:
    """Return all problems that can be known without a network."""
    return [
        *(problem for lock in LOCKS for problem in problems_of_lock(lock)),
        *differences(LOCKS[:2]),
        *problems_of_installed(),
    ]


class NotAsked(Exception):
    """Whether there are known vulnerabilities could not be found out."""


def advisories(lock: Path, pip_audit: str) -> list[str]:
    """Return the known vulnerabilities of what a lock pins.

    Raises:
        NotAsked: the service did not answer for every package.
    """
    # Strict: what it could not ask about would pass as harmless.
    wishes = ["--strict", "--disable-pip", "--require-hashes", "--progress-spinner", "off"]
    done = subprocess.run(
        [pip_audit, *wishes, "--format", "json", "-r", str(lock)],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        report = json.loads(done.stdout)["dependencies"]
        asked = {canonicalize_name(entry["name"]) for entry in report if "vulns" in entry}
    except (ValueError, KeyError, TypeError):
        said = done.stderr.strip().splitlines() or [f"pip-audit left with {done.returncode}"]
        raise NotAsked(f"{lock.name}: {said[-1]}") from None
    # Lines for other systems and versions of Python are not asked about.
    if not asked:
        raise NotAsked(f"{lock.name}: pip-audit looked at no package")
    return [
        f"{lock.name}: {entry['name']} {entry['version']} has {found['id']}"
        for entry in report
        for found in entry.get("vulns", ())
    ]


def online() -> tuple[list[str], list[str]]:
    """Return what the advisory services and the registry say, and what they did not answer."""
    problems, unanswered = [], []
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        pip = [f"{folder}/bin/pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "install", "pip-audit"], check=True)
        for lock in LOCKS:
            try:
                problems += advisories(lock, f"{folder}/bin/pip-audit")
            except NotAsked as error:
                unanswered.append(str(error))
        for platform in PLATFORMS:
            command = [*pip, "download", "--only-binary=:all:", "--no-deps", "--platform", platform]
            where = ["--python-version", "3.11", "--dest", f"{folder}/{platform}"]
            done = subprocess.run([*command, *where, "-r", str(LOCKS[0])], check=False)
            if done.returncode:
                problems.append(f"{LOCKS[0].name}: not everything has a wheel for {platform}")
    return problems, unanswered


NOT_LOOKED_UP = "Known vulnerabilities were not looked up: scripts/audit.py --online does that."


def main() -> int:
    """Say what is wrong; return how to leave."""
    found, unanswered = offline(), []
    is_online = "--online" in sys.argv[1:]
    if is_online:
        more, unanswered = online()
        found += more
    for problem in found:
        print(problem, file=sys.stderr)
    for reason in unanswered:
        print(f"Not known whether there are vulnerabilities: {reason}", file=sys.stderr)
    print(f"{len(found)} problems." if found else "Nothing wrong was found.")
    if not is_online:
        print(NOT_LOOKED_UP)
    if found:
        return 1
    return 2 if unanswered else 0


if __name__ == "__main__":
    sys.exit(main())
