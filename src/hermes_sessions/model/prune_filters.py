"""Filters of pruning and archiving: which threads a caller means.

A thread is what a list shows in one row: a compression chain with the identity of its first session
and the state of its last one. Its counters are sums. Filters apply to threads, because a pruned or
archived thread goes as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, TypedDict, cast

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.lineage import SUBAGENT


class PruneFilters(TypedDict, total=False):
    """What `SessionDB.prune_sessions` and its siblings select by; None means any value."""

    #: Started, and last active, before this time; replaces the age.
    started_before: float | None
    started_after: float | None
    #: Parts of a text, case ignored.
    title_like: str | None
    model_like: str | None
    branch_like: str | None
    end_reason: str | None
    user_id: str | None
    chat_id: str | None
    chat_type: str | None
    #: The billing provider, case ignored.
    provider: str | None
    #: The working directory or one above it.
    cwd_prefix: str | None
    min_messages: float | None
    max_messages: float | None
    #: Input and output tokens.
    min_tokens: float | None
    max_tokens: float | None
    #: In US dollars: the actual cost, else the estimated one, else 0.
    min_cost: float | None
    max_cost: float | None
    min_tool_calls: float | None
    max_tool_calls: float | None
    archived: bool | None


class ThreadMember(NamedTuple):
    """The columns of a session that filters read."""

    id: str
    conversation_id: str
    chain_id: str
    edge_kind: str | None
    source: str
    started_at: float
    ended_at: float | None
    last_active: float
    end_reason: str | None
    title: str | None
    model: str | None
    git_branch: str | None
    user_id: str | None
    chat_id: str | None
    chat_type: str | None
    billing_provider: str | None
    cwd: str | None
    message_count: int | None
    tool_call_count: int | None
    input_tokens: int | None
    output_tokens: int | None
    actual_cost_usd: float | None
    estimated_cost_usd: float | None
    archived_at: float | None


_NUMBERS: Final = frozenset(
    name for name in PruneFilters.__annotations__ if name.startswith(("started_", "min_", "max_"))
)


def checked_filters(filters: Mapping[str, Any]) -> PruneFilters:
    """Return the filters that are set.

    Raises:
        TypeError: there is no such filter.
        InvalidInput: a value has the wrong type.
    """
    unknown = filters.keys() - PruneFilters.__annotations__.keys()
    if unknown:
        raise TypeError(
            f"unknown filters: {', '.join(sorted(unknown))}. Known filters: "
            f"{', '.join(PruneFilters.__annotations__)}"
        )
    for name, value in filters.items():
        if value is None or name == "archived":
            continue
        if name in _NUMBERS:
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise InvalidInput(f"{name} must be a number, not {value!r}.")
        elif not isinstance(value, str):
            raise InvalidInput(f"{name} must be text, not {type(value).__name__}.")
    # An empty part of a text matches all.
    chosen = {name: value for name, value in filters.items() if value not in (None, "")}
    return cast("PruneFilters", chosen)


def threads_of(members: Iterable[ThreadMember]) -> list[list[ThreadMember]]:
    """Return the threads of these sessions, each from its first session to its last."""
    ordered = sorted(members, key=_position)
    return [
        list(part) for _, part in groupby(ordered, key=lambda m: (m.conversation_id, m.chain_id))
    ]


def _position(member: ThreadMember) -> tuple[Any, ...]:
    is_later = member.id != member.chain_id
    return member.conversation_id, member.chain_id, is_later, member.started_at, member.id


def conversation_matches(members: Iterable[ThreadMember], filters: PruneFilters) -> bool:
    """Return whether all threads of a conversation match; those of subagents go with theirs."""
    threads = [thread for thread in threads_of(members) if thread[0].edge_kind != SUBAGENT]
    return bool(threads) and all(thread_matches(thread, filters) for thread in threads)


def thread_matches(thread: Sequence[ThreadMember], filters: PruneFilters) -> bool:
    """Return whether a thread matches all filters."""
    return all(_TESTS[name](thread, wanted) for name, wanted in filters.items())


Thread = Sequence[ThreadMember]


def _contains(value: str | None, part: str) -> bool:
    return part.casefold() in (value or "").casefold()


def _sum(thread: Thread, amount: Callable[[ThreadMember], float]) -> float:
    return sum(map(amount, thread))


def is_in_directory(path: str | None, prefix: str) -> bool:
    """Return whether a path is *prefix* or below it, with separators of any system."""
    if path is None:
        return False
    root = prefix.rstrip("/\\")
    return path == root or path.startswith((f"{root}/", f"{root}\\"))


def _cost(member: ThreadMember) -> float:
    if member.actual_cost_usd is not None:
        return member.actual_cost_usd
    return member.estimated_cost_usd or 0.0


_AMOUNTS: Final[Mapping[str, Callable[[ThreadMember], float]]] = {
    "messages": lambda member: member.message_count or 0,
    "tokens": lambda member: (member.input_tokens or 0) + (member.output_tokens or 0),
    "cost": _cost,
    "tool_calls": lambda member: member.tool_call_count or 0,
}
#: What a thread must satisfy, by filter: identity from its first session, state from its last.
_TESTS: Final[Mapping[str, Callable[[Thread, Any], bool]]] = {
    "started_before": lambda thread, time: (
        max(thread[0].started_at, *(member.last_active for member in thread)) < time
    ),
    "started_after": lambda thread, time: thread[0].started_at >= time,
    "title_like": lambda thread, part: _contains(thread[-1].title, part),
    "model_like": lambda thread, part: _contains(thread[-1].model, part),
    "branch_like": lambda thread, part: _contains(thread[-1].git_branch, part),
    "end_reason": lambda thread, reason: thread[-1].end_reason == reason,
    "user_id": lambda thread, user: thread[0].user_id == user,
    "chat_id": lambda thread, chat: thread[0].chat_id == chat,
    "chat_type": lambda thread, kind: thread[0].chat_type == kind,
    "provider": lambda thread, name: (
        (thread[-1].billing_provider or "").casefold() == name.casefold()
    ),
    "cwd_prefix": lambda thread, prefix: is_in_directory(thread[-1].cwd, prefix),
    "archived": lambda thread, wanted: wanted is (thread[-1].archived_at is not None),
    **{
        f"min_{name}": lambda thread, low, amount=amount: _sum(thread, amount) >= low  # type: ignore[misc]
        for name, amount in _AMOUNTS.items()
    },
    **{
        f"max_{name}": lambda thread, high, amount=amount: _sum(thread, amount) <= high  # type: ignore[misc]
        for name, amount in _AMOUNTS.items()
    },
}
