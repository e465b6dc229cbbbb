"""The slash commands in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from hermes_sessions.agent.slash_commands import TypedCommand, commands_for
from hermes_sessions.agent.interrupts import Interrupt
from hermes_sessions.cli.chat.incognito import OFF, ON, require_stored
from hermes_sessions.cli.render.chat import command_lines, numbered_sessions, wrapped
from hermes_sessions.cli.render.costs import usage_lines
from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.render.search_results import HitContext, hit_lines, search_report_lines
from hermes_sessions.cli.render.text_width import cut
from hermes_sessions.cli.session_lookup import find_session, preview_of_session
from hermes_sessions.cli.sessions.export_formats import FORMS
from hermes_sessions.cli.sessions.list import HIDDEN_SOURCES
from hermes_sessions.errors import InvalidInput

if TYPE_CHECKING:
    from hermes_sessions.agent.clients.model_selection import ChosenModel
    from hermes_sessions.cli.chat.completer import Suggestion
    from hermes_sessions.cli.chat.controller import ChatController
    from hermes_sessions.cli.console import Console
    from hermes_sessions.storage.records import SessionRecord

import os
from pathlib import Path

from hermes_sessions.cli.files import FileRefused, atomic_write
from hermes_sessions.cli.sessions.export_formats import JSONL, form_of, write_as
from hermes_sessions.cli.store import is_file_of_store
from hermes_sessions.storage.sessiondb import SessionDB

# Writing the session that is being talked in to a file.


def export_session(db: SessionDB, session_id: str, asked: str) -> Path:
    """Write a session to a file; return its path.

    *asked* is what was typed: a form (jsonl, md, html), the name of a file, both, or nothing. A
    file that is not named is called after the session; a form that is not named is that of the
    file.

    Raises:
        FileRefused: the file is there already, belongs to the store, or cannot be written.
    """
    first, _, rest = asked.strip().partition(" ")
    form = first.lower() if first.lower() in FORMS else None
    name = rest.strip() if form else asked.strip()
    # Not by `Path.expanduser`, which fails on a name such as ~1.md that is nobody's home.
    path = Path(os.path.expanduser(name or f"{session_id}.{form or JSONL}"))  # noqa: PTH111
    try:
        is_taken, is_of_store = path.exists(), is_file_of_store(str(path))
    except (OSError, ValueError) as error:  # a name no file can have, or a place nobody may look at
        why = getattr(error, "strerror", None) or error
        raise FileRefused(f"{one_line(str(path))} cannot be written: {why}.") from error
    if is_taken:
        raise FileRefused(f"{path} is there already. Name another file: /export NAME")
    if is_of_store:
        raise FileRefused(f"{path} belongs to the store itself. Choose another name.")
    record = db.export_session(session_id)
    with atomic_write(str(path), replace=False) as file:
        write_as(form or form_of(path.name), [record] if record else [], file)
    return path


_LISTED = 10
_OFFERED = 200
_FOUND = 5
#: What fits into 64 bits, whatever the digits are.
_DIGITS = 18


class SlashCommands:
    """What is typed with a slash, done."""

    def __init__(self, talk: ChatController, console: Console, chosen: ChosenModel) -> None:
        self._talk = talk
        self._held = talk.conversation
        self._db = self._held.agent.db
        self._console = console
        self._chosen = chosen
        #: What the numbers of the last list stand for.
        self._numbered: list[str] = []

    def do(self, typed: TypedCommand, interrupt: Interrupt) -> None:
        """Do a command, until it is done or interrupted.

        ``/stop``, ``/queue`` and ``/quit`` are for whoever knows what is running.

        Raises:
            HermesSessionsError: it cannot be done; the message says why.
        """
        if typed.command.name == "retry":
            self._retry(interrupt)
        elif typed.command.name == "compress":
            self._compress(typed.argument, interrupt)
        else:
            getattr(self, f"_{typed.command.name}")(typed.argument)

    def arguments(self, name: str) -> Iterator[Suggestion]:
        """Yield what can be written after a command, for completion."""
        from hermes_sessions.cli.chat.completer import Suggestion

        if name == "resume":
            rows = self._db.list_sessions_rich(
                exclude_sources=HIDDEN_SOURCES, limit=_OFFERED, compact_rows=True
            )
            for row in rows:
                title = one_line(row["title"] or "")
                yield Suggestion(
                    title or row["id"], row["id"] if title else one_line(row["preview"])
                )
        elif name == "export":
            yield from map(Suggestion, FORMS)

    def _tell(self, *lines: str) -> None:
        style = self._console.style
        self._console.tell(piece for line in lines for piece in wrapped(line, style, "  "))

    def _help(self, _argument: str) -> None:
        self._console.tell(command_lines(commands_for("cli"), self._console.style))

    def _new(self, title: str) -> None:
        self._held.start_new(title or None)
        self._tell("A new session; it begins with your next message.")

    def _title(self, text: str) -> None:
        if text:
            self._tell(f"Title: {one_line(self._held.set_title(text))}")
            return
        title = self._held.title
        session = self._held.session_id or "not stored yet"
        self._tell(f"{session}: {one_line(title) if title else 'no title'}")

    def _sessions(self, _argument: str) -> None:
        rows = self._db.list_sessions_rich(
            exclude_sources=HIDDEN_SOURCES, limit=_LISTED, compact_rows=True
        )
        self._numbered = [row["id"] for row in rows]
        if not rows:
            self._tell("No sessions found.")
            return
        self._console.tell(
            numbered_sessions(
                rows,
                current=self._held.session_id,
                now=self._console.clock(),
                style=self._console.style,
            )
        )
        self._tell("/resume NUMBER goes on with one.")

    def _resume(self, name: str) -> None:
        if not name:
            self._sessions("")
            return
        number = int(name) if name.isdecimal() and len(name) < 4 else 0
        if 1 <= number <= len(self._numbered):
            self._held.switch_to(self._numbered[number - 1])
        else:
            self._held.switch_to(find_session(self._db, name)["id"])
        session_id = self._held.session_id or ""
        self._talk.recall(session_id)
        self._tell(f"Going on with {session_id}.")

    def _search(self, query: str) -> None:
        if not query:
            raise InvalidInput("Say what to search for: /search docker build")
        answer = self._db.search(query, limit=_FOUND)
        style, now = self._console.style, self._console.clock()
        for hit in answer.hits:
            name = hit.title or preview_of_session(self._db, hit.session_id)
            self._console.tell([*hit_lines(hit, HitContext(name=name), now=now, style=style), ""])
        self._tell(*search_report_lines(answer, style))

    def _compress(self, focus: str, interrupt: Interrupt) -> None:
        self._tell(f"Summarising{self._console.style.ellipsis}")
        self._held.compress(focus or None, interrupt=interrupt)
        self._tell(f"Going on with the summary in {self._held.session_id}.")

    def _retry(self, interrupt: Interrupt) -> None:
        ended = self._talk.retry(interrupt)
        if ended is not None and ended.error is not None:
            raise ended.error

    def _undo(self, number: str) -> None:
        if number and not number.isdecimal():
            raise InvalidInput("Say how many exchanges to take back: /undo 2")
        # With more digits than any count has: as many as there are.
        wanted = 10**_DIGITS if len(number) > _DIGITS else int(number or 1)
        done = self._held.undo(wanted)
        taken = counted(done["exchanges"], "exchange")
        text = cut(one_line(done["text"] or ""), 60, self._console.style.ellipsis)
        self._tell(f"Took back {taken}, from: {text}")

    def _branch(self, title: str) -> None:
        self._held.branch(title or None)
        self._tell(
            f"Going on in a copy: {self._held.session_id} ({one_line(self._held.title or '')})."
        )

    def _handoff(self, platform: str) -> None:
        require_stored("Handing over", incognito=self._talk.is_incognito)
        session = self._session()
        if session is None:
            raise InvalidInput("There is nothing to hand over yet.")
        if not platform:
            raise InvalidInput("Say where to: /handoff telegram")
        if not self._db.request_handoff(session["id"], platform.lower()):
            raise InvalidInput("It is being handed over already. /status shows how far it is.")
        self._tell(
            f"It goes on in the home channel of {one_line(platform.lower())}, as soon as a gateway "
            f"has taken it over. /new starts something else here."
        )

    def _status(self, _argument: str) -> None:
        asked = replace(self._chosen, model=self._held.agent.model)
        self._tell(f"Model: {one_line(asked.description)}")
        health = self._talk.outage.health.now
        if not health.is_healthy:
            self._tell(f"Store: {health.state.value}: {one_line(health.why or '')}")
        session = self._session()
        if session is None:
            self._tell("Session: begins with your first message.")
            return
        self._tell(
            f"Session: {session['id']}",
            f"Title: {one_line(session['title'] or 'none')}",
            f"Messages: {session['message_count']}",
        )
        handoff = self._db.get_handoff_state(session["id"])
        if handoff is not None and handoff["state"]:
            error = f" ({one_line(handoff['error'])})" if handoff["error"] else ""
            self._tell(f"Handed to {handoff['platform']}: {handoff['state']}{error}")

    def _usage(self, _argument: str) -> None:
        session = self._session()
        if session is None:
            self._tell("Nothing was used yet.")
            return
        self._tell(*usage_lines(session, self._db.get_model_usage(session["id"])))

    def _incognito(self, _argument: str) -> None:
        self._tell(ON if self._talk.is_incognito else OFF)

    def _export(self, name: str) -> None:
        require_stored("Exporting", incognito=self._talk.is_incognito)
        session = self._session()
        if session is None:
            raise InvalidInput("There is nothing to export yet.")

        self._tell(f"Wrote {export_session(self._db, session['id'], name)}.")

    def _model(self, name: str) -> None:
        agent = self._held.agent
        if self._chosen.is_local:
            self._require_local(name)
            self._tell(self._chosen.description)
        elif name:
            self._held.agent = agent.with_model(name)
            self._tell(f"{one_line(name)} is asked from now on.")
        else:
            self._tell(f"{agent.asked_model} is asked; /model NAME asks another one there.")

    def _require_local(self, name: str) -> None:
        from hermes_sessions.agent.clients.model_selection import LOCAL_NAMES

        if name and name.lower() not in LOCAL_NAMES:
            raise InvalidInput(
                f"There is no other model on this machine. To ask {one_line(name)}, leave, and set "
                f"HERMES_BASE_URL to where it is."
            )

    def _session(self) -> SessionRecord | None:
        held = self._held.session_id
        return self._db.get_session(held) if held else None
