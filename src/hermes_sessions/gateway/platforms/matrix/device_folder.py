"""The state on disk: the device, the sync position, and events that wait for their keys.

Everything is in one folder that only its owner can open, next to the keys of the device. The three
belong together: without the folder, the account needs a new device.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from hermes_sessions.gateway.platforms.matrix.identifiers import is_room_id, is_user_id
from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

_DEVICE: Final = "device.json"
_POSITION: Final = "position.json"
_UNDECRYPTED: Final = "undecrypted.json"


@dataclass(frozen=True, slots=True)
class Device:
    """A session of the account that was created with a password."""

    homeserver: str
    user_id: str
    device_id: str
    token: str = field(repr=False)


class Undecrypted(NamedTuple):
    """An event that waits for its key."""

    room_id: str
    event: Mapping[str, Any]

    @property
    def session_id(self) -> str:
        """The id of the key."""
        return str(self.event["content"].get("session_id"))


class DeviceFolder:
    """One folder. Its methods block, and must be called by one thread at a time.

    Raises:
        OSError: the disk is full, or the folder is not writable.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """Create the folder, accessible only to its owner."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)

    def keys_file(self, user_id: str, device_id: str) -> Path:
        """Return the path of a device's keys, in this folder whatever the ids contain."""
        return self.folder / f"{quote(f'{user_id}_{device_id}', safe='@:=+')}.db"

    def protect_keys(self) -> None:
        """Make the key file readable only to its owner, however the library created it."""
        for path in self.folder.glob("*.db*"):
            path.chmod(0o600)

    def load_device(self) -> Device | None:
        """Return the saved device."""
        try:
            return Device(**(self._load(_DEVICE) or {}))
        except TypeError:
            return None

    def save_device(self, device: Device) -> None:
        """Save the device; it is on disk when this returns."""
        self._save(_DEVICE, asdict(device))

    def load_position(self, user_id: str, device_id: str) -> str | None:
        """Return the saved sync position, None at the first start of a device."""
        found = self._load(_POSITION) or {}
        if (found.get("user_id"), found.get("device_id")) != (user_id, device_id):
            return None
        since = found.get("since")
        return since if isinstance(since, str) and since else None

    def save_position(self, user_id: str, device_id: str, since: str) -> None:
        """Save the sync position; it is on disk when this returns."""
        self._save(_POSITION, {"user_id": user_id, "device_id": device_id, "since": since})

    def load_undecrypted(self) -> list[Undecrypted]:
        """Return the events that wait for their keys, oldest first."""
        found = (self._load(_UNDECRYPTED) or {}).get("events")
        return [
            Undecrypted(each["room_id"], each["event"])
            for each in (found if isinstance(found, list) else [])
            if isinstance(each, dict) and _is_event(each)
        ]

    def save_undecrypted(self, events: Sequence[Undecrypted]) -> None:
        """Save the events that wait for their keys, replacing those saved before."""
        if events:
            self._save(_UNDECRYPTED, {"events": [each._asdict() for each in events]})
        else:
            (self.folder / _UNDECRYPTED).unlink(missing_ok=True)

    def _load(self, name: str) -> dict[str, Any] | None:
        try:
            found = json.loads((self.folder / name).read_bytes())
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            logger.warning("matrix: %s is not readable, and is created again: %r", name, error)
            return None
        return found if isinstance(found, dict) else None

    def _save(self, name: str, values: Mapping[str, Any]) -> None:
        """Replace a file atomically."""
        self.prepare()
        path = self.folder / name
        new = path.with_suffix(".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(values).encode())
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        folder = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _is_event(values: Mapping[str, Any]) -> bool:
    event = values.get("event")
    return (
        is_room_id(values.get("room_id"))
        and isinstance(event, dict)
        and is_user_id(event.get("sender"))
        and isinstance(event.get("content"), dict)
    )
