"""A real Synapse on the loopback address, one for all processes of a test run.

It knows no other servers, stores in SQLite in the temporary directory, and limits nobody. Accounts
are made with its shared secret, over HTTP.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import yaml

from tests.servers.server_processes import free_port

SERVER_NAME = "hermes.test"
_SECRET = "only-for-tests"
#: A guard against hanging: it takes five seconds, and more on a machine that does other things.
_START_SECONDS = 180.0
_KEEPER = Path(__file__).with_name("shared_synapse.py")
_RATES = (
    "rc_message",
    "rc_registration",
    "rc_admin_redaction",
    "rc_third_party_invite",
    "rc_room_creation",
    "rc_key_requests",
    "rc_presence",
)
_UNLIMITED = {"per_second": 10_000, "burst_count": 10_000}


class Account(NamedTuple):
    """Somebody on the server, logged in."""

    user_id: str
    password: str
    token: str
    device_id: str


class Synapse:
    """A server that runs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, timeout=60)

    def close(self) -> None:
        self._http.close()

    def register(self, prefix: str, display_name: str | None = None) -> Account:
        """Make an account with a name that nobody has."""
        name = f"{prefix}-{secrets.token_hex(6)}"
        password = secrets.token_hex(8)
        nonce = self.ask("GET", "/_synapse/admin/v1/register")["nonce"]
        signed = f"{nonce}\0{name}\0{password}\0notadmin"
        mac = hmac.new(_SECRET.encode(), signed.encode(), hashlib.sha1).hexdigest()
        made = self.ask(
            "POST",
            "/_synapse/admin/v1/register",
            {
                "nonce": nonce,
                "username": name,
                "password": password,
                "admin": False,
                "mac": mac,
                "displayname": display_name or prefix.title(),
            },
        )
        return Account(made["user_id"], password, made["access_token"], made["device_id"])

    def log_in(self, account: Account) -> Account:
        """Return the same account on a new device."""
        login = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": account.user_id},
            "password": account.password,
        }
        made = self.ask("POST", "/_matrix/client/v3/login", login)
        return account._replace(token=made["access_token"], device_id=made["device_id"])

    def log_out(self, token: str) -> None:
        """End a login, with its device, if it has not ended."""
        headers = {"Authorization": f"Bearer {token}"}
        self._http.post("/_matrix/client/v3/logout", headers=headers, json={})

    def ask(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> Any:
        """Make a request that must succeed."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = self._http.request(method, path, json=body, headers=headers)
        assert answer.status_code < 300, (method, path, answer.text)
        return answer.json()


@contextmanager
def running_synapse(folder: Path) -> Iterator[Synapse]:
    """Use the server of *folder*, which processes share; start it if nobody has."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "users").open("a") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        with (folder / "starting").open("a") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            address = folder / "address"
            if not address.exists():
                url = _start(folder)
                address.write_text(url)
        server = Synapse(address.read_text())
        try:
            yield server
        finally:
            server.close()


def _start(folder: Path) -> str:
    port = free_port()
    _configure(folder, port)
    keeper = subprocess.Popen(
        [sys.executable, str(_KEEPER), str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    url = f"http://127.0.0.1:{port}"
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            httpx.get(f"{url}/_matrix/client/versions", timeout=5).raise_for_status()
        except httpx.HTTPError:
            if keeper.poll() is not None or time.monotonic() > until:
                log = (folder / "log").read_text(errors="replace")
                raise AssertionError(f"Synapse did not start:\n{log[-4000:]}") from None
            time.sleep(0.05)
        else:
            # It outlives this process, if others use it.
            keeper.returncode = 0
            return url


def _configure(folder: Path, port: int) -> None:
    seed = base64.b64encode(secrets.token_bytes(32)).decode().rstrip("=")
    (folder / "signing.key").write_text(f"ed25519 a_test {seed}\n")
    (folder / "log.yaml").write_text(
        json.dumps({"version": 1, "root": {"level": "ERROR"}, "disable_existing_loggers": False})
    )
    config: dict[str, Any] = {
        "server_name": SERVER_NAME,
        "pid_file": str(folder / "pid"),
        "listeners": [
            {
                "port": port,
                "type": "http",
                "bind_addresses": ["127.0.0.1"],
                "resources": [{"names": ["client"], "compress": False}],
            }
        ],
        "database": {"name": "sqlite3", "args": {"database": str(folder / "homeserver.db")}},
        "log_config": str(folder / "log.yaml"),
        "media_store_path": str(folder / "media"),
        "signing_key_path": str(folder / "signing.key"),
        "registration_shared_secret": _SECRET,
        "macaroon_secret_key": _SECRET,
        "form_secret": _SECRET,
        "report_stats": False,
        "trusted_key_servers": [],
        "suppress_key_server_warning": True,
        "federation_domain_whitelist": [],
        "presence": {"enabled": False},
        "bcrypt_rounds": 4,
        **dict.fromkeys(_RATES, _UNLIMITED),
        "rc_login": dict.fromkeys(("address", "account", "failed_attempts"), _UNLIMITED),
        "rc_joins": dict.fromkeys(("local", "remote"), _UNLIMITED),
        "rc_joins_per_room": _UNLIMITED,
        "rc_invites": dict.fromkeys(("per_room", "per_user", "per_issuer"), _UNLIMITED),
    }
    (folder / "server.yaml").write_text(yaml.safe_dump(config))
