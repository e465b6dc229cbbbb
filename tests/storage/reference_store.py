"""What a session store does, in plain dictionaries and lists: slow, small and obviously right.

The property tests drive this and the real store with the same calls and compare everything that
can be read. Rules of titles, lineage and summaries are written again here, from their definition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

COMPRESSION, BRANCH, SUBAGENT, HANDOFF = "compression", "branch", "subagent", "handoff"


class Refused(Exception):
    """The call must fail, and change nothing."""


@dataclass
class ReferenceMessage:
    role: str
    content: Any
    timestamp: float
    tool_calls: list[Any] | None = None
    external_id: str | None = None
    id: int = 0
    hidden_by: int | None = None


@dataclass
class ReferenceRewind:
    id: int
    position: int
    #: Place of the last message in force before it.
    head: int
    hidden: int = 0
    restored: bool = False


@dataclass
class ReferenceSession:
    id: str
    source: str
    started_at: float
    model: str | None = None
    parent: str | None = None
    kind: str | None = None
    end_reason: str | None = None
    ended_at: float | None = None
    title: str | None = None
    archived: bool = False
    trashed_at: float | None = None
    title_in_trash: str | None = None
    input_tokens: int = 0
    rewind_count: int = 0
    messages: list[ReferenceMessage] = field(default_factory=list)
    rewinds: list[ReferenceRewind] = field(default_factory=list)

    def last_in_force(self, before: int) -> int:
        """Return the place of the last message in force before a place, -1 without one."""
        places = enumerate(self.messages[:before])
        return max((place for place, m in places if m.hidden_by is None), default=-1)

    @property
    def in_force(self) -> list[ReferenceMessage]:
        return [message for message in self.messages if message.hidden_by is None]


class ReferenceStore:
    """The verbs that change something, and the questions about lineage."""

    def __init__(self) -> None:
        self.all: dict[str, ReferenceSession] = {}

    # ── who is there ──────────────────────────────────────────────────────────────────────────

    @property
    def visible(self) -> dict[str, ReferenceSession]:
        return {name: s for name, s in self.all.items() if s.trashed_at is None}

    def _known(self, name: str) -> ReferenceSession:
        if name not in self.visible:
            raise Refused
        return self.visible[name]

    def ancestors(self, name: str) -> Iterator[str]:
        """Yield the session and what is above it, in the trash or not."""
        current: str | None = name
        while current is not None:
            yield current
            current = self.all[current].parent

    def root(self, name: str) -> str:
        return list(self.ancestors(name))[-1]

    def _visible_parent(self, session: ReferenceSession) -> ReferenceSession | None:
        return self.visible.get(session.parent) if session.parent is not None else None

    def head(self, name: str) -> str:
        session = self.visible[name]
        while session.kind == COMPRESSION and (parent := self._visible_parent(session)):
            session = parent
        return session.id

    def tip(self, name: str) -> str:
        while children := [
            s for s in self.visible.values() if s.parent == name and s.kind == COMPRESSION
        ]:
            name = max(children, key=lambda s: (s.started_at, s.id)).id
        return name

    def chain(self, name: str) -> set[str]:
        return {other for other in self.visible if self.head(other) == self.head(name)}

    def threads(self) -> dict[str, str]:
        """Return the tip and the head of every thread that lists show."""
        heads = {self.head(name) for name in self.visible}
        return {
            self.tip(head): head
            for head in heads
            if self._visible_parent(self.all[head]) is None
            or self.all[head].kind in (BRANCH, HANDOFF)
        }

    # ── lifecycle ─────────────────────────────────────────────────────────────────────────────

    def create(
        self,
        name: str,
        source: str,
        model: str | None,
        parent: str | None,
        kind: str | None,
        now: float,
    ) -> None:
        if kind is not None and parent is None:
            raise Refused
        if name in self.all and name not in self.visible:
            raise Refused
        existing = self.visible.get(name)
        joins = parent is not None and (existing is None or existing.parent is None)
        if joins and existing is not None and parent == name:
            joins = False
        if joins and (parent not in self.visible or parent == name):
            raise Refused
        session = existing or ReferenceSession(name, source, now)
        session.model = session.model or model
        self.all[name] = session
        if joins and parent is not None:
            above = self.all[parent]
            if existing is not None and name in self.ancestors(parent):
                return
            by_end = {"compression": COMPRESSION, "branched": BRANCH}.get(above.end_reason or "")
            session.parent, session.kind = parent, kind or by_end
            if existing is None and session.kind == COMPRESSION:
                session.archived = above.archived

    def end(self, name: str, reason: str, now: float) -> None:
        session = self.visible.get(name)
        if session and session.ended_at is None:
            session.ended_at, session.end_reason = now, reason

    def reopen(self, name: str) -> None:
        if session := self.visible.get(name):
            session.ended_at = session.end_reason = None

    def add_tokens(self, name: str, tokens: int, now: float) -> None:
        self.create(name, "unknown", None, None, None, now)
        self.all[name].input_tokens += tokens

    # ── messages ──────────────────────────────────────────────────────────────────────────────

    def append(self, name: str, messages: list[ReferenceMessage]) -> list[int | None]:
        """Append; return for each message the id it must get, None when the store gives one."""
        session = self._known(name)
        given: list[int | None] = []
        for message in messages:
            same = [m for m in session.messages if m.external_id == message.external_id]
            if message.external_id is not None and same:
                given.append(same[0].id or None)
            else:
                session.messages.append(message)
                given.append(None)
        return given

    def clear(self, name: str) -> None:
        if session := self.visible.get(name):
            session.messages, session.rewinds = [], []

    def replace(self, name: str, messages: list[ReferenceMessage]) -> None:
        if messages:
            self._known(name)
        self.clear(name)
        if messages:
            self.append(name, messages)

    def rewind(self, name: str, message_id: int) -> int:
        session = self._known(name)
        places = {message.id: place for place, message in enumerate(session.messages)}
        if message_id not in places or session.messages[places[message_id]].role != "user":
            raise Refused
        position = places[message_id]
        rewind = ReferenceRewind(len(session.rewinds), position, session.last_in_force(position))
        for message in session.messages[rewind.position :]:
            if message.hidden_by is None:
                message.hidden_by = rewind.id
                rewind.hidden += 1
        session.rewinds.append(rewind)
        session.rewind_count += 1
        return rewind.hidden

    def restore_rewound(self, name: str, number: int | None = None) -> int:
        session = self.visible.get(name)
        if session is None:
            return 0
        chosen = session.rewinds if number is None else [session.rewinds[number]]
        undoable = [r for r in chosen if r.hidden and not r.restored]
        if not undoable:
            return 0
        rewind = undoable[-1]
        if session.last_in_force(len(session.messages)) != rewind.head:
            raise Refused
        for message in session.messages:
            if message.hidden_by == rewind.id:
                message.hidden_by = None
        rewind.restored = True
        return rewind.hidden

    # ── titles ────────────────────────────────────────────────────────────────────────────────

    def holder_of(self, title: str) -> ReferenceSession | None:
        return next((s for s in self.visible.values() if s.title == title), None)

    def set_title(self, name: str, title: str | None) -> bool:
        holder = self.holder_of(title) if title else None
        if holder and holder.id != name:
            earlier = set(self.ancestors(name)) & self.chain(name) if name in self.visible else ()
            if holder.id not in earlier:
                raise Refused
            holder.title = None
        if name in self.visible:
            self.all[name].title = title
        return name in self.visible

    def free_variant(self, title: str) -> str:
        if self.holder_of(title) is None:
            return title
        return self.next_title(title)

    def next_title(self, title: str) -> str:
        base = re.sub(r" #[0-9]+$", "", title)
        numbers = [0]
        for session in self.visible.values():
            match = re.fullmatch(r"(.*?)(?: #([0-9]+))?", session.title or "")
            if session.title and match and match[1].lower() == base.lower():
                numbers.append(int(match[2] or 1))
        return f"{base} #{max(numbers) + 1}" if len(numbers) > 1 else base

    def set_auto_title(self, name: str, title: str) -> bool:
        session = self.visible.get(name)
        if not session or session.title:
            return False
        session.title = self.free_variant(title)
        return True

    # ── out of sight ──────────────────────────────────────────────────────────────────────────

    def archive(self, name: str, archived: bool) -> bool:
        if name in self.visible:
            for member in self.chain(name):
                self.all[member].archived = archived
        return name in self.visible

    def with_subagents(self, name: str) -> list[str]:
        found = [name]
        for current in found:
            for session in self.all.values():
                started_by = session.parent if session.kind == SUBAGENT else None
                if started_by == current and session.id not in found:
                    found.append(session.id)
        return found

    def trash(self, name: str, now: float) -> set[str]:
        moved = set(self.with_subagents(name)) & self.visible.keys()
        for member in moved:
            session = self.all[member]
            session.trashed_at = now
            session.title_in_trash, session.title = session.title, None
        return moved

    def restore(self, name: str) -> list[str]:
        """Bring back; return the ids in the order in which they get their titles."""
        restored = [n for n in self.with_subagents(name) if n in self.all.keys() - self.visible]
        for member in restored:
            session = self.all[member]
            title, session.title_in_trash = session.title_in_trash, None
            session.title = self.free_variant(title) if title else None
            session.trashed_at = None
        return restored

    def purge(self) -> int:
        gone = self.all.keys() - self.visible.keys()
        for name in gone:
            self._remove(name)
        return len(gone)

    def delete(self, name: str) -> bool:
        if name not in self.visible:
            return False
        for victim in [n for n in self.with_subagents(name) if n in self.visible]:
            self._remove(victim)
        return True

    def _remove(self, name: str) -> None:
        del self.all[name]
        for session in self.all.values():
            if session.parent == name:
                session.parent = session.kind = None
