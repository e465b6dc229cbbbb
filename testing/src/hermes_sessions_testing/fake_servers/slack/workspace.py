"""The workspace of the fake Slack: users, channels, tokens and markup."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

# Slack's markup, as clients show it.


_CODE: Final = re.compile(r"```\n?(?P<block>.+?)\n?```|`(?P<code>[^`\n]+)`", re.DOTALL)


_CONTROL: Final = re.compile(r"<(?P<inside>[^<>\n]*)>")


_EMPHASIS: Final = re.compile(r"(?<![\w*_~])([*_~])(?=\S)([^\n]+?)(?<=\S)\1(?![\w*_~])")


_ENTITY: Final = re.compile(r"&(amp|lt|gt);")


_SIGNS: Final = {"amp": "&", "lt": "<", "gt": ">"}


def shown_text(mrkdwn: str) -> str:
    """Return the visible text of a message."""
    pieces: list[str] = []
    at = 0
    for code in _CODE.finditer(mrkdwn):
        inside = code["block"] or code["code"]
        pieces += (_prose(mrkdwn[at : code.start()]), unescape(inside))
        at = code.end()
    pieces.append(_prose(mrkdwn[at:]))
    return "".join(pieces)


def unescape(text: str) -> str:
    """Return *text* with its escaped characters restored."""
    return _ENTITY.sub(lambda entity: _SIGNS[entity[1]], text)


def escape(text: str) -> str:
    """Return *text* as a Slack client sends it; links and mentions are not recognised."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _prose(text: str) -> str:
    text = _CONTROL.sub(lambda control: control["inside"].rpartition("|")[2], text)
    for _ in range(3):  # nested emphasis
        text = _EMPHASIS.sub(r"\2", text)
    return unescape(text)


TOKEN: Final = "xoxb-0000000000-0000000000000-testtoken"  # noqa: S105 - opens nothing
APP_TOKEN: Final = "xapp-1-A0TEST-0000000000-testtoken"  # noqa: S105
SIGNING_SECRET: Final = "8f742231b10e8888abcd99eeefff85a5"  # noqa: S105
APP_ID: Final = "A0TESTAPP"
TEAM_ID: Final = "T0TESTTEAM"
BOT_ID: Final = "B0TESTBOT"
BOT_USER_ID: Final = "U0TESTBOT"

SCOPES: Final = (
    "app_mentions:read,channels:history,channels:read,chat:write,commands,files:read,"
    "groups:history,groups:read,im:history,mpim:history,mpim:read,users:read"
)

Record = dict[str, Any]


class Person(NamedTuple):
    """A member of the workspace."""

    id: str
    name: str
    #: The private chat with the app.
    chat: str

    @property
    def record(self) -> Record:
        """The user as ``users.info`` returns it."""
        profile = {"display_name": self.name, "real_name": self.name}
        return {"id": self.id, "team_id": TEAM_ID, "name": self.name.lower(), "profile": profile}


class Place(NamedTuple):
    """A channel or a group chat."""

    id: str
    name: str
    #: As in events: ``channel``, ``group`` (a private channel) or ``mpim``.
    kind: str = "channel"
    purpose: str = ""

    @property
    def record(self) -> Record:
        """The channel as ``conversations.info`` returns it."""
        return {
            "id": self.id,
            "name": self.name,
            "is_channel": self.kind == "channel",
            "is_group": self.kind == "group",
            "is_im": False,
            "is_mpim": self.kind == "mpim",
            "is_private": self.kind != "channel",
            "topic": {"value": ""},
            "purpose": {"value": self.purpose},
        }


ANNA: Final = Person("U0ANNA", "Anna", "D0ANNA")
BERT: Final = Person("U0BERT", "Bert", "D0BERT")
GENERAL: Final = Place("C0GENERAL", "general", purpose="For everybody")
SECRET: Final = Place("C0SECRET", "secret", kind="group")
GROUP: Final = Place("C0GROUP", "mpdm-anna--bert--hermes-1", kind="mpim")


class Refusal(Exception):
    """An error response of the Web API."""

    def __init__(self, error: str, *, status: int = 200, **fields: Any) -> None:
        super().__init__(error)
        self.error = error
        self.status = status
        self.headers: dict[str, str] = fields.pop("headers", {})
        self.body: Record = {"ok": False, "error": error, **fields}


def too_many(retry_after: float = 30) -> Refusal:
    """Return the error for a rate limit."""
    return Refusal("ratelimited", status=429, headers={"Retry-After": f"{retry_after:g}"})


def missing_scope(needed: str) -> Refusal:
    """Return the error for a missing scope."""
    return Refusal("missing_scope", needed=needed, provided="identify")


@dataclass(slots=True)
class Sent:
    """A message of the app, in its current form."""

    channel: str
    ts: str
    #: In Slack's markup.
    text: str
    thread_ts: str | None = None
    #: Earlier texts of an edited message.
    before: list[str] = field(default_factory=list)

    @property
    def shown(self) -> str:
        """The visible text."""
        return shown_text(self.text)


def callback(event: Mapping[str, Any], number: int, now: float) -> Record:
    """Return the envelope of the Events API around an event."""
    return {
        "token": "unused",
        "team_id": TEAM_ID,
        "api_app_id": APP_ID,
        "event": dict(event),
        "type": "event_callback",
        "event_id": f"Ev0{number:08d}",
        "event_time": int(now),
        "authorizations": [
            {
                "enterprise_id": None,
                "team_id": TEAM_ID,
                "user_id": BOT_USER_ID,
                "is_bot": True,
                "is_enterprise_install": False,
            }
        ],
        "is_ext_shared_channel": False,
        "event_context": f"4-{number}",
    }
