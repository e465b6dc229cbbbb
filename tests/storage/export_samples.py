"""Stores with everything that an export must contain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hermes_sessions.storage.sessiondb import SessionDB

Record = dict[str, Any]


def ticking(start: float = 1_700_000_000.0) -> Callable[[], float]:
    """A clock that moves on by a quarter of a second each time it is read."""
    now = start

    def clock() -> float:
        nonlocal now
        now += 0.25
        return now

    return clock


def fill(db: SessionDB) -> None:
    """Use every verb whose effect an export record carries."""
    _chain(db)
    _contents(db)
    _rewinds(db)
    _family(db)
    db.create_session("empty", "cli", started_at=1_600_000_000.5)
    db.create_session("replaced", "cli")
    db.append_messages("replaced", [{"role": "user", "content": f"old {n}"} for n in range(3)])
    db.replace_messages("replaced", [{"role": "user", "content": "its ordinals start later"}])
    db.create_session("trashed", "cli")
    db.append_message("trashed", "user", "not exported")
    db.trash_sessions(["trashed"])
    db.set_tags("head", ["漓江", "needs review"])
    db.set_metadata("contents", {"größe": 1, "nul": "\x00", "deep": {"größe": 2}})
    # The directory does not exist, so git has nothing to say about it.
    db.create_session("contents", "cli", cwd="/projects/漓江")
    # Archived last: the whole chain of the session goes with it.
    db.set_session_archived("empty")


def _chain(db: SessionDB) -> None:
    db.create_session(
        "head",
        "telegram",
        model="m/1",
        model_config={"größe": 1},
        system_prompt="kept to the byte\r\n",
        user_id="u",
    )
    db.set_session_title("head", "Projekt 漓江")
    db.append_message("head", "user", "first question")
    db.append_message("head", "assistant", "answer", finish_reason="stop", token_count=7)
    db.update_token_counts(
        "head", 11, 12, "m/1", estimated_cost_usd=0.5, billing_provider="p", api_call_count=1
    )
    db.record_auxiliary_usage("head", "title", model="small", input_tokens=3)
    db.end_session("head", "compression")
    db.create_session("tip", "telegram", parent_session_id="head", user_id="u")
    db.set_session_title("tip", db.get_next_title_in_lineage("Projekt 漓江"))
    db.append_message("tip", "user", "goes on", external_id="ext-1")
    db.append_message("head", "user", "a late message in the part before")


def _contents(db: SessionDB) -> None:
    db.create_session("contents", "cli")
    for content in (
        None,
        "",
        "plain",
        "NUL \x00 and \ufdd0 and \ufdd00000",
        "lone \ud83d and \udc00",
        "two that read as one: \ud83d" + "\ude00",
        "😀 漓江 \u2028 \r\n",
        b"\x00\xff raw",
        b"",
        [{"type": "text", "text": "Bild 漓江"}, {"n": 1.5, "deep": [[None, True]]}],
        {"an": "object", "\ud83d": "\x00"},
        [],
    ):
        db.append_message("contents", "user", content)
    db.append_message(
        "contents",
        "assistant",
        None,
        tool_calls=[{"id": "c1", "function": {"name": "f", "arguments": '{"größe": "\\u0000"}'}}],
        reasoning="why",
        reasoning_content="",
        reasoning_details=[{"type": "text", "text": "Schritt"}],
        codex_reasoning_items=[{"id": "r"}],
        codex_message_items=[{"id": "m"}],
    )
    db.append_message("contents", "tool", "ok", tool_name="f", tool_call_id="c1")
    for payload in (
        0,
        "",
        '{"not": "parsed"}',
        {"größe": ["漓江", 2**80, 0.1, None, False], "\ud83d": "\x00\ufdd0"},
        "two that read as one: \ud83d" + "\ude00",
    ):
        db.append_message("contents", "assistant", payload=payload, payload_private=True)
    db.append_message("contents", "user", "shown", payload={"text": "shown"})


def _rewinds(db: SessionDB) -> None:
    db.create_session("rewound", "cli")
    asked = [db.append_message("rewound", "user", f"question {n}") for n in range(4)]
    db.rewind_to_message("rewound", asked[3])
    db.restore_rewound("rewound")
    db.rewind_to_message("rewound", asked[2])
    db.append_message("rewound", "user", "another way")


def _family(db: SessionDB) -> None:
    db.create_session("parent", "cli")
    db.append_message("parent", "user", "do it")
    db.create_session("helper", "cli", parent_session_id="parent", edge_kind="subagent")
    db.append_message("helper", "user", "do a part of it")
    db.append_message("parent", "assistant", "done")
    db.end_session("parent", "branched")
    db.create_session("branch", "cli", parent_session_id="parent")
    db.append_message("branch", "user", "what if")
    db.create_session("moved", "telegram", parent_session_id="branch", edge_kind="handoff")
    # An orphan stays in the conversation of a root that is gone.
    db.create_session("gone", "cli")
    db.create_session("orphan", "cli", parent_session_id="gone", edge_kind="branch")
    db.append_message("orphan", "user", "left alone")
    db.delete_session("gone")


def everything(db: SessionDB) -> Record:
    """What two stores with the same sessions both answer."""
    records = db.export_all()
    ids = [record["id"] for record in records]
    return {
        "records": records,
        "listed": db.list_sessions_rich(limit=-1, include_archived=True),
        "by_start": db.list_sessions_rich(limit=-1, order_by_last_active=False),
        "conversations": {
            i: db.get_messages_as_conversation(i, include_ancestors=True) for i in ids
        },
        "tips": {i: db.get_compression_tip(i) for i in ids},
        "roots": {i: db.get_conversation_root(i) for i in ids},
        "chains": {i: db.get_compression_lineage(i) for i in ids},
        "usage": {i: db.get_model_usage(i) for i in ids},
        "rewinds": {i: db.list_rewinds(i) for i in ids},
        "messages": db.message_count(),
        "tags": db.list_tags(),
        # An import does not know when its workspaces were first seen.
        "workspaces": [w | {"created_at": 0.0} for w in db.list_workspaces()],
    }
