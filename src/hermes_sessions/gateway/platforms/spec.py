"""What a messenger declares: one `PlatformSpec`, which everything about it is derived from.

A built-in platform has it as ``SPEC`` in ``platforms/<name>/spec.py``. Another package names it in
the entry point ``hermes_sessions.platforms``; see docs/platforms.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from hermes_sessions.config.gateway_config import platform_of_section
from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.config.key_types import REQUIRED, Key
from hermes_sessions.config.sections import S
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.port import Adapter
from hermes_sessions.gateway.platforms.settings import read_settings

#: The answers so far, by key.
Answers = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """How ``hermes gateway setup`` asks for a setting: ``setting(…, ask=Ask(…))``."""

    #: The prompt.
    name: str
    #: Where to find the value; may have several lines. Default: the doc of the setting.
    help: str | None = None
    #: For a secret: the variable that holds it, while the file says ``${VARIABLE}``.
    variable: str | None = None
    #: Generates a value when the user has none.
    make: Callable[[], str] | None = None
    #: Whether an answer is needed although the setting has a default.
    is_needed: bool = False
    #: Whether to ask, given the answers so far.
    when: Callable[[Answers], bool] = lambda _answers: True


@dataclass(frozen=True, slots=True)
class Question:
    """A setting and how to ask for it; derived from the field."""

    key: str
    ask: Ask
    help: str
    #: The value without an answer; it is not written.
    default: str | None
    #: Whether an empty answer is accepted.
    is_optional: bool

    @property
    def name(self) -> str:
        """The prompt."""
        return self.ask.name

    @property
    def is_secret(self) -> bool:
        """Whether the answer is typed without being shown."""
        return self.ask.variable is not None


@dataclass(frozen=True, slots=True)
class SetupResult:
    """What a check found."""

    #: The bot's identity on the platform, as users see it.
    who: str
    #: Remaining steps and hints; a line each.
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformSpec(Generic[S]):
    """One messenger: its settings, its adapter and its set-up."""

    #: The section under ``platforms``.
    name: str
    #: As users write it.
    title: str
    #: Its own settings; ``token`` is among them if it has one.
    settings: type[S]
    #: Makes an adapter, not yet connected, of its own settings and its whole section; the path is
    #: the gateway's directory.
    make_adapter: Callable[[S, PlatformSettings, Path], Adapter]
    #: Logs in to the platform and changes nothing. Raises LoginRefused or ConfigError when the
    #: settings are wrong, and Unreachable or RateLimited when that cannot be determined.
    check: Callable[[S, Path], Awaitable[SetupResult]]
    #: Steps to take before the questions can be answered.
    before_setup: str
    #: Checks settings that depend on each other. Raises ConfigError.
    validate: Callable[[S, PlatformSettings], None] = lambda _own, _section: None
    #: How to find the ids of users; None where users are not listed.
    user_id_help: str | None = None
    #: How to find the id of a chat; None where the agent cannot start a chat.
    home_channel_help: str | None = None
    #: Whether the model can do without raw ids, so that ``privacy.redact_pii`` may hide them. Not
    #: where users are mentioned by id. Only for platforms of other packages.
    hides_ids: bool = False

    @property
    def questions(self) -> tuple[Question, ...]:
        """The settings that the set-up asks for."""
        fields = self.settings.fields.items()
        return tuple(
            _question(name, field, field.ask)
            for name, field in fields
            if isinstance(field, Key) and isinstance(field.ask, Ask)
        )

    def read(self, section: PlatformSettings, home: Path) -> S:
        """Return the platform's own settings, validated; *home* is the gateway's directory.

        Raises:
            ConfigError: something is missing, misspelt or not allowed.
        """
        values = dict(section.extra)
        for name in ("token", "api_key"):
            if name in self.settings.fields:
                values[name] = getattr(section, name)
        own = read_settings(self.settings, f"platforms.{self.name}", values, home)
        self.validate(own, section)
        return own

    def build(self, section: PlatformSettings, home: Path) -> Adapter:
        """Return an adapter, not yet connected.

        Raises:
            ConfigError: something is missing, misspelt or not allowed.
        """
        adapter = self.make_adapter(self.read(section, home), section, home)
        if adapter.name != platform_of_section(self.name):
            raise ConfigError(
                f"platforms.{self.name}: the adapter is named {adapter.name!r}; its name must be "
                f"that of its PlatformSpec."
            )
        return adapter


def _question(key: str, field: Key, ask: Ask) -> Question:
    has_default = field.default is not REQUIRED and field.default is not None
    return Question(
        key,
        ask,
        ask.help or field.doc,
        field.kind.show(field.default) if has_default else None,
        field.default is None and not ask.is_needed,
    )
