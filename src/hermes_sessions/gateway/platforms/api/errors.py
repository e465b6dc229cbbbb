"""Errors of requests in the format of OpenAI's API, which its clients understand."""

from __future__ import annotations

from typing import Any, Final

#: ``type`` of an error by its status, as in OpenAI's API.
_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


class ApiError(Exception):
    """A request that fails; the message is for the developer of the client."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        is_stored: bool = False,
    ) -> None:
        """With *is_stored*, the message was accepted: the client must not send it again."""
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.is_stored = is_stored
        super().__init__(message)

    def as_json(self) -> dict[str, Any]:
        """Return the body of the response."""
        kind = _TYPES.get(self.status)
        if kind is None:
            kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {
            "message": self.message,
            "type": kind,
            "param": self.param,
            "code": self.code,
        }
        return {"error": error}

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the response."""
        headers: dict[str, str] = {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if self.status in {408, 413}:
            # The rest of the request is not read.
            headers["Connection"] = "close"
        if self.is_stored:
            # OpenAI's clients retry after most errors unless this header forbids it.
            headers["X-Should-Retry"] = "false"
        return headers
