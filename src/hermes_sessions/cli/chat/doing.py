"""The slash commands in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from hermes_sessions.agent.commands import Typed, commands_for
from hermes_sessions.agent.conversation import Conversation
from hermes_sessions.agent.turn import Ended, TurnEvent
from hermes_sessions.cli.render.columns import cut, pad
from hermes_sessions.cli.render.quantity import counted
from hermes_sessions.cli.render.recap import recap
from hermes_sessions.cli.render.safety import one_line
from hermes_sessions.cli.selection import find_session
from hermes_sessions.errors import InvalidInput

if TYPE_CHECKING:
    from hermes_sessions.agent.clients.choosing import ChosenModel
    from hermes_sessions.cli.console import Console

Show = Callable[[Iterator[TurnEvent]], Ended | None]

_LISTED = 10
_FOUND = 5


class Commands:
    """What is typed with a slash, done."""

    def __init__(
        self, conversation: Conversation, console: Console, show: Show, chosen: ChosenModel
    ) -> None:
        self._held = conversation
        self._db = conversation.agent.db
        self._console = console
        self._show = show
        self._chosen = chosen
        #: What the numbers of the last list stand for.
        self._numbered: list[str] = []

    def do(self, typed: Typed) -> bool:
        """Do a command; return whether the chat goes on.

        Raises:
            HermesSessionsError: it cannot be done; the message says why.
        """
        if typed.command.name == "quit":
            return False
        getattr(self, f"_{typed.command.name}")(typed.argument)
        return True

    def _tell(self, *lines: str) -> None:
        self._console.tell(lines)

    def _help(self, _argument: str) -> None:
        width = max(len(command.usage) for command in commands_for("cli")) + 2
        for command in commands_for("cli"):
            self._tell(f"{pad(command.usage, width)}{command.summary}")

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
        rows = self._db.list_sessions_rich(limit=_LISTED, compact_rows=True)
        self._numbered = [row["id"] for row in rows]
        if not rows:
            self._tell("No sessions found.")
        for number, row in enumerate(rows, 1):
            name = one_line(row["title"] or row["preview"] or "")
            mark = "*" if row["id"] == self._held.session_id else " "
            shown = cut(name, 50, self._console.style.ellipsis)
            self._tell(f"{number:>3}{mark} {pad(shown, 51)} {row['id']}")
        if rows:
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
        self._console.print(recap(self._db.get_messages(session_id), self._console.style))
        self._tell(f"Going on with {session_id}.")

    def _search(self, query: str) -> None:
        if not query:
            raise InvalidInput("Say what to search for: /search docker build")
        answer = self._db.search(query, limit=_FOUND)
        for hit in answer.hits:
            name = one_line(hit.title or hit.session_id)
            self._tell(f"{name} ({hit.session_id})", f"  {hit.role}: {one_line(hit.snippet)}")
        total = answer.account.total or 0
        self._tell(counted(total, "match").replace("matchs", "matches") + ".")

    def _compress(self, focus: str) -> None:
        self._tell("Summarising…")
        self._held.compress(focus or None)
        self._tell(f"Going on with the summary in {self._held.session_id}.")

    def _retry(self, _argument: str) -> None:
        self._report(self._show(self._held.retry()))

    def _undo(self, number: str) -> None:
        if number and not number.isdecimal():
            raise InvalidInput("Say how many exchanges to take back: /undo 2")
        done = self._held.undo(int(number) if number else 1)
        taken = counted(done["exchanges"], "exchange")
        text = cut(one_line(done["text"] or ""), 60, self._console.style.ellipsis)
        self._tell(f"Took back {taken}, from: {text}")

    def _branch(self, title: str) -> None:
        self._held.branch(title or None)
        self._tell(
            f"Going on in a copy: {self._held.session_id} ({one_line(self._held.title or '')})."
        )

    def _queue(self, text: str) -> None:
        if not text:
            raise InvalidInput("Say what to queue: /queue and then this")
        # Nothing is being answered when a line can be typed here.
        self._report(self._show(self._held.say(text)))

    def _stop(self, _argument: str) -> None:
        self._tell("Nothing is running. Ctrl-C interrupts an answer.")

    def _status(self, _argument: str) -> None:
        session = self._session()
        self._tell(f"Model: {self._chosen.description}")
        if session is None:
            self._tell("Session: begins with your first message.")
            return
        self._tell(
            f"Session: {session['id']}",
            f"Title: {one_line(session['title'] or 'none')}",
            f"Messages: {session['message_count']}",
        )

    def _usage(self, _argument: str) -> None:
        session = self._session()
        if session is None:
            self._tell("Nothing was used yet.")
            return
        cost = session["actual_cost_usd"] or session["estimated_cost_usd"]
        self._tell(
            f"Calls: {session['api_call_count']}",
            f"Tokens: {session['input_tokens']} in, {session['output_tokens']} out, "
            f"{session['cache_read_tokens']} of them cached",
            f"Cost: {f'about ${cost:.4f}' if cost else 'unknown'}",
        )

    def _export(self, name: str) -> None:
        session = self._session()
        if session is None:
            raise InvalidInput("There is nothing to export yet.")
        from hermes_sessions.cli.chat.exporting import export_session

        self._tell(f"Wrote {export_session(self._db, session['id'], name)}.")

    def _model(self, name: str) -> None:
        agent = self._held.agent
        if name:
            self._held.agent = agent.with_model(name)
            self._tell(f"{name} is asked from now on.")
        else:
            self._tell(f"{agent.model or agent.client.default_model} at {agent.client.name}")

    def _session(self) -> dict[str, Any] | None:
        held = self._held.session_id
        return self._db.get_session(held) if held else None

    def _report(self, ended: Ended | None) -> None:
        if ended is not None and ended.error is not None:
            raise ended.error
