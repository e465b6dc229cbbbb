"""Asks git where a directory belongs.

Every answer is bounded in time. Without git, without a repository, or when git refuses to answer,
the directory stands for itself.
"""

from __future__ import annotations

import os
import subprocess
from typing import Final

from hermes_sessions.config.paths import process_environment
from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.workspace import Place
from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

#: Seconds for one question; the first commit of a long history takes longest.
_SECONDS: Final = 2.0
#: Git runs no program that the repository names.
_OPTIONS: Final = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
#: Git sets these for its hooks: they name the hook's repository, not that of the directory.
_OF_A_HOOK: Final = frozenset(
    "GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_NAMESPACE "
    "GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_PREFIX GIT_CEILING_DIRECTORIES".split()
)
_QUIET: Final = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}


def locate(directory: str | os.PathLike[str]) -> Place:
    """Return where a directory belongs; it need not exist.

    Raises:
        InvalidInput: it is not a path.
    """
    try:
        path = os.path.realpath(os.fspath(directory))
    except (TypeError, ValueError, OSError) as error:
        raise InvalidInput(f"cwd {directory!r:.200} is not a directory: {error}.") from error
    if not isinstance(path, str) or not os.fspath(directory):
        raise InvalidInput(f"cwd {directory!r:.200} is not a directory. Give its path as text.")
    root = _git(path, "rev-parse", "--show-toplevel")
    if not root:
        return Place(path)
    branch = _git(path, "symbolic-ref", "--quiet", "--short", "HEAD")
    return Place(path, root, branch or None, _remote(_git(path, "remote", "--verbose") or ""))


def find_first_commit(place: Place) -> str | None:
    """Return the oldest first commit of the repository's branches; None without commits and for a
    shallow clone, which does not have it.
    """
    if (
        place.repo_root is None
        or _git(place.path, "rev-parse", "--is-shallow-repository") != "false"
    ):
        return None
    commits = _git(place.path, "rev-list", "--max-parents=0", "--branches")
    return commits.splitlines()[-1] if commits else None


def _remote(listed: str) -> str | None:
    """Return the URL of ``origin``, or of the first remote by name."""
    urls: dict[str, str] = {}
    for line in listed.splitlines():
        name, _, rest = line.partition("\t")
        # "URL (fetch)", with the kind of a partial clone behind it.
        url, is_fetched, _ = rest.partition(" (fetch)")
        if is_fetched:
            urls.setdefault(name, url)
    return urls.get("origin") or next((urls[name] for name in sorted(urls)), None)


def _git(directory: str, *arguments: str) -> str | None:
    """Return the output of a git command, without the line break at its end; None if it failed."""
    environment = {
        name: value for name, value in process_environment().items() if name not in _OF_A_HOOK
    }
    try:
        done = subprocess.run(
            ["git", *_OPTIONS, *arguments],
            cwd=directory,
            env=environment | _QUIET,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        # No git, no such directory, no permission; a path with a NUL.
        logger.info("git %s in %s: %s", arguments[0], directory, error)
        return None
    return os.fsdecode(done.stdout).removesuffix("\n") if done.returncode == 0 else None
