"""Log in with a token, with the saved device, or with a password, which creates a device."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from nio import AsyncClient
from peewee import PeeweeException

from hermes_sessions.gateway.platforms.matrix.device_folder import Device, DeviceFolder
from hermes_sessions.gateway.platforms.matrix.errors import checked, translated
from hermes_sessions.gateway.platforms.matrix.settings import MatrixSettings
from hermes_sessions.gateway.platforms.port import LoginRefused, Undeliverable
from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

_KEYS_PATH: Final = "/_matrix/client/v3/keys/query"


class BotIdentity(NamedTuple):
    """The account and the device of a session."""

    user_id: str
    #: None if the token has no device; then encryption is not possible.
    device_id: str | None


async def log_in(
    client: AsyncClient, settings: MatrixSettings, device_folder: DeviceFolder
) -> BotIdentity:
    """Log in and load the keys of the device.

    Raises:
        LoginRefused: the token, the password or the device is not usable.
        Unreachable, RateLimited
    """
    try:
        await asyncio.to_thread(device_folder.prepare)
        if settings.token:
            identity = await _log_in_by_token(client, settings.token)
            _require_same_user(settings, identity)
        else:
            identity = await _log_in_by_device_or_password(client, settings, device_folder)
        await _load_keys(client, device_folder, identity)
    except OSError as error:
        raise LoginRefused(
            f"The folder {device_folder.folder} for the keys of the account is not usable: {error}"
        ) from error
    return identity


async def try_login(
    client: AsyncClient, settings: MatrixSettings, device_folder: DeviceFolder
) -> BotIdentity:
    """Check whether a login is possible, without side effects here or on the homeserver.

    Raises:
        LoginRefused: the token, the password or the device is not usable.
        Unreachable, RateLimited
    """
    if not settings.token:
        found = await _log_in_by_password(client, settings, None)
        client.access_token = found.access_token
        with translated():
            checked(await client.logout())
        return BotIdentity(found.user_id, found.device_id)
    identity = await _log_in_by_token(client, settings.token)
    _require_same_user(settings, identity)
    if identity.device_id is not None:
        await _require_own_keys(client, device_folder, identity, identity.device_id)
    return identity


async def _log_in_by_token(client: AsyncClient, token: str) -> BotIdentity:
    client.access_token = token
    with translated():
        found = checked(await client.whoami())
    return BotIdentity(found.user_id, found.device_id or None)


async def _log_in_by_device_or_password(
    client: AsyncClient, settings: MatrixSettings, device_folder: DeviceFolder
) -> BotIdentity:
    kept = await asyncio.to_thread(device_folder.load_device)
    if kept and (kept.homeserver, kept.user_id) != (settings.homeserver, settings.user):
        kept = None
    if kept is not None:
        try:
            return await _log_in_by_token(client, kept.token)
        except LoginRefused:
            logger.info(
                "matrix: the login of device %s has ended; logging in again", kept.device_id
            )
    return await _log_in_as_device(
        client, settings, device_folder, kept.device_id if kept else None
    )


async def _log_in_as_device(
    client: AsyncClient,
    settings: MatrixSettings,
    device_folder: DeviceFolder,
    device_id: str | None,
) -> BotIdentity:
    """Log in as the saved device, whose keys stay valid, or as a new one."""
    found = await _log_in_by_password(client, settings, device_id)
    device = Device(settings.homeserver, found.user_id, found.device_id, found.access_token)
    await asyncio.to_thread(device_folder.save_device, device)
    return BotIdentity(found.user_id, found.device_id)


def _require_same_user(settings: MatrixSettings, identity: BotIdentity) -> None:
    if settings.user and settings.user != identity.user_id:
        raise LoginRefused(
            f"platforms.matrix.token belongs to {identity.user_id}, but platforms.matrix.user is "
            f"{settings.user}."
        )


async def _log_in_by_password(
    client: AsyncClient, settings: MatrixSettings, device_id: str | None
) -> Any:
    """Return the homeserver's account and device of the session."""
    asked: dict[str, Any] = {
        "type": "m.login.password",
        "identifier": {"type": "m.id.user", "user": settings.user},
        "password": settings.password,
        "initial_device_display_name": settings.device_name,
        **({"device_id": device_id} if device_id else {}),
    }
    client.access_token = ""
    # The library would load the keys on its own, before we know whether they exist.
    store_path, client.store_path = client.store_path, ""
    try:
        with translated():
            return checked(await client.login_raw(asked))
    except (LoginRefused, Undeliverable) as error:
        raise LoginRefused(
            f"The homeserver refused the login of {settings.user}: {error} Check "
            "platforms.matrix.password, and that the homeserver allows logins by password."
        ) from error
    finally:
        client.store_path = store_path


async def _load_keys(
    client: AsyncClient, device_folder: DeviceFolder, identity: BotIdentity
) -> None:
    if identity.device_id is None:
        logger.warning("matrix: the token has no device; encrypted rooms cannot be read")
        client.user_id = identity.user_id
        return
    if client.olm is not None:
        return
    keys = await _require_own_keys(client, device_folder, identity, identity.device_id)
    client.config = replace(client.config, store_name=keys.name)
    try:
        client.restore_login(identity.user_id, identity.device_id, client.access_token)
    except (PeeweeException, ValueError) as error:
        raise LoginRefused(
            f"The keys of the account cannot be read from {keys}: {error}. Restore the folder "
            "from a backup, or see docs/matrix.md for a new device."
        ) from error
    await asyncio.to_thread(device_folder.protect_keys)


async def _require_own_keys(
    client: AsyncClient, device_folder: DeviceFolder, identity: BotIdentity, device_id: str
) -> Path:
    """Return the path of a device's keys, existing or new."""
    keys = device_folder.keys_file(identity.user_id, device_id)
    if not keys.exists() and await _has_keys_elsewhere(client, identity):
        raise LoginRefused(
            f"The keys of device {device_id} of {identity.user_id} are not here: it belongs to "
            f"another program, or the folder {device_folder.folder} was lost. Messages in "
            "encrypted rooms would not be readable. Create a token only for the gateway: see "
            "docs/matrix.md."
        )
    return keys


async def _has_keys_elsewhere(client: AsyncClient, identity: BotIdentity) -> bool:
    body = {"device_keys": {identity.user_id: [identity.device_id]}}
    headers = {"Authorization": f"Bearer {client.access_token}"}
    with translated():
        answer = await client.send("POST", _KEYS_PATH, json.dumps(body), headers)
        async with answer:
            found = await answer.json()
        devices = found.get("device_keys", {}).get(identity.user_id, {})
    return identity.device_id in devices
