"""What is asked of an endpoint, and what is left out for those that do not know it. No I/O.

"OpenAI-compatible" is a matter of degree. A parameter that an endpoint rejects by name and that an
answer does not depend on is left out of the next attempt, and from then on.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Literal

from hermes_sessions.agent.clients.port import Request

Concession = Literal["stream_options", "max_tokens", "temperature", "tools", "stream"]

_UNSUPPORTED = r"(?:unsupported|n[o']t support|unknown|unrecognized|deprecated|only)"
_NO_TEMPERATURE = re.compile(rf"temperature.*{_UNSUPPORTED}|{_UNSUPPORTED}.*temperature", re.DOTALL)
_NO_TOOLS = re.compile(
    r"(?:not|n't) support\w* (?:tools?|function)|tools?(?: \w+){0,3} not supported"
    r"|no endpoints found that support tool"
)
_NO_STREAM = re.compile(r"\bstream(?:ing)?\b.*not support|not support.*\bstream", re.DOTALL)


def body_of(request: Request, conceded: Collection[Concession]) -> dict[str, Any]:
    """Return the body of a request, without what the endpoint does not know."""
    body: dict[str, Any] = {"model": request.model, "messages": list(request.messages)}
    if "stream" not in conceded:
        body["stream"] = True
        if "stream_options" not in conceded:
            body["stream_options"] = {"include_usage": True}
    if request.tools and "tools" not in conceded:
        body["tools"] = list(request.tools)
    if request.max_tokens is not None:
        # The newer name means the same; the older one is the one that most servers know.
        name = "max_completion_tokens" if "max_tokens" in conceded else "max_tokens"
        body[name] = request.max_tokens
    if request.temperature is not None and "temperature" not in conceded:
        body["temperature"] = request.temperature
    return body


def concession_for(message: str, body: Mapping[str, Any]) -> Concession | None:
    """Return what to leave out of ``body`` because a refusal names it, or None."""
    text = message.lower()
    if "stream_options" in body and "stream_options" in text:
        return "stream_options"
    if "max_tokens" in body and "max_completion_tokens" in text:
        return "max_tokens"
    if "temperature" in body and _NO_TEMPERATURE.search(text):
        return "temperature"
    if "tools" in body and _NO_TOOLS.search(text):
        return "tools"
    if "stream" in body and _NO_STREAM.search(text):
        return "stream"
    return None
