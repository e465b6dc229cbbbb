"""Classifies the errors of endpoints: retry, shorten the history, or change a setting. No I/O.

Providers agree on statuses, rarely on codes, and never on wording. A history that is too long is
therefore recognised by the phrases that common servers use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from hermes_sessions.agent.clients.port import ModelError, ModelRefused, ModelUnavailable

# ── retries ───────────────────────────────────────────────────────────────────────────────────
# There are at most `MAX_ATTEMPTS` attempts, and none starts later than the configured time after
# the first.


MAX_ATTEMPTS: Final = 5


_FIRST_WAIT: Final = 0.5


_LONGEST_WAIT: Final = 8.0


def retry_delay(
    attempt: int,
    *,
    elapsed: float,
    bound: float,
    retry_after: float | None,
    random: Callable[[], float],
) -> float | None:
    """Return the seconds to wait before ``attempt`` (the second is 2), or None to give up.

    A delay that the endpoint asks for is respected. Otherwise the delay doubles, and a random half
    of it keeps many clients from retrying at the same moment.
    """
    if attempt > MAX_ATTEMPTS:
        return None
    if retry_after is None:
        longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (attempt - 2))
        wait = longest * (0.5 + random() / 2)
    else:
        wait = retry_after
    return wait if elapsed + wait <= bound else None


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the delay in seconds that an answer asks for, or None."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or not text:
        return seconds
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.fromtimestamp(now, UTC)).total_seconds())


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


#: Statuses after which the same request may succeed soon.
RETRYABLE_STATUSES = frozenset({408, 409, 425, 429, *range(500, 600)}) - {501, 505}

_MAX_SHOWN = 300

_TOO_LONG_CODES = frozenset(
    {
        "context_length_exceeded",
        "exceed_context_size_error",
        "model_max_prompt_tokens_exceeded",
        "request_too_large",
        "string_above_max_length",
    }
)
_TOO_LONG = re.compile(
    r"""
      context[ _-]?(?:length|window|size|limit)
    | maximum\ (?:prompt|input|context|sequence)\ length
    | max_model_len
    | (?:prompt|input|request|messages?|conversation)(?:\ \w+){0,2}\ (?:is|are)\ too\ (?:long|large)
    | too\ (?:many\ (?:input\ )?tokens|large\ for\ model)
    | reduce\ the\ (?:length|size|number\ of\ tokens)
    | (?:prompt|input)\ tokens?\b.*\bexceed
    | tokens?\ (?:count\ )?.{0,60}\bexceeds?\b.{0,40}\b(?:maximum|limit|allowed)
    | exceeded\ model\ token\ limit
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
#: A 429 that waiting does not help.
_SPENT = re.compile(
    r"insufficient_quota|exceeded your current quota|credit balance|billing", re.IGNORECASE
)


def error_from_response(status: int, body: bytes | str) -> ModelError:
    """Return the error for an answer with this status and body."""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    codes, message = _codes_and_message(value)
    return _failure(status, codes, message or (text if "<" not in text[:200] else ""))


def error_in_chunk(chunk: Mapping[str, Any]) -> ModelError | None:
    """Return the error in a chunk of a reply, or None."""
    if not chunk.get("error"):
        return None
    codes, message = _codes_and_message(chunk)
    status = next((int(code) for code in codes if re.fullmatch(r"[45]\d\d", code)), 0)
    if not status:
        # Errors within an answer are outages unless they say otherwise.
        refused = re.search(r"invalid|not_found|authentication|permission", " ".join(codes))
        status = 400 if refused else 503
    return _failure(status, codes, message)


def is_too_long(codes: frozenset[str], message: str) -> bool:
    """Tell whether a shorter history would be accepted."""
    return bool(codes & _TOO_LONG_CODES or _TOO_LONG.search(message))


def is_retryable(status: int, body: bytes) -> bool:
    """Tell whether a request that failed like this should be retried."""
    return status in RETRYABLE_STATUSES and isinstance(
        error_from_response(status, body), ModelUnavailable
    )


def shortened(text: str) -> str:
    """Return foreign text for a message: one line, printable, shortened."""
    line = " ".join(text.split())
    line = "".join(character if character.isprintable() else "?" for character in line)
    return line if len(line) <= _MAX_SHOWN else line[: _MAX_SHOWN - 1] + "…"


def _codes_and_message(value: object) -> tuple[frozenset[str], str]:
    """Return the codes and the message of an error in any of the usual shapes."""
    if isinstance(value, list) and value:  # Gemini wraps errors in a list
        value = value[0]
    if not isinstance(value, dict):
        return frozenset(), ""
    error = value.get("error", value)
    if isinstance(error, str):
        error = {**value, "message": error}
    if not isinstance(error, dict):
        return frozenset(), ""
    codes = {str(error[name]) for name in ("code", "type", "status") if error.get(name)}
    message = error.get("message") or error.get("detail") or ""
    if not isinstance(message, str):
        message = json.dumps(message, ensure_ascii=False)
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if isinstance(raw, str):  # from the provider behind a router
        message = f"{message}: {raw}"
    return frozenset(codes), message


def _failure(status: int, codes: frozenset[str], message: str) -> ModelError:
    said = f" It says: {shortened(message)}" if message.strip() else ""
    if status == 413 or (status not in {401, 403, 429} and is_too_long(codes, message)):
        return ModelRefused(f"The conversation is too long for the model.{said}", too_long=True)
    if status == 402 or (status == 429 and _SPENT.search(f"{message} {' '.join(codes)}")):
        return ModelRefused(f"The endpoint requires payment ({status}).{said}")
    if status in RETRYABLE_STATUSES:
        reason = "limits the request rate" if status == 429 else "cannot answer now"
        return ModelUnavailable(f"The endpoint {reason} ({status}).{said}")
    if 300 <= status < 400:
        return ModelRefused(
            f"The endpoint redirects to another URL ({status}). Set that one as HERMES_BASE_URL "
            f"or model.base_url."
        )
    remedy = _REMEDIES.get(status, f"The endpoint rejected the request ({status}).")
    return ModelRefused(remedy + said)


_REMEDIES = {
    401: "The endpoint does not accept the API key (401). Set HERMES_API_KEY or model.api_key.",
    403: "The API key has no permission for this (403). Set HERMES_API_KEY or model.api_key, or "
    "use another model.",
    404: "The endpoint does not know this model, or its URL is incomplete (404). Set "
    "HERMES_MODEL or model.default, and HERMES_BASE_URL or model.base_url, which usually ends "
    "in /v1.",
    405: "This is not the URL of an endpoint (405). Set HERMES_BASE_URL or model.base_url, "
    "which usually ends in /v1.",
}
