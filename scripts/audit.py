#!/usr/bin/env python3
"""Looks at what we depend on:

    scripts/audit.py           what can be known without a network; ./test does this, too
    scripts/audit.py --online  also asks for known vulnerabilities (pip-audit), and whether there
                               are wheels of everything for Linux and macOS, so that nobody needs
                               a compiler

It says what is wrong, one line each, and leaves with 1 if anything is.
"""

from __future__ import annotations

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
    "jwt": "not the package it is taken for; pyjwt is",
    "yaml": "not the package it is taken for; PyYAML is",
    "python-telegram": "not the package it is taken for; python-telegram-bot is",
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


def online() -> list[str]:
    """Return what the advisory services and the registry say."""
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        pip = [f"{folder}/bin/pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "install", "pip-audit"], check=True)
        for lock in LOCKS:
            # Strict: what it could not ask about would pass as harmless.
            audit = [f"{folder}/bin/pip-audit", "--strict", "--disable-pip", "--require-hashes"]
            if subprocess.run([*audit, "-r", str(lock)], check=False).returncode:
                problems.append(f"{lock.name}: pip-audit has found something, or could not ask")
        for platform in PLATFORMS:
            command = [*pip, "download", "--only-binary=:all:", "--no-deps", "--platform", platform]
            where = ["--python-version", "3.11", "--dest", f"{folder}/{platform}"]
            done = subprocess.run([*command, *where, "-r", str(LOCKS[0])], check=False)
            if done.returncode:
                problems.append(f"{LOCKS[0].name}: not everything has a wheel for {platform}")
    return problems


def main() -> int:
    """Say what is wrong; return how to leave."""
    found = offline()
    if "--online" in sys.argv[1:]:
        found += online()
    for problem in found:
        print(problem, file=sys.stderr)
    print("Nothing was found." if not found else f"{len(found)} problems.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
