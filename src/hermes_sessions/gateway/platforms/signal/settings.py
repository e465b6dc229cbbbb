"""``platforms.signal``: the keys that only Signal has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from hermes_sessions.config.key_types import REQUIRED, NotAllowed, ParseContext, Text, YesNo
from hermes_sessions.config.sections import SettingsSection, setting
from hermes_sessions.gateway.platforms.settings import max_file_bytes
from hermes_sessions.gateway.platforms.signal.rpc import DaemonAddress
from hermes_sessions.gateway.platforms.spec import Ask

DEFAULT_ADDRESS: Final = DaemonAddress("127.0.0.1", 7583)

_NUMBER: Final = re.compile(r"\+[1-9][0-9]{4,14}")
_PRETTY: Final = re.compile(r"[\s()/.-]")
_TCP: Final = re.compile(r"(?:tcp:(?://)?)?(?:\[([^\]\s]+)\]|([^\s:/]+)):([0-9]{1,5})")


class _PhoneNumber(Text):
    allowed = "a phone number that begins with + and the country code, in quotes: '+4917612345678'"

    def parse(self, text: str, _context: ParseContext) -> str | None:
        """Return the number without spaces and punctuation, or raise NotAllowed."""
        number = _PRETTY.sub("", text)
        if number and not _NUMBER.fullmatch(number):
            raise NotAllowed
        return number or None


class _DaemonAddress:
    allowed = (
        f"host:port, like {DEFAULT_ADDRESS}, or unix: and the path of a socket: the value of "
        f"signal-cli's --tcp or --socket"
    )

    def parse(self, text: str, context: ParseContext) -> DaemonAddress | None:
        """Return the address, or raise NotAllowed; a relative path starts at the home."""
        value = text.strip()
        if not value:
            return None
        if value.startswith(("unix:", "/", "~")):
            path = Path(value.removeprefix("unix:").removeprefix("//")).expanduser()
            return DaemonAddress(path=context.home / path)
        found = _TCP.fullmatch(value)
        if found is None or not 0 < int(found[3]) < 65536:
            raise NotAllowed
        return DaemonAddress(found[1] or found[2], int(found[3]))

    def show(self, value: object) -> str:
        """Return the address as it is written."""
        return str(value)


class SignalSettings(SettingsSection, shared=True):
    """The account, and the daemon that has it."""

    account: str = setting(
        REQUIRED,
        kind=_PhoneNumber(),
        doc="The number that is registered with signal-cli, with `+` and in quotes.",
        ask=Ask(name="Number", help="The number that is registered, like +4917612345678."),
    )
    address: DaemonAddress = setting(
        DEFAULT_ADDRESS,
        kind=_DaemonAddress(),
        doc="Where the signal-cli daemon listens: the value of `--tcp`, or `unix:` and that of "
        "`--socket`.",
        ask=Ask(
            name="Daemon",
            help="The value of signal-cli's --tcp, or unix: and the value of its --socket.",
        ),
    )
    require_mention: bool = setting(
        True,
        kind=YesNo(),
        doc="In groups, the agent answers only commands, mentions and replies to the account.",
    )
    max_file_bytes: int = max_file_bytes(at_most=100 * 1024**2)
