"""When a call that failed is worth another attempt, and how long to wait before it. No I/O.

The bound is stated: at most `MOST_ATTEMPTS` attempts, and none that would begin later than the
configured time after the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

MOST_ATTEMPTS: Final = 5
_FIRST_WAIT: Final = 0.5
_LONGEST_WAIT: Final = 8.0


def wait_before(
    attempt: int,
    *,
    elapsed: float,
    bound: float,
    retry_after: float | None,
    random: Callable[[], float],
) -> float | None:
    """Return the seconds to wait before ``attempt`` (the second is 2), or None to give up.

    What the endpoint asks for is kept to; otherwise the wait doubles, and a random half of it keeps
    many clients from coming back at the same moment.
    """
    if attempt > MOST_ATTEMPTS:
        return None
    if retry_after is None:
        longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (attempt - 2))
        wait = longest * (0.5 + random() / 2)
    else:
        wait = retry_after
    return wait if elapsed + wait <= bound else None


def retry_after_of(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that an answer asks to wait, or None when it does not say."""
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
