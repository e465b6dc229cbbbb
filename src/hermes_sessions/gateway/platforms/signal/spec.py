"""Signal: settings, adapter and set-up."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.signal.adapter import SignalAdapter
from hermes_sessions.gateway.platforms.signal.client import SignalClient
from hermes_sessions.gateway.platforms.signal.journal import Journal
from hermes_sessions.gateway.platforms.signal.settings import DEFAULT_ADDRESS, SignalSettings
from hermes_sessions.gateway.platforms.spec import PlatformSpec, SetupResult

#: In the gateway's directory; `hermes forget` erases from files with this ending.
JOURNAL_NAME: Final = "signal-received.jsonl"


def make_adapter(own: SignalSettings, _section: PlatformSettings, home: Path) -> SignalAdapter:
    """Return an adapter, not yet connected."""
    return SignalAdapter(own, journal=Journal(home / JOURNAL_NAME))


def validate(_own: SignalSettings, section: PlatformSettings) -> None:
    """Check that the daemon is not to be used over HTTP.

    Raises:
        ConfigError: only ``http_url`` is set, which other programs use.
    """
    if section.extra.get("http_url") and not section.extra.get("address"):
        raise ConfigError(
            f"platforms.signal.http_url cannot be used: over HTTP, signal-cli drops messages that "
            f"no client receives. Start it with --tcp {DEFAULT_ADDRESS} instead and set "
            f"platforms.signal.address: see docs/signal.md."
        )


async def check(own: SignalSettings, _home: Path) -> SetupResult:
    """Ask the daemon for its version and for the account; nothing is received."""
    daemon = SignalClient(own)
    try:
        subscription = await daemon.subscription(lambda _name, _values: None, lambda _why: None)
        await subscription.close()
        version = await daemon.version()
    finally:
        await daemon.close()
    return SetupResult(f"{own.account}, with signal-cli {version}".rstrip())


SPEC: Final = PlatformSpec(
    name="signal",
    title="Signal",
    settings=SignalSettings,
    make_adapter=make_adapter,
    check=check,
    validate=validate,
    before_setup=(
        "Register a number with signal-cli, and start its daemon as in docs/signal.md:\n"
        f"signal-cli -a NUMBER daemon --tcp {DEFAULT_ADDRESS} --receive-mode manual "
        "--no-receive-stdout"
    ),
    user_id_help="Numbers, like +4915112345678, or UUIDs.",
    home_channel_help="A user's number or UUID, or the id of a group (signal-cli listGroups).",
)
