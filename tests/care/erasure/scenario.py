"""A store in which two users talk to a bot, alone and in a shared room.

Everything that Ann said, and everything about her, has a word in it that no other user says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from hermes_sessions import SessionDB
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.lifecycle.gateway_process import GatewayProcess
from hermes_sessions.lifecycle.mailboxes import Mailboxes, StartedTurn
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.identities import Author, Identities, note_author
from hermes_sessions.storage.repositories.leases import Lease, Leases
from hermes_sessions.storage.repositories.outbox import NewReply, Outbox
from hermes_sessions.storage.repositories.senders import Senders
from hermes_sessions.storage.tables import ALL_TABLES

#: In everything that Ann wrote, or that is about her.
SECRET: Final = "xylographer"
ANN, BOB = "ann-4711", "bob-0815"
ANNS_CHAT, BOBS_CHAT, ROOM = "chat-ann-33", "chat-bob-44", "room-55"
TTL: Final = 3600.0


def private(user_id: str, chat_id: str) -> SessionSource:
    return SessionSource(Platform.TELEGRAM, chat_id, user_id=user_id, user_name=user_id)


def in_room(user_id: str) -> SessionSource:
    return SessionSource(
        Platform.TELEGRAM, ROOM, chat_type="group", user_id=user_id, user_name=user_id
    )


class ErasureScenario:
    """One bot on one store."""

    def __init__(self, db: SessionDB, home: Path) -> None:
        self.db = db
        config = GatewayConfig(write_sessions_json=False, group_sessions_per_user=False)
        self.sessions = SessionStore(home / "sessions", config, db=db)
        self.engine = self.sessions.engine
        self.mail = Mailboxes(self.engine)
        self.leases = Leases(db.store)
        self.outbox = Outbox(db.store, self.engine.namespace)
        self.process = GatewayProcess(
            self.engine, home=home, pid=2**22 + 1, runs_here=lambda _: True
        )
        self.process.start()

    def hear(self, source: SessionSource, text: str) -> None:
        """Receive a message."""
        self.mail.receive(
            self.engine.key_of(source),
            kind="message",
            sender=source.user_id,
            text=text,
            payload={"source": source.to_dict()},
            origin=source,
        )

    def begin(self, source: SessionSource) -> tuple[StartedTurn, Lease]:
        """Begin a turn, and store what is asked."""
        entry = self.sessions.get_or_create_session(source)
        lease = self.leases.take(entry.session_id, self.process.holder(), TTL)
        with self.db.provider.read() as tx:
            lane = self.engine.lanes.find(tx, self.engine.namespace, self.engine.key_of(source))
        assert lane is not None
        taken = self.mail.take(lane, lease)
        assert taken is not None
        item = taken.input.items[0]
        mark = f"mailbox:{item.id}"
        if source.chat_type != "dm":
            author = Author(entry.session_id, mark, source.platform.value, str(item.sender))
            self.db.provider.write(lambda tx: note_author(tx, self.db.store, author))
        self.db.append_message(
            entry.session_id, "user", taken.input.text, external_id=mark, fence=lease.token
        )
        return taken, lease

    def talk(self, source: SessionSource, text: str, answer: str) -> str:
        """Have a turn from its beginning to its end; return the session."""
        self.hear(source, text)
        taken, lease = self.begin(source)
        self.db.append_message(taken.turn.session_id, "assistant", answer, fence=lease.token)

        def reply(tx: WriteTransaction) -> None:
            target = f'{{"platform": "telegram", "chat_id": "{source.chat_id}"}}'
            new = NewReply("telegram", source.chat_id, target, answer, taken.lane.id, taken.turn.id)
            self.outbox.put_in(tx, new)

        assert self.mail.finish(taken.turn, "completed", also=reply).is_accepted
        self.leases.release(lease)
        return taken.turn.session_id

    def fill(self) -> dict[str, str]:
        """Have every user say something; return sessions by name."""
        db = self.db
        ann, bob = private(ANN, ANNS_CHAT), private(BOB, BOBS_CHAT)
        found = {
            "ann": self.talk(ann, f"my {SECRET} hobby", f"a {SECRET}, how nice"),
            "bob": self.talk(bob, "good morning", "good morning, Bob"),
        }
        self.talk(in_room(BOB), "hello all", "hello Bob")
        found["room"] = self.talk(in_room(ANN), f"{SECRET} here", f"hello {SECRET}")
        self.talk(in_room(BOB), "is it late?", "it is noon")
        self.enrich(found["ann"])
        senders = Senders(db.store, self.engine.namespace)
        for user_id in (ANN, BOB):
            senders.decide("telegram", user_id, "allowed")
        Identities(db.store).join("telegram", [[ANN, f"{ANN}-alias"], [BOB, f"{BOB}-alias"]])
        for user_id, chat_id in ((ANN, ANNS_CHAT), (BOB, BOBS_CHAT)):
            db.enable_telegram_topic_mode(chat_id=chat_id, user_id=user_id)
        db.bind_telegram_topic(
            chat_id=ANNS_CHAT,
            thread_id="7",
            user_id=ANN,
            session_key="agent:main:telegram:dm:x",
            session_id=found["ann"],
        )
        self.hear(ann, f"another {SECRET}")
        self.hear(in_room(ANN), f"waiting {SECRET}")
        self.hear(in_room(BOB), "waiting, too")
        db.optimize_search()
        return found

    def enrich(self, session_id: str) -> None:
        """Give a session everything that a session can have."""
        db = self.db
        db.set_session_title(session_id, f"The {SECRET} story")
        db.create_session(session_id, "telegram", cwd=f"/projects/{SECRET}")
        db.add_tags(session_id, [SECRET])
        db.update_metadata(session_id, {"hobby": SECRET})
        call = {"id": "1", "function": {"name": "look", "arguments": f'{{"q": "{SECRET}"}}'}}
        db.append_message(session_id, "assistant", None, tool_calls=[call])
        db.append_message(session_id, "tool", f"found {SECRET}", tool_call_id="1", tool_name="look")
        number = db.append_message(session_id, "user", f"no {SECRET} any more")
        db.rewind_to_message(session_id, number)
        db.update_token_counts(session_id, input_tokens=5, model="m")
        db.create_session("sub", "telegram", parent_session_id=session_id, user_id=ANN)
        db.append_message("sub", "user", f"subagent {SECRET}")
        db.continue_session(session_id, "cont", [{"role": "user", "content": f"{SECRET} summary"}])
        db.create_session("bin", "telegram", user_id=ANN)
        db.append_message("bin", "user", f"{SECRET} in the bin")
        db.set_session_title("bin", f"Binned {SECRET}")
        db.trash_sessions(["bin"])
        row = f'{{"chat": "{ANNS_CHAT}", "session": "{session_id}", "note": "{SECRET}"}}'
        db.provider.write(
            lambda tx: tx.run(
                'INSERT INTO foreign_rows (origin, table_name, row_key, "row") VALUES (?, ?, ?, ?)',
                ("elsewhere", "notes", "1", row),
            )
        )


def everything(db: SessionDB, *, but: tuple[str, ...] = ()) -> str:
    """All rows of all tables, as one text."""
    tables = ALL_TABLES
    names = [table.name for table in tables if table.name not in but]
    if db.provider.name != "sqlite":
        names.append("search_documents")
    found: list[Any] = []
    with db.provider.read() as tx:
        for name in names:
            found += [(name, *row) for row in tx.all(f"SELECT * FROM {name}")]
    return "\n".join(map(str, found))
