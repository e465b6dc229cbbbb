"""Selects the model: flags first, then environment variables, configuration, and the local model.

URL, key and name each come from the first source that has them, with exceptions for settings that
belong together. A key in the configuration is only sent to the URL in the configuration.
`OPENAI_API_KEY` and `OPENAI_MODEL`, which many shells set for other programs, yield to a key or
name from the source of the URL. A key in the environment without a URL is a key for OpenAI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from hermes_sessions.agent.clients.local_model import CONTEXT_LENGTH, LOCAL_MODEL, LocalClient
from hermes_sessions.agent.clients.port import ModelClient
from hermes_sessions.config.paths import process_environment
from hermes_sessions.config.settings import ModelSettings
from hermes_sessions.errors import ConfigError

if TYPE_CHECKING:
    from hermes_sessions.agent.pricing import Pricing

OPENAI_URL: Final = "https://api.openai.com/v1"
#: The default model at OpenAI.
OPENAI_MODEL: Final = "gpt-5-mini"
#: Names of the local model.
LOCAL_NAMES: Final = frozenset({"local", LOCAL_MODEL})

HOW_TO_CHANGE_MODEL: Final = (
    "Set HERMES_BASE_URL, HERMES_API_KEY and HERMES_MODEL, or base_url, api_key and default under "
    "model in config.yaml."
)


@dataclass(frozen=True, slots=True)
class _ModelSource:
    """The settings of one source."""

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    model: str | None = None


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """The selected model. ``base_url`` is None for the local one."""

    settings: ModelSettings
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    model: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether it runs in this process."""
        return self.base_url is None

    @property
    def context_length(self) -> int | None:
        """The context length in tokens: as configured, else from the catalogue, else None."""
        if self.base_url is None:
            return CONTEXT_LENGTH
        if self.settings.context_length is not None or self.model is None:
            return self.settings.context_length
        from hermes_sessions.agent.model_catalogue import provider_at

        provider = provider_at(self.base_url)
        return provider.context_length(self.model) if provider else None

    @property
    def pricing(self) -> Pricing:
        """The prices of its calls."""
        from hermes_sessions.agent.pricing import Pricing

        if self.base_url is None:
            return Pricing(is_local=True)
        return Pricing(_without_login(self.base_url), self.settings.prices)

    @property
    def description(self) -> str:
        """One line for users: the model, and how to use another one."""
        if self.base_url is None:
            return f"{LOCAL_MODEL}, a tiny local model. For a better one, set HERMES_BASE_URL."
        host = urlsplit(self.base_url).netloc.rpartition("@")[2]
        return f"{self.model or 'The model'} at {host}. For another one, set HERMES_MODEL."

    def open(self) -> ModelClient:
        """Return a client of the model; nothing is sent or loaded yet.

        Raises ConfigError if the URL or the key is not valid, or a package is missing.
        """
        if self.base_url is None:
            return LocalClient()
        from hermes_sessions.agent.clients.openai_compatible import (
            OpenAICompatibleClient,
            Timeouts,
        )

        settings = self.settings
        try:
            return OpenAICompatibleClient(
                self.base_url,
                api_key=self.api_key,
                model=self.model,
                patience=Timeouts(
                    connect=settings.connect_timeout,
                    first_byte=settings.first_byte_timeout,
                    piece=settings.piece_timeout,
                    retry=settings.retry_time,
                ),
            )
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"Using a model over the network needs the package {error.name}. Install "
                f"hermes-sessions[chat]."
            ) from error


def choose_model(
    settings: ModelSettings,
    *,
    base_url: str | None = None,
    model: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> ChosenModel:
    """Return the selected model. ``base_url`` and ``model`` are the flags; no I/O.

    Raises ConfigError if a model is named but no URL is known for it.
    """
    variables = process_environment() if environ is None else environ
    flags = _ModelSource(base_url or None, None, model or None)
    hermes = _variables(variables, "HERMES")
    openai = _variables(variables, "OPENAI")
    file = _ModelSource(settings.base_url, settings.api_key, settings.default)
    sources = (flags, hermes, openai, file)

    beside = next((source for source in sources if source.base_url), None)
    address = beside.base_url if beside else None
    if beside is None:
        beside = next((source for source in (hermes, openai) if source.api_key), None)
        address = OPENAI_URL if beside else None

    named_by = _first_with_model(flags, hermes, beside, openai, file)
    name = named_by.model if named_by else None
    if name in LOCAL_NAMES and named_by is not None and named_by.base_url is None:
        if not _has_priority(beside, named_by, sources):
            return ChosenModel(settings)
        name = None  # a source of higher priority has set the URL
    if address is None:
        # A name alone in OPENAI_MODEL or in the file may be for another program.
        if file.api_key or named_by is flags or named_by is hermes:
            asked = f' for the model "{name}"' if name else " to send the key to"
            raise ConfigError(
                f"There is no URL{asked}. Set HERMES_BASE_URL (and HERMES_API_KEY), or "
                f"model.base_url in config.yaml, like {OPENAI_URL}; or use the model `local`."
            )
        return ChosenModel(settings)
    if name is None and address == OPENAI_URL:
        name = OPENAI_MODEL
    return ChosenModel(settings, address, _key(hermes, beside, openai, file, address), name)


def _variables(environ: Mapping[str, str], prefix: str) -> _ModelSource:
    values = (
        environ.get(f"{prefix}_{name}", "").strip() for name in ("BASE_URL", "API_KEY", "MODEL")
    )
    return _ModelSource(*(value or None for value in values))


def _first_with_model(*sources: _ModelSource | None) -> _ModelSource | None:
    return next((source for source in sources if source is not None and source.model), None)


def _has_priority(
    beside: _ModelSource | None, named_by: _ModelSource, sources: tuple[_ModelSource, ...]
) -> bool:
    """Tell whether the URL comes from a source of higher priority than the name."""
    if beside is None or beside.base_url is None:
        return False
    order = [id(source) for source in sources]
    return order.index(id(beside)) < order.index(id(named_by))


def _key(
    hermes: _ModelSource,
    beside: _ModelSource | None,
    openai: _ModelSource,
    file: _ModelSource,
    address: str,
) -> str | None:
    if hermes.api_key or (beside and beside.api_key):
        return hermes.api_key or (beside.api_key if beside else None)
    if file.base_url is None:
        return openai.api_key or file.api_key
    is_same = _origin(file.base_url) == _origin(address)
    return (file.api_key if is_same else None) or openai.api_key


def _without_login(address: str) -> str:
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


def _origin(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return parts.scheme.lower(), parts.netloc.lower()
