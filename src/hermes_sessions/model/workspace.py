"""Workspaces: the identity of a project, wherever its directory is.

A project is its git remote, without one the first commit of its repository, and without a
repository its directory. So clones, worktrees and a directory that was moved or renamed are the
same workspace.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from hermes_sessions.errors import InvalidInput

MAX_NAME_LENGTH: Final = 100
#: What ``git clone`` accepts besides URLs: ``git@host:path``, but not ``/path`` or ``./path:x``.
_SCP: Final = re.compile(r"(?:[^/@\s]+@)?(?P<host>\[[^\]\s]+\]|[^/:@\s]+):(?P<path>[^\s].*)")
_DEFAULT_PORTS: Final = {"ssh": 22, "git": 9418, "http": 80, "https": 443}
#: Hosts that ignore the case of repository names.
_CASELESS: Final = frozenset(("bitbucket.org", "codeberg.org", "github.com", "gitlab.com"))


class Place(NamedTuple):
    """A working directory, as its sessions record it."""

    #: The directory, absolute and without symbolic links.
    path: str
    #: The root of the git repository around it.
    repo_root: str | None = None
    #: The checked-out branch; None without one, or with a detached HEAD.
    branch: str | None = None
    #: The URL of the repository's remote, as git has it.
    remote: str | None = None
    #: The first commit of the repository; None if there is none or it was not asked for.
    first_commit: str | None = None

    @property
    def root(self) -> str:
        """The directory of the project."""
        return self.repo_root or self.path

    def identities(self) -> list[str]:
        """Return the identities of the project, the one that decides first."""
        found = []
        if self.remote is not None and (remote := normalize_remote(self.remote)) is not None:
            found.append(f"remote:{remote}")
        if self.first_commit is not None:
            found.append(f"commit:{self.first_commit}")
        return [*found, f"path:{self.root}"]

    def name(self) -> str:
        """Return a name for the project: that of its remote, or of its directory."""
        address = self.identities()[0]
        if self.remote is None or not address.startswith("remote:"):
            return posixpath.basename(self.root.rstrip("/"))[:MAX_NAME_LENGTH] or "/"
        name = posixpath.basename(address)
        # The identity may be in lower case, the URL is as people write it.
        start = self.remote.lower().rfind(name.lower())
        spelled = self.remote[start : start + len(name)] if start >= 0 else name
        return spelled[:MAX_NAME_LENGTH]


def workspace_name(name: Any) -> str:
    """Return a name as it is stored: blanks at the ends and in a row left out.

    Raises:
        InvalidInput: it is not text, blank, too long, or has control characters.
    """
    cleaned = " ".join(name.split()) if isinstance(name, str) else ""
    if not cleaned or len(cleaned) > MAX_NAME_LENGTH or not cleaned.isprintable():
        raise InvalidInput(
            f"{name!r:.120} cannot be the name of a workspace. Use 1 to {MAX_NAME_LENGTH} visible "
            f"characters."
        )
    return cleaned


def normalize_remote(url: str) -> str | None:
    """Return the part of a remote's URL that says which repository it is, or None.

    The scheme, credentials, a default port, ``.git`` and slashes at the end are left out:
    ``git@github.com:Nous/Hermes.git`` and ``https://me:token@github.com/nous/hermes`` are both
    ``github.com/nous/hermes``. A relative path says nothing outside its repository.
    """
    url = url.strip()
    if "://" in url:
        return _of_url(url)
    if url.startswith("/"):
        return _without_suffix(posixpath.normpath(url))
    if (short := _SCP.fullmatch(url)) is not None:
        return _joined(short["host"], short["path"])
    return None


def _of_url(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # not an address or not a port
        return None
    scheme = parts.scheme.lower().removeprefix("git+").removesuffix("+git")
    path = unquote(parts.path)
    if scheme == "file":
        return _without_suffix(posixpath.normpath(path)) if path.startswith("/") else None
    if not host:
        return None
    if port is not None and port != _DEFAULT_PORTS.get(scheme):
        host = f"{host}:{port}"
    return _joined(host, path)


def _joined(host: str, path: str) -> str | None:
    host = host.lower().rstrip(".")
    path = _without_suffix(posixpath.normpath("/" + path.strip("/"))).lstrip("/")
    if not path:
        return None
    return f"{host}/{path.lower() if host in _CASELESS else path}"


def _without_suffix(path: str) -> str:
    return path.removesuffix("/.git").removesuffix(".git").rstrip("/") or "/"
