"""Who and what there is on the WhatsApp of `hermes_sessions.testing.whatsapp_server`."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

NUMBER_ID: Final = "106540352242922"
NUMBER: Final = "+1 555-078-3881"

Record = dict[str, Any]


class Person(NamedTuple):
    """Somebody with a phone."""

    name: str
    number: str | None
    #: What stays when the number changes; None where Meta does not tell it.
    user_id: str | None = None

    @property
    def id(self) -> str:
        """By which they are written to."""
        return self.number or self.user_id or ""


ANNA: Final = Person("Anna", "4915700000007", "DE.1349120865530274191")
BERT: Final = Person("Bert", "4915700000008")
GROUP: Final = "Y2FwaV9ncm91cDoxNTU1MDc4Mzg4MToxMjAzNjM0"


class Refusal(Exception):
    """What the Graph API answers instead of a result."""

    def __init__(
        self, status: int, code: int, message: str, details: str = "", **headers: str
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.body: Record = {
            "message": f"(#{code}) {message}",
            "type": "OAuthException",
            "code": code,
            "fbtrace_id": "AQDrcbTRGkEQDmVpF0m5W6n",
        }
        if details:
            self.body["error_data"] = {"messaging_product": "whatsapp", "details": details}


def too_many(code: int = 130429, retry_after: float | None = None) -> Refusal:
    """Return the answer to one message too many."""
    headers = {} if retry_after is None else {"Retry_After": f"{retry_after:g}"}
    return Refusal(429, code, "Rate limit hit", "Message failed to send.", **headers)


def outside_window() -> Refusal:
    """Return the answer to a message to somebody who has not written for a day."""
    return Refusal(
        400,
        131047,
        "Re-engagement message",
        "Message failed to send because more than 24 hours have passed since the customer last "
        "replied to this number.",
    )


def contact_of(person: Person) -> Record:
    """Return somebody as they stand in a call."""
    contact: Record = {"profile": {"name": person.name}}
    if person.number:
        contact["wa_id"] = person.number
    if person.user_id:
        contact["user_id"] = person.user_id
    return contact


def unknown_object(path: str) -> Refusal:
    """Return the answer to a question about something that is not there."""
    return Refusal(
        400,
        100,
        f"Unsupported request. Object with ID '{path}' does not exist, cannot be loaded due to "
        f"missing permissions, or does not support this operation.",
    )
