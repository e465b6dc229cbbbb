"""The URL and the API key of an endpoint: validated once, and never shown with the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit, urlunsplit

from hermes_sessions.agent.clients.port import ModelError, ModelRefused, ModelUnavailable
from hermes_sessions.config.error_text import shown
from hermes_sessions.errors import ConfigError

if TYPE_CHECKING:
    import httpx

#: Shorter keys are placeholders like ``none`` or ``x``, which must not be redacted in messages.
_SHORTEST_SECRET = 8
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class EndpointAddress:
    """The URL of an endpoint, and its API key."""

    def __init__(self, base_url: str, api_key: str | None) -> None:
        """Validate both.

        Raises ConfigError, which never shows the key.
        """
        self._parts = _checked(base_url)
        self._key = (api_key or "").strip()
        if not all(0x21 <= ord(character) <= 0x7E for character in self._key):
            raise ConfigError(
                "The API key of the model contains blanks or other invalid characters. Correct "
                "HERMES_API_KEY, OPENAI_API_KEY or model.api_key."
            )

    @property
    def shown(self) -> str:
        """Host and port, for messages."""
        host = self._parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        return host if self._parts.port is None else f"{host}:{self._parts.port}"

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of every request."""
        headers = {
            "Accept": "text/event-stream, application/json",
            # Servers that compress hold pieces back.
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": "hermes-sessions",
        }
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        return headers

    def url(self, path: str) -> str:
        """Return the URL of a path at the endpoint."""
        return urlunsplit(self._parts._replace(path=f"{self._parts.path}/{path}"))

    def open_http(self) -> httpx.Client:
        """Return an HTTP client without shared connections, and without a proxy for localhost."""
        import httpx

        return httpx.Client(
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=self._parts.hostname not in _LOOPBACK,
        )

    def unreachable(self, error: Exception) -> ModelError:
        """Return the error for a request that did not reach the endpoint."""
        import ssl

        import httpx

        if _is_caused_by(error, ssl.SSLCertVerificationError):
            return ModelRefused(
                f"The TLS certificate of {self.shown} is not trusted. If the server is yours, set "
                f"SSL_CERT_FILE to its certificate authority; otherwise do not send your key there."
            )
        if isinstance(error, httpx.ConnectTimeout):
            reason = "connection timed out (model.connect_timeout)"
        elif isinstance(error, httpx.ConnectError):
            reason = "connection failed"
        else:
            reason = "connection lost"
        system = _system_error(error)
        detail = f": {system}" if system else ""
        return ModelUnavailable(
            f"Cannot reach {self.shown}: {reason}{detail}. Check HERMES_BASE_URL or "
            f"model.base_url, and your network."
        )

    def redact(self, text: str) -> str:
        """Return ``text`` with the key redacted; short placeholders are not keys."""
        return text.replace(self._key, "…") if len(self._key) >= _SHORTEST_SECRET else text


def _checked(base_url: str) -> SplitResult:
    wrong = ConfigError(
        f'The URL of the model, "{shown(base_url)}", is not a valid URL. Examples: '
        f"https://host/v1, http://localhost:8080/v1. Correct --base-url, HERMES_BASE_URL, "
        f"OPENAI_BASE_URL or model.base_url."
    )
    text = base_url.strip()
    if not text.isprintable() or " " in text:
        raise wrong
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise wrong
    # People copy the full URL of the API call.
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    return parts._replace(path=path, fragment="")


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _is_caused_by(error: BaseException, kind: type[BaseException]) -> bool:
    return any(isinstance(cause, kind) for cause in _causes(error))


def _system_error(error: BaseException) -> str | None:
    """Return the operating system's message, which contains nothing of the request."""
    return next((cause.strerror for cause in _causes(error) if isinstance(cause, OSError)), None)
