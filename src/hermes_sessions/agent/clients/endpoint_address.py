"""Where an endpoint is and which key it gets: checked once, and never shown with the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit, urlunsplit

from hermes_sessions.agent.clients.port import ModelError, ModelRefused, ModelUnavailable
from hermes_sessions.config.error_text import shown
from hermes_sessions.errors import ConfigError

if TYPE_CHECKING:
    import httpx

#: Servers that want no key get ``none`` or ``x``, which would blot out half of a message.
_SHORTEST_SECRET = 8
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class EndpointAddress:
    """The address of an endpoint, and its key."""

    def __init__(self, base_url: str, api_key: str | None) -> None:
        """Check both.

        Raises ConfigError, which never shows the key.
        """
        self._parts = _checked(base_url)
        self._key = (api_key or "").strip()
        if not all(0x21 <= ord(character) <= 0x7E for character in self._key):
            raise ConfigError(
                "The key of the model contains blanks or characters that no key has. Correct "
                "HERMES_API_KEY, OPENAI_API_KEY or model.api_key."
            )

    @property
    def shown(self) -> str:
        """Host and port, for people."""
        host = self._parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        return host if self._parts.port is None else f"{host}:{self._parts.port}"

    @property
    def headers(self) -> Mapping[str, str]:
        """What every request carries."""
        headers = {
            "Accept": "text/event-stream, application/json",
            # Compressing servers hold pieces back.
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": "hermes-sessions",
        }
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        return headers

    def url(self, path: str) -> str:
        """Return the address of something at the endpoint."""
        return urlunsplit(self._parts._replace(path=f"{self._parts.path}/{path}"))

    def open_http(self) -> httpx.Client:
        """Return what sends requests: no shared connections, and no proxy to this machine."""
        import httpx

        return httpx.Client(
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=self._parts.hostname not in _LOOPBACK,
        )

    def unreachable(self, error: Exception) -> ModelError:
        """Return what it means that no request came through."""
        import ssl

        import httpx

        if _is_caused_by(error, ssl.SSLCertVerificationError):
            return ModelRefused(
                f"The certificate of {self.shown} is not trusted. If it is your own, name its "
                f"authority in SSL_CERT_FILE; otherwise do not send your key there."
            )
        if isinstance(error, httpx.ConnectTimeout):
            reason = "no connection in time (model.connect_timeout)"
        elif isinstance(error, httpx.ConnectError):
            reason = "no connection"
        else:
            reason = "the connection broke"
        system = _system_error(error)
        detail = f": {system}" if system else ""
        return ModelUnavailable(
            f"{self.shown} cannot be reached: {reason}{detail}. Is the address in HERMES_BASE_URL "
            f"or model.base_url right, and the network up?"
        )

    def without_key(self, text: str) -> str:
        """Return ``text`` with the key blotted out; what is shorter than a key is a word."""
        return text.replace(self._key, "…") if len(self._key) >= _SHORTEST_SECRET else text


def _checked(base_url: str) -> SplitResult:
    wrong = ConfigError(
        f'The address of the model, "{shown(base_url)}", is none. It looks like '
        f"https://host/v1 or http://localhost:8080/v1. Correct --base-url, HERMES_BASE_URL, "
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
    # People copy the address of the call itself.
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
    """Return what the system says, which holds nothing of the request."""
    return next((cause.strerror for cause in _causes(error) if isinstance(cause, OSError)), None)
