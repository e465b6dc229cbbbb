"""A state machine for what agent frameworks use: payloads, the end of a transcript, revisions and
state documents, against a model of lists and dictionaries.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hermes_sessions.errors import InvalidInput, RevisionConflict
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.conformance.helpers import assert_summary_is_true

texts = st.text(st.characters(codec=None), max_size=20)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool"])},
    optional={
        "content": texts,
        "payload": values,
        "payload_private": st.booleans(),
        "external_id": st.sampled_from(["e1", "e2", "e3"]),
    },
)
batches = st.lists(messages, max_size=3)
#: Whether a call states the revision, and if so, by how much it is wrong.
expectations = st.sampled_from([None, None, 0, 0, 1, -1])
owners = st.sampled_from([("session", "s"), ("user", "anna")])
names = st.sampled_from(["a", "b"])


@dataclass(eq=False)
class ModelMessage:
    given: dict[str, Any]
    id: int = 0
    hidden_by: int | None = None


@dataclass(eq=False)
class ModelRewind:
    #: Place of the last message in force before it; -1 without one.
    head: int
    hidden: int = 0
    restored: bool = False


@dataclass(eq=False)
class Model:
    messages: list[ModelMessage] = field(default_factory=list)
    rewinds: list[ModelRewind] = field(default_factory=list)
    revision: int = 0
    rewind_count: int = 0
    #: Value and revision by owner and name.
    state: dict[tuple[str, str, str], tuple[Any, int]] = field(default_factory=dict)

    @property
    def in_force(self) -> list[ModelMessage]:
        return [message for message in self.messages if message.hidden_by is None]

    def last_in_force(self, before: int) -> int:
        places = enumerate(self.messages[:before])
        return max((place for place, m in places if m.hidden_by is None), default=-1)

    def append(self, batch: list[dict[str, Any]]) -> None:
        for given in batch:
            external_id = given.get("external_id")
            if external_id is None or external_id not in self.external_ids:
                self.messages.append(ModelMessage(given))
                self.revision += 1

    @property
    def external_ids(self) -> set[str]:
        return {m.given["external_id"] for m in self.messages if "external_id" in m.given}

    def hide_from(self, place: int) -> int:
        rewind = ModelRewind(self.last_in_force(place))
        for message in self.messages[place:]:
            if message.hidden_by is None:
                message.hidden_by = len(self.rewinds)
                rewind.hidden += 1
        self.rewinds.append(rewind)
        return rewind.hidden


class FrameworkMachine(RuleBasedStateMachine):
    """Calls a store and the model alike, on the session "s" of the user "anna"."""

    #: Opens the store, which has no session "s".
    open_store: Callable[[], SessionDB]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.db = type(self).open_store()
        self.db.create_session("s", "cli", user_id="anna")

    def teardown(self) -> None:
        for found in (*self.db.list_state("user", "anna"),):
            self.db.delete_state("user", "anna", found["name"])
        self.db.delete_session("s")
        self.db.close()

    def change(self, off: int | None, call: Callable[..., Any], *, refused: bool = False) -> Any:
        """Make a call that expects a revision; return its result, or None if it was refused."""
        seen = None if off is None else self.model.revision + off
        if off:
            with pytest.raises(RevisionConflict) as raised:
                call(expected_revision=seen)
            assert (raised.value.expected, raised.value.actual) == (seen, self.model.revision)
            return None
        if refused:
            with pytest.raises(InvalidInput):
                call(expected_revision=seen)
            return None
        return [call(expected_revision=seen)]

    def learn_ids(self) -> None:
        stored = self.db.get_messages("s", include_inactive=True)
        assert len(stored) == len(self.model.messages)
        for message, row in zip(self.model.messages, stored, strict=True):
            assert message.id in (0, row["id"])
            message.id = row["id"]

    # ── messages ──────────────────────────────────────────────────────────────────────────────

    @rule(message=messages, off=expectations)
    def append(self, message: dict[str, Any], off: int | None) -> None:
        if self.change(off, lambda **seen: self.db.append_message("s", **message, **seen)):
            self.model.append([message])
            self.learn_ids()

    @rule(batch=batches, off=expectations)
    def append_batch(self, batch: list[dict[str, Any]], off: int | None) -> None:
        if self.change(off, lambda **seen: self.db.append_messages("s", batch, **seen)):
            self.model.append(batch)
            self.learn_ids()

    @rule(batch=batches, off=expectations)
    def replace(self, batch: list[dict[str, Any]], off: int | None) -> None:
        if self.change(off, lambda **seen: self.db.replace_messages("s", batch, **seen)):
            self.model.messages, self.model.rewinds = [], []
            self.model.revision += 1
            self.model.append(batch)
            self.learn_ids()

    @rule(off=expectations)
    def clear(self, off: int | None) -> None:
        if self.change(off, lambda **seen: self.db.clear_messages("s", **seen)):
            self.model.messages, self.model.rewinds = [], []
            self.model.revision += 1

    @rule(off=expectations)
    def clear_softly(self, off: int | None) -> None:
        if self.change(off, lambda **seen: self.db.clear_messages("s", soft=True, **seen)):
            self.hide(0)

    @rule(off=expectations)
    def pop(self, off: int | None) -> None:
        done = self.change(off, lambda **seen: self.db.pop_message("s", **seen))
        if done:
            [popped] = done
            in_force = self.model.in_force
            assert (popped and popped["id"]) == (in_force[-1].id if in_force else None)
            self.hide(len(in_force) - 1)

    @rule(keep=st.integers(0, 6), batch=batches, off=expectations)
    def replace_suffix(self, keep: int, batch: list[dict[str, Any]], off: int | None) -> None:
        given = [m["external_id"] for m in batch if "external_id" in m]
        taken = len(set(given)) < len(given) or bool(self.model.external_ids & set(given))
        done = self.change(
            off,
            lambda expected_revision: self.db.replace_suffix(
                "s", expected_revision=expected_revision, keep=keep, messages=batch
            ),
            refused=taken or keep > len(self.model.in_force),
        )
        if done:
            hidden = len(self.model.in_force) - keep
            self.hide(keep)
            self.model.append(batch)
            self.learn_ids()
            [result] = done
            assert result["hidden_count"] == hidden
            assert (result["rewind_id"] is None) == (hidden == 0)
            assert result["message_ids"] == [
                m.id for m in self.model.messages[len(self.model.messages) - len(batch) :]
            ]
            assert result["revision"] == self.model.revision

    def hide(self, keep: int) -> None:
        """Hide all in force but the first *keep*, as a change that is no rewind."""
        in_force = self.model.in_force
        if 0 <= keep < len(in_force):
            self.model.hide_from(self.model.messages.index(in_force[keep]))
            self.model.revision += 1

    @rule(place=st.integers(0, 8), off=expectations)
    def rewind(self, place: int, off: int | None) -> None:
        if not self.model.messages:
            return
        place %= len(self.model.messages)
        target = self.model.messages[place]
        done = self.change(
            off,
            lambda **seen: self.db.rewind_to_message("s", target.id, **seen),
            refused=target.given["role"] != "user",
        )
        if done:
            assert done[0]["rewound_count"] == self.model.hide_from(place)
            self.model.revision += 1
            self.model.rewind_count += 1

    @rule(number=st.none() | st.integers(0, 8), off=expectations)
    def restore(self, number: int | None, off: int | None) -> None:
        made = self.db.list_rewinds("s")
        chosen = self.model.rewinds
        options: dict[str, Any] = {}
        if number is not None and made:
            chosen = [chosen[number % len(made)]]
            options = {"rewind_id": made[number % len(made)]["id"]}
        undoable = [r for r in chosen if r.hidden and not r.restored]
        rewind = undoable[-1] if undoable else None
        last = self.model.last_in_force(len(self.model.messages))
        done = self.change(
            off,
            lambda **seen: self.db.restore_rewound("s", **options, **seen),
            refused=rewind is not None and rewind.head != last,
        )
        if done:
            assert done == [rewind.hidden if rewind else 0]
            if rewind is not None:
                for message in self.model.messages:
                    if message.hidden_by == self.model.rewinds.index(rewind):
                        message.hidden_by = None
                rewind.restored = True
                self.model.revision += 1

    # ── the session, and state ────────────────────────────────────────────────────────────────

    @rule(title=st.sampled_from(["one", "two", None]), off=expectations)
    def set_title(self, title: str | None, off: int | None) -> None:
        if self.change(off, lambda **seen: self.db.set_session_title("s", title, **seen)):
            self.model.revision += 1

    @rule(owner=owners, name=names, value=values, off=expectations)
    def set_state(self, owner: tuple[str, str], name: str, value: Any, off: int | None) -> None:
        stored = self.model.state.get((*owner, name), (None, 0))[1]
        seen = None if off is None else stored + off
        if off:
            with pytest.raises(RevisionConflict) as raised:
                self.db.set_state(*owner, name, value, expected_revision=seen)
            assert (raised.value.expected, raised.value.actual) == (seen, stored)
            return
        assert self.db.set_state(*owner, name, value, expected_revision=seen) == stored + 1
        self.model.state[*owner, name] = (value, stored + 1)
        self.model.revision += owner[0] == "session"

    @rule(owner=owners, name=names)
    def delete_state(self, owner: tuple[str, str], name: str) -> None:
        existed = self.model.state.pop((*owner, name), None) is not None
        assert self.db.delete_state(*owner, name) is existed
        self.model.revision += existed and owner[0] == "session"

    @rule()
    def move_out_and_in_again(self) -> None:
        """An export has everything but state."""
        exported = json.loads(json.dumps(self.db.export_session("s")))
        self.db.delete_session("s")
        assert self.db.import_sessions([exported])["imported"] == 1
        self.model.state = {k: v for k, v in self.model.state.items() if k[0] != "session"}
        for message in self.model.messages:
            message.id = 0
        self.learn_ids()

    # ── what must be true after every call ────────────────────────────────────────────────────

    @invariant()
    def messages_are_as_expected(self) -> None:
        stored = self.db.get_messages("s", include_inactive=True)
        assert [
            (m["role"], m["content"], m["payload"], m["payload_private"], m["external_id"])
            for m in stored
        ] == [
            (
                m.given["role"],
                m.given.get("content"),
                m.given.get("payload"),
                int(m.given.get("payload_private", False)),
                m.given.get("external_id"),
            )
            for m in self.model.messages
        ]
        in_force = self.model.in_force
        assert [m["id"] for m in self.db.get_messages("s")] == [m.id for m in in_force]
        payloads = [m.given["payload"] for m in in_force if m.given.get("payload") is not None]
        assert self.db.get_payloads("s") == payloads
        assert self.db.get_payloads("s", limit=2) == payloads[-2:]

    @invariant()
    def the_session_is_as_expected(self) -> None:
        session = self.db.get_session("s")
        assert session is not None
        assert (session["revision"], session["rewind_count"]) == (
            self.model.revision,
            self.model.rewind_count,
        )
        assert [
            (r["hidden_count"], r["restored_at"] is not None) for r in self.db.list_rewinds("s")
        ] == [(r.hidden, r.restored) for r in self.model.rewinds]
        assert_summary_is_true(self.db, "s")

    @invariant()
    def state_is_as_expected(self) -> None:
        stored = {
            (found["scope"], found["owner"], found["name"]): (found["value"], found["revision"])
            for owner in (("session", "s"), ("user", "anna"))
            for found in self.db.list_state(*owner)
        }
        assert stored == self.model.state
