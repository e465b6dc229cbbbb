"""The state on disk, and errors of a homeserver."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.gateway.platforms.matrix.device_folder import Device, DeviceFolder, Undecrypted
from hermes_sessions.gateway.platforms.matrix.errors import refusal
from hermes_sessions.gateway.platforms.port import (
    LoginRefused,
    PlatformError,
    RateLimited,
    Undeliverable,
    Unreachable,
)

DEVICE = Device("https://x.org", "@a:x.org", "DEVICE", "token")
EVENT = Undecrypted("!r:x.org", {"sender": "@b:x.org", "content": {"session_id": "s"}})


@pytest.fixture
def device_folder(tmp_path: Path) -> DeviceFolder:
    return DeviceFolder(tmp_path / "gateway" / "matrix")


def test_everything_comes_back(device_folder: DeviceFolder) -> None:
    device_folder.save_device(DEVICE)
    device_folder.save_position("@a:x.org", "DEVICE", "s1")
    device_folder.save_undecrypted([EVENT])
    assert device_folder.load_device() == DEVICE
    assert device_folder.load_position("@a:x.org", "DEVICE") == "s1"
    assert device_folder.load_undecrypted() == [EVENT]
    device_folder.save_undecrypted([])
    assert device_folder.load_undecrypted() == []
    assert stat.S_IMODE(device_folder.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in device_folder.folder.iterdir()} == {0o600}
    assert "token" not in repr(DEVICE).replace("token=", "")


def test_a_position_belongs_to_a_device(device_folder: DeviceFolder) -> None:
    device_folder.save_position("@a:x.org", "DEVICE", "s1")
    assert device_folder.load_position("@a:x.org", "OTHER") is None
    assert device_folder.load_position("@b:x.org", "DEVICE") is None


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"\xff", b'{"events": 5}', b'{"events": [5, {"room_id": 5}]}']
)
def test_what_is_damaged_is_made_anew(device_folder: DeviceFolder, content: bytes) -> None:
    device_folder.prepare()
    for name in ("device.json", "position.json", "undecrypted.json"):
        (device_folder.folder / name).write_bytes(content)
    assert device_folder.load_device() is None
    assert device_folder.load_position("@a:x.org", "DEVICE") is None
    assert device_folder.load_undecrypted() == []


def test_keys_stay_in_the_folder(device_folder: DeviceFolder) -> None:
    """Whatever a homeserver calls a device."""
    for device_id in ("DEVICE", "../../x", "/etc/passwd", "a\0b"):
        assert device_folder.keys_file("@a/b:x.org", device_id).parent == device_folder.folder


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (429, "M_LIMIT_EXCEEDED", RateLimited),
        (429, None, RateLimited),
        (401, "M_UNKNOWN_TOKEN", LoginRefused),
        (403, "M_USER_DEACTIVATED", LoginRefused),
        (403, "M_FORBIDDEN", Undeliverable),
        (404, "M_NOT_FOUND", Undeliverable),
        (413, "M_TOO_LARGE", Undeliverable),
        (403, None, Unreachable),
        (502, None, Unreachable),
        (500, "M_UNKNOWN", Unreachable),
        (200, None, Unreachable),
        (None, None, Unreachable),
    ],
)
def test_what_a_refusal_means(status: int | None, code: str | None, kind: type) -> None:
    found = refusal(status, code, "words", None, {})
    assert type(found) is kind
    assert isinstance(found, PlatformError)


@pytest.mark.parametrize(
    ("milliseconds", "headers", "seconds"),
    [
        (1500, {}, 1.5),
        (0, {}, 0.0),
        (None, {"Retry-After": "7"}, 7.0),
        (None, {}, 5.0),
        (-1, {}, 5.0),
        ("x", {"Retry-After": "tomorrow"}, 5.0),
        (10**15, {}, 86_400.0),
    ],
)
def test_how_long_to_wait(milliseconds: Any, headers: dict[str, str], seconds: float) -> None:
    found = refusal(429, "M_LIMIT_EXCEEDED", "slow", milliseconds, headers)
    assert isinstance(found, RateLimited)
    assert found.retry_after == seconds
