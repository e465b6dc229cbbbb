"""How Signal is set up: the account, and the daemon that has it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.signal.adapter import SignalAdapter
from hermes_sessions.gateway.platforms.signal.client import SignalClient
from hermes_sessions.gateway.platforms.signal.journal import Journal
from hermes_sessions.gateway.platforms.signal.settings import DEFAULT_ADDRESS, SignalSettings
from hermes_sessions.gateway.platforms.spec import Question, Setup, SetupResult

# Signal's adapter, made of its section in the configuration.


JOURNAL_NAME = "signal-received.jsonl"


def make_adapter(settings: PlatformSettings, home: Path) -> SignalAdapter:
    """Return an adapter, not yet connected.

    Raises:
        ConfigError: something is missing or not allowed.
    """
    return SignalAdapter(
        SignalSettings.read(settings.extra, home), journal=Journal(home / JOURNAL_NAME)
    )


def read(settings: PlatformSettings, home: Path) -> SignalSettings:
    """Return what is configured.

    Raises:
        ConfigError: it cannot be right.
    """
    return SignalSettings.read(settings.extra, home)


async def check(settings: PlatformSettings, home: Path) -> SetupResult:
    """Ask the daemon for its version and for the account; nothing is received.

    Raises:
        ConfigError, LoginRefused, Unreachable
    """
    own = read(settings, home)
    daemon = SignalClient(own)
    try:
        subscription = await daemon.subscription(lambda _name, _values: None, lambda _why: None)
        await subscription.close()
        version = await daemon.version()
    finally:
        await daemon.close()
    return SetupResult(f"{own.account}, with signal-cli {version}".rstrip())


SETUP: Final = Setup(
    title="Signal",
    before=(
        "Register a number with signal-cli, and start its daemon as in docs/signal.md:\n"
        f"signal-cli -a NUMBER daemon --tcp {DEFAULT_ADDRESS} --receive-mode manual "
        "--no-receive-stdout"
    ),
    questions=(
        Question("account", "Number", "The number that is registered, as +4917612345678."),
        Question(
            "address",
            "Daemon",
            "What signal-cli was given as --tcp, or unix: and what it was given as --socket.",
            default=str(DEFAULT_ADDRESS),
        ),
    ),
    read=read,
    check=check,
    people="Numbers, as +4915112345678, or UUIDs.",
    home="Somebody's number or UUID, or the id of a group (signal-cli listGroups).",
)
