"""Messages of one chat are answered in the order in which they were written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.inbound_spool import Spool
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.repositories.senders import Senders
from hermes_sessions_testing.fake_servers.telegram.server import ANNA
from hermes_sessions_testing.scripted_model import streamed
from tests.gateway.harness import TelegramHarness, echo

ANNAS = SessionSource(Platform.TELEGRAM, "7", chat_type="dm", user_id="7", user_name="Anna")


def written(number: int, text: str) -> dict[str, Any]:
    chat = {"id": ANNA["id"], "type": "private", "first_name": "Anna"}
    return {"message_id": number, "date": 1700000000, "chat": chat, "from": ANNA, "text": text}


@pytest.mark.parametrize("numbers", [(101, 102, 103), (103, 101, 102)])
def test_what_waits_is_answered_in_the_order_of_the_chat(
    tmp_path: Path, numbers: tuple[int, ...]
) -> None:
    with TelegramHarness(tmp_path) as harness:
        harness.config["display"] = {"busy_input_mode": "queue", "busy_ack_enabled": False}
        harness.start()
        gate = harness.model.gate()
        harness.model.respond = lambda _request: streamed(gate, "Done.")
        harness.telegram.push({"message": written(100, "Go")})
        gate.wait_until_reached()
        harness.telegram.push(
            *({"message": written(number, f"No. {number}")} for number in numbers)
        )
        harness.telegram.wait_for(lambda: not harness.telegram.waiting)
        harness.model.respond = echo
        gate.open()
        assert harness.wait_for_replies(2) == ["Done.", "You said: No. 101\nNo. 102\nNo. 103"]


def test_what_two_gateways_kept_while_the_database_was_away(tmp_path: Path) -> None:
    """On one machine, the next one takes both files over, in whatever order it finds them."""
    with TelegramHarness(tmp_path) as harness:
        running = harness.start()
        harness.telegram.write("Hi")
        harness.wait_for_replies(1)
        running.stop()
        for numbers in ((203, 204), (201, 202)):
            spool = Spool(tmp_path / "gateway" / "spool")
            for number in numbers:
                spool.append(Inbound(ANNAS, f"No. {number}", str(number), order=number))
            spool.close()
        harness.start()
        text = "\n".join(harness.wait_for_replies(2)[1:])
        assert text == "You said: No. 201\nNo. 202\nNo. 203\nNo. 204"


def test_a_spooled_message_of_a_blocked_sender_is_not_answered(tmp_path: Path) -> None:
    """While the database was unavailable, this could not be checked."""
    with TelegramHarness(tmp_path) as harness:
        harness.config["platforms"]["telegram"]["allowed_users"] = ["*"]
        running = harness.start()
        for number in (7, 8):
            harness.telegram.write("Hi", user={**ANNA, "id": number})
            harness.wait_for_replies(1, number)
        running.stop()
        spool = Spool(tmp_path / "gateway" / "spool")
        bob = SessionSource(Platform.TELEGRAM, "8", chat_type="dm", user_id="8", user_name="Bob")
        for source in (bob, ANNAS):
            spool.append(Inbound(source, f"I am {source.user_name}", "900"))
        spool.close()
        with harness.open_db() as db:
            Senders(db.store, "default").decide("telegram", "8", "blocked")
        harness.start()
        assert harness.wait_for_replies(2)[1:] == ["You said: I am Anna"]
        assert harness.replies(8) == ["You said: Hi"]
