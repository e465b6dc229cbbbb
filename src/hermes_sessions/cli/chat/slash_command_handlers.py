"""The handlers of slash commands in the terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_sessions.agent.interrupts import Interrupt
from hermes_sessions.agent.slash_commands import (
    CommandHandlers,
    TypedCommand,
    commands_for,
    find_command,
)
from hermes_sessions.cli.chat.incognito import OFF, ON, require_stored
from hermes_sessions.cli.chat.job_queue import ImmediateJobQueue, Job, JobQueue
from hermes_sessions.cli.files import FileRefused, atomic_write
from hermes_sessions.cli.render.chat import command_lines, numbered_sessions, wrapped
from hermes_sessions.cli.render.costs import usage_lines
from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.render.search_results import HitContext, hit_lines, search_report_lines
from hermes_sessions.cli.render.text_width import cut
from hermes_sessions.cli.session_list import HIDDEN_SOURCES
from hermes_sessions.cli.session_lookup import find_session, preview_of_session
from hermes_sessions.cli.sessions.export_formats import FORMS, JSONL, form_of, write_as
from hermes_sessions.cli.store import is_file_of_store
from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.sessiondb import SessionDB

if TYPE_CHECKING:
    from hermes_sessions.agent.clients.model_selection import ChosenModel
    from hermes_sessions.cli.chat.completer import Suggestion
    from hermes_sessions.cli.chat.controller import ChatController
    from hermes_sessions.cli.console import Console
    from hermes_sessions.storage.records import SessionRecord

_LISTED = 10
_SUGGESTED = 200
_FOUND = 5
#: Numbers with more digits do not fit into 64 bits.
_DIGITS = 18

#: Handlers get the argument, and an event that interrupts them.
handles: CommandHandlers[Callable[[TerminalCommands, str, Interrupt], None]] = CommandHandlers(
    commands_for("cli")
)


class TerminalCommands:
    """Runs the slash commands of a chat in the terminal."""

    #: What runs and waits in this chat; set by the loop that owns it.
    jobs: JobQueue
    #: Whether the user asked to leave the chat.
    is_leaving = False

    def __init__(self, talk: ChatController, console: Console, chosen: ChosenModel) -> None:
        self._controller = talk
        self._chat = talk.chat
        self._db = self._chat.agent.db
        self._console = console
        self._chosen = chosen
        self.jobs = ImmediateJobQueue(lambda _job, _interrupt: None)
        #: The sessions that the numbers of the last list mean.
        self._numbered: list[str] = []

    def run(self, typed: TypedCommand, interrupt: Interrupt) -> None:
        """Run a command until it has finished or is interrupted.

        Raises:
            HermesSessionsError: the command failed; the message says why.
        """
        handles[typed.command](self, typed.argument, interrupt)

    def arguments(self, name: str) -> Iterator[Suggestion]:
        """Yield suggestions for the argument of the command *name*."""
        from hermes_sessions.cli.chat.completer import Suggestion

        command = find_command(name, "cli")
        suggests = None if command is None else command.suggests
        if suggests == "sessions":
            rows = self._db.list_sessions_rich(
                exclude_sources=HIDDEN_SOURCES, limit=_SUGGESTED, compact_rows=True
            )
            for row in rows:
                title = one_line(row["title"] or "")
                yield Suggestion(
                    title or row["id"], row["id"] if title else one_line(row["preview"])
                )
        elif suggests == "export formats":
            yield from map(Suggestion, FORMS)

    def _tell(self, *lines: str) -> None:
        style = self._console.style
        self._console.tell(piece for line in lines for piece in wrapped(line, style, "  "))

    @handles("help")
    def _help(self, _argument: str, _interrupt: Interrupt) -> None:
        self._console.tell(command_lines(commands_for("cli"), self._console.style))

    @handles("new")
    def _new(self, title: str, _interrupt: Interrupt) -> None:
        self._chat.start_new(title or None)
        self._tell("A new session starts with your next message.")

    @handles("title")
    def _title(self, text: str, _interrupt: Interrupt) -> None:
        if text:
            self._tell(f"Title: {one_line(self._chat.set_title(text))}")
            return
        title = self._chat.title
        session = self._chat.session_id or "not stored yet"
        self._tell(f"{session}: {one_line(title) if title else 'no title'}")

    @handles("sessions")
    def _sessions(self, _argument: str, _interrupt: Interrupt) -> None:
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
                current=self._chat.session_id,
                now=self._console.clock(),
                style=self._console.style,
            )
        )
        self._tell("/resume NUMBER continues one.")

    @handles("resume")
    def _resume(self, name: str, interrupt: Interrupt) -> None:
        if not name:
            self._sessions("", interrupt)
            return
        number = int(name) if name.isdecimal() and len(name) < 4 else 0
        if 1 <= number <= len(self._numbered):
            self._chat.switch_to(self._numbered[number - 1])
        else:
            self._chat.switch_to(find_session(self._db, name)["id"])
        session_id = self._chat.session_id or ""
        self._controller.recall(session_id)
        self._tell(f"Continuing {session_id}.")

    @handles("search")
    def _search(self, query: str, _interrupt: Interrupt) -> None:
        if not query:
            raise InvalidInput("Say what to search for: /search docker build")
        answer = self._db.search(query, limit=_FOUND)
        style, now = self._console.style, self._console.clock()
        for hit in answer.hits:
            name = hit.title or preview_of_session(self._db, hit.session_id)
            self._console.tell([*hit_lines(hit, HitContext(name=name), now=now, style=style), ""])
        self._tell(*search_report_lines(answer, style))

    @handles("compress")
    def _compress(self, focus: str, interrupt: Interrupt) -> None:
        self._tell(f"Summarising{self._console.style.ellipsis}")
        self._chat.compress(focus or None, interrupt=interrupt)
        self._tell(f"Continuing with the summary in {self._chat.session_id}.")

    @handles("retry")
    def _retry(self, _argument: str, interrupt: Interrupt) -> None:
        ended = self._controller.retry(interrupt)
        if ended is not None and ended.error is not None:
            raise ended.error

    @handles("undo")
    def _undo(self, number: str, _interrupt: Interrupt) -> None:
        if number and not number.isdecimal():
            raise InvalidInput("Say how many exchanges to undo: /undo 2")
        # A number longer than any count undoes everything.
        wanted = 10**_DIGITS if len(number) > _DIGITS else int(number or 1)
        done = self._chat.undo(wanted)
        undone = counted(done["exchanges"], "exchange")
        text = cut(one_line(done["text"] or ""), 60, self._console.style.ellipsis)
        self._tell(f"Undid {undone}, from: {text}")

    @handles("branch")
    def _branch(self, title: str, _interrupt: Interrupt) -> None:
        branch_id = self._chat.branch(title or None)
        self._tell(f"Continuing in a copy: {branch_id} ({one_line(self._chat.title or '')}).")

    @handles("handoff")
    def _handoff(self, platform: str, _interrupt: Interrupt) -> None:
        require_stored("Handing off", incognito=self._controller.is_incognito)
        session = self._session()
        if session is None:
            raise InvalidInput("There is nothing to hand off yet.")
        if not platform:
            raise InvalidInput("Say which platform: /handoff telegram")
        if not self._db.request_handoff(session["id"], platform.lower()):
            raise InvalidInput(
                "This session is already being handed off. /status shows its progress."
            )
        self._tell(
            f"The session continues in the home channel of {one_line(platform.lower())} once a "
            f"gateway takes it over. /new starts a new session here."
        )

    @handles("status")
    def _status(self, _argument: str, _interrupt: Interrupt) -> None:
        asked = replace(self._chosen, model=self._chat.agent.model)
        self._tell(f"Model: {one_line(asked.description)}")
        health = self._controller.outage.health.now
        if not health.is_healthy:
            self._tell(f"Store: {health.state.value}: {one_line(health.why or '')}")
        session = self._session()
        if session is None:
            self._tell("Session: starts with your first message.")
            return
        self._tell(
            f"Session: {session['id']}",
            f"Title: {one_line(session['title'] or 'none')}",
            f"Messages: {session['message_count']}",
        )
        handoff = self._db.get_handoff_state(session["id"])
        if handoff is not None and handoff["state"]:
            error = f" ({one_line(handoff['error'])})" if handoff["error"] else ""
            self._tell(f"Handed off to {handoff['platform']}: {handoff['state']}{error}")

    @handles("usage")
    def _usage(self, _argument: str, _interrupt: Interrupt) -> None:
        session = self._session()
        if session is None:
            self._tell("No tokens used yet.")
            return
        self._tell(*usage_lines(session, self._db.get_model_usage(session["id"])))

    @handles("queue")
    def _queue(self, text: str, _interrupt: Interrupt) -> None:
        if not text:
            raise InvalidInput("Say what to queue: /queue and then run the tests")
        before = self.jobs.add(Job(text))
        if before:
            self._tell(f"Queued as number {before}. /stop drops queued messages.")

    @handles("stop")
    def _stop(self, _argument: str, _interrupt: Interrupt) -> None:
        dropped = self.jobs.drop()
        if not self.jobs.interrupt() and not dropped:
            self._tell("Nothing is running.")
        self.tell_dropped(dropped)

    def tell_dropped(self, number: int) -> None:
        """Tell how many queued messages were dropped, if any were."""
        if number:
            self._tell(f"Dropped {counted(number, 'queued message')}.")

    @handles("quit")
    def _quit(self, _argument: str, _interrupt: Interrupt) -> None:
        self.is_leaving = True

    @handles("incognito")
    def _incognito(self, _argument: str, _interrupt: Interrupt) -> None:
        self._tell(ON if self._controller.is_incognito else OFF)

    @handles("export")
    def _export(self, name: str, _interrupt: Interrupt) -> None:
        require_stored("Exporting", incognito=self._controller.is_incognito)
        session = self._session()
        if session is None:
            raise InvalidInput("There is nothing to export yet.")

        self._tell(f"Wrote {export_session(self._db, session['id'], name)}.")

    @handles("model")
    def _model(self, name: str, _interrupt: Interrupt) -> None:
        agent = self._chat.agent
        if self._chosen.is_local:
            self._require_local(name)
            self._tell(f"Model: {self._chosen.description}")
        elif name:
            self._chat.agent = agent.with_model(name)
            self._tell(f"Using {one_line(name)} from now on.")
        else:
            self._tell(
                f"Using {agent.asked_model}. /model NAME uses another model of the same endpoint."
            )

    def _require_local(self, name: str) -> None:
        from hermes_sessions.agent.clients.model_selection import LOCAL_NAMES

        if name and name.lower() not in LOCAL_NAMES:
            raise InvalidInput(
                f"There is no other model on this machine. To use {one_line(name)}, leave the chat "
                f"and set HERMES_BASE_URL to its endpoint."
            )

    def _session(self) -> SessionRecord | None:
        held = self._chat.session_id
        return self._db.get_session(held) if held else None


handles.require_all()


def export_session(db: SessionDB, session_id: str, asked: str) -> Path:
    """Write a session to a file; return its path.

    *asked* is a format (jsonl, md, html), a file name, both, or nothing. The file name defaults to
    the id of the session, and the format to that of the file name.

    Raises:
        FileRefused: the file exists, belongs to the store, or cannot be written.
    """
    first, _, rest = asked.strip().partition(" ")
    form = first.lower() if first.lower() in FORMS else None
    name = rest.strip() if form else asked.strip()
    # `Path.expanduser` raises for a name like ~1.md if no user has that name.
    path = Path(os.path.expanduser(name or f"{session_id}.{form or JSONL}"))  # noqa: PTH111
    try:
        is_taken, is_of_store = path.exists(), is_file_of_store(str(path))
    except (OSError, ValueError) as error:  # not a valid file name, or a directory without access
        why = getattr(error, "strerror", None) or error
        raise FileRefused(f"{one_line(str(path))} cannot be written: {why}.") from error
    if is_taken:
        raise FileRefused(f"{path} already exists. Choose another name: /export NAME")
    if is_of_store:
        raise FileRefused(f"{path} is a file of the store. Choose another name.")
    record = db.export_session(session_id)
    with atomic_write(str(path), replace=False) as file:
        write_as(form or form_of(path.name), [record] if record else [], file)
    return path
