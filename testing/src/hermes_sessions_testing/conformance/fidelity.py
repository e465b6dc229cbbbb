"""Fidelity: text comes back as it went in, in every column, whatever it contains."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import session

#: Text that some database, driver or encoder would change, cut or refuse.
DIFFICULT_TEXTS = {
    "plain": "plain",
    "NUL": "a\x00b",
    "only NUL": "\x00",
    "NUL at the end": "a\x00",
    "NUL and digits": "\x000000",
    "high surrogate": "a\ud83db",
    "low surrogate": "\udc80",
    "surrogates in reverse": "\udc00\ud800",
    "escape mark": "\ufdd0",
    "escape mark and hex digits": "\ufdd00000 \ufdd0d800 \ufdd0fdd0",
    "escape marks in a row": "\ufdd0\ufdd0\ufdd00000",
    "escape mark and NUL": "\ufdd0\x00\ufdd0",
    "noncharacters": "\ufdd1\ufffe\uffff\U0001ffff\U0010ffff",
    "emoji": "🎉👩‍👩‍👧‍👦🏳️‍🌈",
    "right to left": "שלום \u202eעולם\u202c مرحبا",
    "combining marks": "e\u0301 \u0301 é",
    "Thai and CJK": "ภาษาไทย 漢字かなカナ한국어 𠀀",
    "line ends": "a\r\nb\rc\nd\u2028e\u0085f",
    "white space": " \t\u00a0\u3000 ",
    "quotes": "'; DROP TABLE sessions; -- \" ` \\ \\' \\0 \\n \\u0000 %s %% ? :a $1 {}",
    "controls": "".join(map(chr, range(1, 32))) + "\x7f\x80\x9f",
    "BOM": "\ufeffa",
    "JSON": '{"a": "\\u0000 \\ud800"}',
    "a megabyte": "0123456789 äöü 漢字 🎉 " * 50_000,
}

SESSION_TEXTS = ("source", "user_id", "model", "system_prompt", "end_reason")
MESSAGE_TEXTS = (
    "role content tool_name tool_call_id finish_reason reasoning reasoning_content"
).split()
USAGE_TEXTS = ("billing_provider", "billing_base_url", "billing_mode")
COST_TEXTS = ("cost_status", "cost_source", "pricing_version")


def short(text: str) -> str:
    """Return the beginning of a text, for columns that are names and have bounds."""
    return text[:40]


@pytest.mark.parametrize("text", DIFFICULT_TEXTS.values(), ids=DIFFICULT_TEXTS)
class TestFidelity:
    """Behaviour 100: every text column keeps every text, lone surrogates and NUL included."""

    def test_content(self, db: SessionDB, text: str) -> None:
        """Behaviour 100: in messages, as text and inside structures."""
        db.create_session("s", "cli")
        structure = [{"type": "text", "text": text, short(text): [text]}, {"a": {"b": text}}]
        db.append_message("s", "tool", text)
        db.append_message("s", "tool", structure)
        db.append_messages("s", [{"role": "tool", "content": text}])
        read = [message["content"] for message in db.get_messages("s")]
        assert read == [text, structure, text]
        replayed = [message["content"] for message in db.get_messages_as_conversation("s")]
        assert replayed == [text, structure, text]
        exported = db.export_session("s")
        assert exported is not None
        assert [message["content"] for message in exported["messages"]] == [text, structure, text]

    def test_other_columns_of_a_message(self, db: SessionDB, text: str) -> None:
        """Behaviour 100: names, reasons, reasoning and tool calls."""
        db.create_session("s", "cli")
        given: dict[str, Any] = {
            name: text if name in ("content", "reasoning", "reasoning_content") else short(text)
            for name in MESSAGE_TEXTS
        }
        calls = [{"id": short(text), "function": {"name": short(text), "arguments": text}}]
        db.append_message("s", **given, tool_calls=calls, external_id=short(text))
        (stored,) = db.get_messages("s")
        assert {name: dict[str, Any](stored)[name] for name in given} == given
        assert stored["tool_calls"] == calls
        assert stored["external_id"] == short(text)

    def test_structures_of_an_assistant(self, db: SessionDB, text: str) -> None:
        """Behaviour 100: reasoning details and items of the provider."""
        db.create_session("s", "cli")
        structures: dict[str, Any] = {
            "reasoning_details": [{"text": text}],
            "codex_reasoning_items": [{"encrypted": text}],
            "codex_message_items": [{short(text): text}],
        }
        db.append_message("s", "assistant", "x", **structures)
        (replayed,) = db.get_messages_as_conversation("s")
        assert {name: dict[str, Any](replayed)[name] for name in structures} == structures

    def test_columns_of_a_session(self, db: SessionDB, text: str) -> None:
        """Behaviour 100: prompt, model, user, source and reason of the end."""
        db.create_session(
            "s",
            short(text),
            model=short(text),
            model_config={short(text): text},
            system_prompt=text,
            user_id=short(text),
        )
        db.end_session("s", short(text))
        stored = session(db, "s")
        expected = {name: short(text) for name in SESSION_TEXTS} | {"system_prompt": text}
        assert {name: stored[name] for name in SESSION_TEXTS} == expected
        db.update_system_prompt("s", text + text)
        assert session(db, "s")["system_prompt"] == text + text
        assert [row["id"] for row in db.list_sessions_rich(short(text))] == ["s"]

    def test_ids(self, db: SessionDB, text: str) -> None:
        """Behaviour 100: a session can be found by every id, whole or in part."""
        name = f"{short(text)}x"  # White space alone is not a valid id.
        db.create_session(name, "cli")
        db.create_session("child", "cli", parent_session_id=name, edge_kind="branch")
        db.append_message(name, "user", "hi")
        assert session(db, name)["id"] == name
        assert session(db, "child")["parent_session_id"] == name
        assert [message["session_id"] for message in db.get_messages(name)] == [name]
        assert db.resolve_session_id(name) == name
        longer = name + "\x00 and more"
        db.create_session(longer, "cli")
        assert db.resolve_session_id(name + "\x00 a") == longer
        assert set(db.find_session_ids(name)) == {name, longer}
        assert db.delete_session(name) is True
        assert session(db, "child")["parent_session_id"] is None

    def test_titles(self, db: SessionDB, clock: FrozenClock, text: str) -> None:
        """Behaviour 100: a title is stored as cleaning left it, and found by it."""
        title = SessionDB.sanitize_title(short(text))
        db.create_session("s", "cli")
        clock.advance(1)
        db.create_session("t", "cli")
        assert db.set_session_title("s", short(text)) is True
        assert db.get_session_title("s") == title
        if title is not None:
            found = db.get_session_by_title(title)
            assert found is not None
            assert found["id"] == "s"
            assert db.get_next_title_in_lineage(title) == f"{title} #2"
            assert db.set_auto_title_if_empty("t", title) is True
            assert db.get_session_title("t") == f"{title} #2"
            assert db.resolve_session_by_title(title) == "t"

    def test_meta(self, db: SessionDB, text: str) -> None:
        """Behaviour 100: keys and values."""
        db.set_meta(short(text), text)
        assert db.get_meta(short(text)) == text

    def test_usage(self, db: SessionDB, text: str) -> None:
        """Behaviour 100: routes, labels and tasks."""
        name = short(text)
        route: dict[str, Any] = dict.fromkeys(USAGE_TEXTS, name)
        labels: dict[str, Any] = dict.fromkeys(COST_TEXTS, name)
        for _ in range(2):
            db.update_token_counts("s", input_tokens=1, model=name, **route, **labels)
        stored = session(db, "s")
        assert stored["model"] == name
        assert {column: stored[column] for column in (*USAGE_TEXTS, *COST_TEXTS)} == route | labels
        (row,) = db.get_model_usage("s")
        assert (row["model"], row["input_tokens"]) == (name, 2)
        assert {column: dict[str, Any](row)[column] for column in USAGE_TEXTS} == route
        db.record_auxiliary_usage("s", name, model=name)
        assert [row["task"] for row in db.get_model_usage("s") if row["task"]] == [name]

    def test_locks(self, db: SessionDB, text: str) -> None:
        """Behaviour 100: session and holder."""
        name = f"{short(text)}x"
        db.create_session(name, "cli")
        assert db.try_acquire_compression_lock(name, name) is True
        assert db.get_compression_lock_holder(name) == name

    def test_previews(self, db: SessionDB, text: str) -> None:
        """Behaviour 100: the preview shows what was said."""
        db.create_session("s", "cli")
        db.append_message("s", "user", text)
        said = " ".join(text.split())
        preview = said if len(said) <= 60 else said[:60] + "..."
        assert db.list_sessions_rich()[0]["preview"] == preview

    def test_exports(self, db: SessionDB, text: str) -> None:
        """Behaviour 100: an import of an export restores every text."""
        name = "s" + short(text)
        db.create_session(name, name, model=name, system_prompt=text, model_config={name: text})
        db.append_message(name, "user", text, external_id=name)
        db.append_message(name, "assistant", [{"text": text}], tool_calls=[{name: text}])
        db.set_session_title(name, name)
        before = db.export_session(name)
        assert before is not None
        db.delete_session(name)
        assert db.import_sessions([before])["ok"] is True
        after = db.export_session(name)
        assert after is not None
        for message in (*before["messages"], *after["messages"]):
            message["id"] = 0
        assert after == before
