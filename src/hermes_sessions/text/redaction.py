"""Remove secrets and names from text before it is shared.

Rules match secrets with a recognisable form: keys with known prefixes, tokens after words that
announce them, private keys, addresses, and user names in home directories. Each match is replaced
by a note that names its kind. No rule knows every secret: review the text before you share it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple


class Rule(NamedTuple):
    """One kind of secret. The group ``secret`` is replaced, or else the whole match."""

    name: str
    pattern: re.Pattern[str]


#: Repetitions are bounded here and below, so that no text causes catastrophic backtracking.
_NAMES_OF_SECRETS: Final = (
    r"(?:[a-z0-9]{1,30}[_-]){0,4}(?:api[_-]?key|access[_-]?key|secret(?:[_-]?key)?|token|passw(?:or)?d"
    r"|passphrase|credentials?|private[_-]?key)"
)

#: In order: text replaced by an earlier rule is hidden from later ones.
RULES: Final = (
    Rule(
        "private key",
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
    ),
    Rule(
        "API key",
        re.compile(
            r"(?<![A-Za-z0-9])(?:"
            r"sk-[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic, OpenRouter
            r"|[srp]k_(?:live|test)_[A-Za-z0-9]{16,}"  # Stripe
            r"|gh[oprsu]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{16,}"
            r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}"  # Slack
            r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{35}"  # AWS, Google
            r"|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}"
            r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|gsk_[A-Za-z0-9]{20,}"
            r"|[0-9]{8,10}:[A-Za-z0-9_-]{35}"  # Telegram
            r")(?![A-Za-z0-9])"
        ),
    ),
    Rule(
        "token",
        re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),  # JWT
    ),
    Rule(
        "token",
        re.compile(r"\b(?:bearer|basic)\s+(?P<secret>[A-Za-z0-9._~+/=-]{12,})", re.IGNORECASE),
    ),
    Rule(
        "password",
        re.compile(
            r"\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@]{0,200}:(?P<secret>[^\s/@]{1,500})@", re.IGNORECASE
        ),
    ),
    Rule(
        "secret",
        re.compile(
            rf"(?<![a-z0-9]){_NAMES_OF_SECRETS}\\?[\"']?\s*(?:[:=]|=>)\s*\\?[\"']?"
            rf"(?P<secret>[^\s\"'\\,;<>(){{}}\[\]]{{6,}})",
            re.IGNORECASE,
        ),
    ),
    Rule(
        "e-mail address",
        re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})*\.[A-Za-z]{2,24}\b"),
    ),
    Rule(
        "home directory",
        re.compile(
            r"(?:/home/|/Users/|\b[A-Za-z]:(?:\\|/|\\\\)Users(?:\\|/|\\\\))"
            r"(?!\[redacted)(?P<secret>[^\s/\\:\"'<>|`,;)]+)"
        ),
    ),
)

_SECRET_KEY: Final = re.compile(_NAMES_OF_SECRETS, re.IGNORECASE)
#: Structural fields; without them an exported file could not be imported again.
_STRUCTURE: Final = frozenset(
    "id session_id parent_session_id conversation_id source role edge_kind end_reason model "
    "content_type tool_name tool_call_id type finish_reason billing_mode cost_status".split()
)


class Redactor:
    """Applies the rules and counts replacements."""

    def __init__(self) -> None:
        #: Replacements by rule.
        self.counts: Counter[str] = Counter()

    def text(self, text: str) -> str:
        """Return *text* with all matches replaced."""
        for rule in RULES:
            text = rule.pattern.sub(partial(self._note, rule.name), text)
        return text

    def record(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return an export record with the rules applied to every text.

        Binary values cannot be inspected and are replaced as a whole. Ids, roles, sources, and
        names of models and tools stay.
        """
        return {
            key: value if key in _STRUCTURE else self._value(value, key)
            for key, value in record.items()
        }

    def _value(self, value: Any, key: str) -> Any:
        if isinstance(value, str):
            if value and _SECRET_KEY.fullmatch(key):
                return self._replaced("secret")
            return self.text(value)
        if isinstance(value, (bytes, bytearray)):
            return self._replaced("bytes")
        if isinstance(value, Mapping):
            return self.record(value)
        if isinstance(value, (list, tuple)):
            return [self._value(item, key) for item in value]
        return value

    def _note(self, name: str, match: re.Match[str]) -> str:
        note = self._replaced(name)
        if "secret" not in match.re.groupindex:
            return note
        whole, start = match[0], match.start()
        return whole[: match.start("secret") - start] + note + whole[match.end("secret") - start :]

    def _replaced(self, name: str) -> str:
        self.counts[name] += 1
        return f"[redacted: {name}]"
