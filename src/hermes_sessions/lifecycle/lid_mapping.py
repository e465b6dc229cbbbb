"""The files in which older installations kept which of WhatsApp's ids are the same person.

``<home>/whatsapp/session/lid-mapping-<id>.json``, and the same with ``_reverse``, each holding
another id of the one in its name. They are read, never written, and nothing outside that directory
is: not by a name with slashes, and not by a link.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hermes_sessions.model.identity import normalise_whatsapp
from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

_MAX_BYTES: Final = 4096
#: A person has two or three; files that chain more together are damaged or somebody's joke.
_MAX_ALIASES: Final = 16
_ID: Final = r"[A-Za-z0-9@.+-]{1,128}"
_FILE: Final = re.compile(rf"lid-mapping-({_ID}?)(?:_reverse)?\.json")


class LidMapping:
    """The mapping files of one home directory; they need not exist."""

    def __init__(self, home: Path) -> None:
        self._directory = home / "whatsapp" / "session"

    def aliases_of(self, identifier: str) -> tuple[str, ...]:
        """Return the ids of the same person, the given one first, each once."""
        found = [normalise_whatsapp(identifier)]
        for alias in found:
            for name in (f"lid-mapping-{alias}.json", f"lid-mapping-{alias}_reverse.json"):
                other = self._read(name) if len(found) < _MAX_ALIASES else None
                if other and other not in found:
                    found.append(other)
        return tuple(found)

    def people(self) -> Iterator[tuple[str, ...]]:
        """Yield the ids of every person that the files speak of, each person once."""
        seen: set[str] = set()
        for name in self._names():
            match = _FILE.fullmatch(name)
            if match and match[1] not in seen:
                aliases = self.aliases_of(match[1])
                seen.update(aliases)
                if len(aliases) > 1:
                    yield aliases

    def _names(self) -> list[str]:
        try:
            return sorted(path.name for path in self._directory.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            logger.warning("Cannot list %s: %s", self._directory, error.strerror)
            return []

    def _read(self, name: str) -> str | None:
        """Return the id in a file, or None when there is no such file or nothing usable in it."""
        if not _FILE.fullmatch(name):
            return None
        try:
            content = _content(self._directory / name)
            value = None if content is None else json.loads(content)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            logger.warning("Left out %s: it cannot be read (%s)", name, type(error).__name__)
            return None
        text = str(value) if isinstance(value, (str, int)) else ""
        alias = normalise_whatsapp(text)
        return alias if re.fullmatch(_ID, alias) else None


def _content(path: Path) -> bytes | None:
    # A link would lead elsewhere, and a pipe would never end: refused when opening, not before.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        content = file.read(_MAX_BYTES + 1)
    return content if len(content) <= _MAX_BYTES else None
