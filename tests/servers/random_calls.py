"""Random calls of the store's verbs, for comparing what several databases answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from hermes_sessions import Scope, SearchConditions, SessionDB

Operation = tuple[str, tuple[Any, ...], dict[str, Any]]

_IDS = ["a", "b", "B", "c-1", "c-10", "日本", "é", "with space", "nul\x00l", "\ud800"]
_TITLES = ["Plan", "plan", "Plan #2", "Plan #9", "Éclair", "éclair", "计划", "", None]
_SOURCES = ["cli", "telegram", "cron"]
_WORDS = (
    "deploy kubernetes 使用Kubernetes部署 don't path/to/file user@example.com 50% rm -rf v1.2.3 "
    "parseQuery snake_case 数据库 东京 カタカナ 한국어 naïve Straße 🙂 error: the a of and"
).split()
_VALUES = [0, "", [], {"größe": [2**80, 0.1, None, "\ud83d\x00"]}, "null", False]
_QUERIES = [
    "deploy",
    "kubernetes",
    "数据",
    "库",
    "don't",
    "path/to/file",
    '"rm -rf"',
    "deploy NOT error",
    "-deploy",
    "dep* OR 东京",
    "(deploy OR naive) -error",
    "*ubernet*",
    "what did we deploy to kubernetes",
    "role:user deploy",
    "source:cli",
    "before:2030-01-01 the",
    'in:"plan" deploy',
    "🙂",
    '"unfinished',
    "straße",
    "nothing_like_this",
]


def text(chance: random.Random) -> Any:
    kind = chance.random()
    words = chance.choices(_WORDS, k=chance.randint(0, 12))
    if kind < 0.8:
        return " ".join(words)
    if kind < 0.85:
        return None
    if kind < 0.9:
        return "odd \x00 \ud83d text " + " ".join(words)
    return [{"type": "text", "text": " ".join(words)}, {"type": "image", "url": "x"}]


def message(chance: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {
        "role": chance.choice(["user", "assistant", "tool"]),
        "content": text(chance),
    }
    if chance.random() < 0.2:
        made["tool_calls"] = [{"id": "1", "function": {"name": "terminal", "arguments": "{}"}}]
    if chance.random() < 0.2:
        made["external_id"] = chance.choice("xyz")
    if chance.random() < 0.2:
        made["timestamp"] = chance.choice([1.5, 1e9, 1_800_000_000.25, 3e9])
    if chance.random() < 0.2:
        made["payload"] = chance.choice(_VALUES)
        made["payload_private"] = chance.random() < 0.5
    return made


def operation(chance: random.Random, db: SessionDB) -> Operation:
    """One call: a verb, its arguments; *db* is asked for messages to refer to."""
    name = chance.choices(list(_OPERATIONS), _WEIGHTS)[0]
    arguments, options = _OPERATIONS[name](chance)
    if name in ("rewind_to_message", "get_messages_around"):
        messages = db.get_messages(arguments[0])
        if messages:
            arguments = (arguments[0], chance.choice(messages)["id"])
    return name, arguments, options


def _one(*parts: Callable[[random.Random], Any]) -> Callable[[random.Random], Any]:
    return lambda chance: (tuple(part(chance) for part in parts), {})


def _id(chance: random.Random) -> str:
    return chance.choice(_IDS)


def _title(chance: random.Random) -> str | None:
    return chance.choice(_TITLES)


def _number(chance: random.Random) -> int:
    return chance.randint(1, 60)


def _create(chance: random.Random) -> Any:
    options: dict[str, Any] = {}
    if chance.random() < 0.3:
        options["user_id"] = chance.choice(["ada", "Bob"])
    if chance.random() < 0.4:
        options["parent_session_id"] = _id(chance)
        if chance.random() < 0.7:
            options["edge_kind"] = chance.choice(["compression", "branch", "subagent"])
    if chance.random() < 0.3:
        options["model"] = chance.choice(["claude-4", "Hermes-4"])
        options["system_prompt"] = text(chance) if chance.random() < 0.3 else "be brief"
        if not isinstance(options["system_prompt"], str):
            options["system_prompt"] = None
    return (_id(chance), chance.choice(_SOURCES)), options


def _append(chance: random.Random) -> Any:
    return (_id(chance),), message(chance)


def _batch(chance: random.Random) -> Any:
    return (_id(chance), [message(chance) for _ in range(chance.randint(0, 4))]), {}


def _suffix(chance: random.Random) -> Any:
    return (_id(chance),), {
        "expected_revision": chance.choice([None, None, 3]),
        "keep": chance.randint(0, 3),
        "messages": [message(chance) for _ in range(chance.randint(0, 2))],
    }


def _owner(chance: random.Random) -> tuple[str, str]:
    scope = chance.choice(["session", "session", "user", "app"])
    return scope, _id(chance) if scope == "session" else "ada"


def _state(chance: random.Random) -> Any:
    return (*_owner(chance), chance.choice(["n", "N", "é\ud800"])), {}


def _new_state(chance: random.Random) -> Any:
    arguments, options = _state(chance)
    if chance.random() < 0.5:
        options["expected_revision"] = chance.choice([0, 1, 2])
    return (*arguments, chance.choice(_VALUES)), options


def _search(chance: random.Random) -> Any:
    options: dict[str, Any] = {"limit": chance.choice([1, 3, 20])}
    if chance.random() < 0.5:
        options["sort"] = chance.choice(["relevance", "newest", "oldest"])
    if chance.random() < 0.2:
        options["scope"] = chance.choice([Scope(user_id="ada"), Scope(source="cli")])
    if chance.random() < 0.2:
        options["conditions"] = chance.choice(
            [
                SearchConditions(roles=("user",)),
                SearchConditions(exclude_sources=("cron",)),
                SearchConditions(models=("CLAUDE",)),
                SearchConditions(sessions=("C-1",)),
                SearchConditions(tools=("terminal",)),
                SearchConditions(include_rewound=True),
            ]
        )
    return (chance.choice(_QUERIES),), options


def _search_messages(chance: random.Random) -> Any:
    options: dict[str, Any] = {"limit": chance.choice([2, 20]), "offset": chance.choice([0, 0, 1])}
    if chance.random() < 0.3:
        options["source_filter"] = [chance.choice(_SOURCES)]
    if chance.random() < 0.3:
        options["role_filter"] = ["user", "tool"]
    return (chance.choice(_QUERIES),), options


def _list(chance: random.Random) -> Any:
    return (), {
        "limit": chance.choice([-1, 3]),
        "include_children": chance.random() < 0.3,
        "order_by_last_active": chance.random() < 0.7,
        "include_archived": chance.random() < 0.3,
        "project_compression_tips": chance.random() < 0.7,
    }


def _tokens(chance: random.Random) -> Any:
    options: dict[str, Any] = {"input_tokens": 3, "output_tokens": chance.randint(0, 9)}
    if chance.random() < 0.3:
        options |= {"estimated_cost_usd": 0.25, "model": "claude-4"}
    return (_id(chance),), options


def _prune(chance: random.Random) -> Any:
    return (), {"older_than_days": chance.choice([1, 30, 90])}


_OPERATIONS: dict[str, Callable[[random.Random], Any]] = {
    "create_session": _create,
    "append_message": _append,
    "append_messages": _batch,
    "replace_messages": _batch,
    "clear_messages": lambda chance: ((_id(chance),), {"soft": chance.random() < 0.7}),
    "pop_message": _one(_id),
    "replace_suffix": _suffix,
    "get_payloads": _one(_id),
    "set_state": _new_state,
    "get_state": _state,
    "delete_state": _state,
    "list_state": lambda chance: (_owner(chance), {}),
    "set_session_title": _one(_id, _title),
    "set_auto_title_if_empty": _one(_id, lambda chance: chance.choice(["Plan", "New"])),
    "get_session_by_title": _one(lambda chance: chance.choice(["Plan", "plan", "Éclair"])),
    "resolve_session_by_title": _one(lambda chance: chance.choice(["Plan", "PLAN", "éclair"])),
    "get_next_title_in_lineage": _one(lambda chance: chance.choice(["Plan", "计划"])),
    "end_session": _one(_id, lambda chance: chance.choice(["compression", "user_exit"])),
    "reopen_session": _one(_id),
    "set_session_archived": _one(_id, lambda chance: chance.random() < 0.6),
    "set_session_pinned": _one(_id, lambda chance: chance.random() < 0.6),
    "trash_sessions": _one(lambda chance: [_id(chance)]),
    "restore_sessions": _one(lambda chance: [_id(chance)]),
    "delete_session": _one(_id),
    "rewind_to_message": _one(_id, _number),
    "restore_rewound": _one(_id),
    "list_rewinds": _one(_id),
    "get_session": _one(_id),
    "get_messages": _one(_id),
    "get_messages_as_conversation": _one(_id),
    "get_messages_around": _one(_id, _number),
    "list_sessions_rich": _list,
    "search_sessions": _one(),
    "list_conversation": _one(_id),
    "get_compression_lineage": _one(_id),
    "resolve_resume_session_id": _one(_id),
    "resolve_session_id": _one(lambda chance: chance.choice(["C", "c-1", "b", "É", "é", "w"])),
    "find_session_ids": _one(lambda chance: chance.choice(["C", "", "日", "W"])),
    "update_token_counts": _tokens,
    "get_model_usage": _one(_id),
    "get_stats": _one(),
    "get_sizes": _one(),
    "measure_sessions": _one(lambda chance: [_id(chance), _id(chance)]),
    "find_session_titles": _one(lambda chance: chance.choice(["P", "plan", "计", "é", ""])),
    "session_count": _one(),
    "message_count": _one(),
    "list_trash": _one(),
    "list_prune_candidates": _prune,
    "prune_sessions": _prune,
    "prune_empty_ghost_sessions": _one(),
    "export_session": _one(_id),
    "export_all": _one(),
    "search": _search,
    "search_messages": _search_messages,
    "set_meta": _one(_id, lambda chance: str(chance.random())),
    "get_meta": _one(_id),
    "try_acquire_compression_lock": _one(_id, lambda chance: chance.choice(["me", "you"])),
    "release_compression_lock": _one(_id, lambda chance: chance.choice(["me", "you"])),
    "get_compression_lock_holder": _one(_id),
}


_LIKELY = {"append_message": 12.0, "create_session": 4.0, "append_messages": 5.0, "search": 4.0}
_UNLIKELY = (
    *("delete_session", "trash_sessions", "prune_sessions", "clear_messages", "replace_messages"),
    *("set_session_archived", "set_session_pinned", "end_session"),
)
_WEIGHTS = [_LIKELY.get(name, 0.3 if name in _UNLIKELY else 1.0) for name in _OPERATIONS]


def perform(db: SessionDB, call: Operation) -> Any:
    """What the verb returns, or the kind of error it raises."""
    name, arguments, options = call
    try:
        return getattr(db, name)(*arguments, **options)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must be the same everywhere
        return type(error).__name__
