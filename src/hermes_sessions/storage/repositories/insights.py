"""Usage report over the sessions that started within the last days.

Sessions and their model usage are streamed; the database counts messages per quarter of an hour,
because the offset of every time zone is a multiple of that. Only the names of called tools are read
from messages. Memory use does not grow with the store.

A cost that was not stated is unknown, never zero: a sum is ``None`` when no part of it is known,
and ``cost_complete`` says whether all parts are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, tzinfo
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final, cast

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.message import names_of_calls
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.storage.codec import from_json
from hermes_sessions.storage.provider import ReadTransaction
from hermes_sessions.storage.repositories.rows import VISIBLE, Record, scope_condition
from hermes_sessions.storage.repositories.stale_sessions import settled_read
from hermes_sessions.storage.repositories.usage import TOKEN_COLUMNS
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import InsightsReport

_DAY: Final = 86400.0
#: Seconds in a quarter of an hour.
_QUARTER: Final = 900
_TOP: Final = 5
#: Calls covered by a subscription cost nothing extra.
_INCLUDED: Final = "included"
_UNKNOWN: Final = "unknown"
#: Reasoning tokens are part of the output, so they are not added to a total.
_TOTAL: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
_SESSION: Final = (
    "id",
    "title",
    "source",
    "model",
    "started_at",
    "last_active",
    "message_count",
    "tool_call_count",
)


class Insights:
    """Reports on how the store was used."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def report(
        self,
        days: float,
        source: str | None,
        zone: tzinfo | None,
        scope: Scope = OWNER,
    ) -> InsightsReport:
        """See `SessionDB.get_insights`."""
        if isinstance(days, bool) or not isinstance(days, (int, float)) or not days >= 0:
            raise InvalidInput(f"A number of days must be 0 or more, not {days!r}.")
        now = self._store.clock()
        where, params = [f"s.{VISIBLE}"], list[Any]()
        if days:
            where.append("s.started_at >= ?")
            params.append(now - days * _DAY)
        if source:
            where.append("s.source = ?")
            params.append(source)
        seen, values = scope_condition(scope, lambda name: f"s.{name}")
        condition = f"{' AND '.join(where)} AND {seen}"
        report = _Report(zone)
        with settled_read(self._store) as tx:
            selection = _Selection(tx, condition, (*params, *values))
            report.add_sessions(selection.sessions())
            report.add_usage(selection.usage())
            report.add_messages(selection.messages())
            report.add_calls(selection.calls())
        found = {
            "days": days,
            "source": source,
            "generated_at": now,
            "empty": not report.overview.sessions,
            **report.document(),
        }
        return cast("InsightsReport", found)


class _Selection:
    """The sessions of a report, with their usage and messages."""

    def __init__(self, tx: ReadTransaction, condition: str, params: tuple[Any, ...]) -> None:
        self._tx = tx
        self._condition = condition
        self._params = params

    def sessions(self) -> Iterator[Record]:
        """Yield every session with its counters, and whether it has usage rows per model."""
        columns = (
            *_SESSION,
            *TOKEN_COLUMNS,
            "estimated_cost_usd",
            "actual_cost_usd",
            "cost_status",
        )
        selected = ", ".join(f"s.{name}" for name in columns)
        for row in self._tx.stream(
            f"SELECT {selected}, CASE WHEN EXISTS (SELECT 1 FROM session_model_usage u "
            f"WHERE u.session_id = s.id AND u.task = ?) THEN 1 ELSE 0 END "
            f"FROM sessions s WHERE {self._condition}",
            ("", *self._params),
        ):
            yield dict(zip((*columns, "is_split"), row, strict=True))

    def usage(self) -> Iterator[Record]:
        """Yield the usage of each model, auxiliary tasks included, session by session."""
        used = (*TOKEN_COLUMNS, "estimated_cost_usd", "actual_cost_usd", "model", "task")
        of_session = ("source", "started_at", "cost_status")
        selected = ", ".join([f"u.{name}" for name in used] + [f"s.{name}" for name in of_session])
        for row in self._tx.stream(
            f"SELECT {selected}, s.id FROM session_model_usage u "
            f"JOIN sessions s ON s.id = u.session_id WHERE {self._condition} "
            f"ORDER BY u.session_id, u.route_key",
            self._params,
        ):
            yield dict(zip((*used, *of_session, "id"), row, strict=True))

    def messages(self) -> Iterator[tuple[str, str | None, int, int]]:
        """Yield (role, tool, start of a quarter of an hour, number of messages)."""
        quarter = f"FLOOR(m.timestamp / {_QUARTER})"
        for role, tool, number, count in self._tx.stream(
            f"SELECT m.role, m.tool_name, {quarter}, COUNT(*) FROM sessions s "
            f"JOIN messages m ON m.session_id = s.id WHERE {self._condition} "
            f"AND m.active = 1 AND m.compacted = 0 GROUP BY m.role, m.tool_name, {quarter}",
            self._params,
        ):
            # Another program may have stored a time that is not a number.
            yield role, tool, int(number or 0) * _QUARTER, int(count)

    def calls(self) -> Iterator[str]:
        """Yield the name of every tool that was called."""
        for (calls,) in self._tx.stream(
            f"SELECT m.tool_calls FROM sessions s JOIN messages m ON m.session_id = s.id "
            f"WHERE {self._condition} AND m.active = 1 AND m.compacted = 0 "
            f"AND m.tool_calls IS NOT NULL",
            self._params,
        ):
            yield from names_of_calls(from_json(calls, []))


@dataclass(slots=True)
class _Tally:
    """Totals of a group of sessions."""

    sessions: int = 0
    messages: int = 0
    tool_calls: int = 0
    used: Counter[str] = field(default_factory=Counter)
    #: The sum of the known costs.
    cost: float | None = None
    cost_complete: bool = True
    newest_session: str | None = None

    def add_session(self, session: Record) -> None:
        self.sessions += 1
        self.messages += session["message_count"] or 0
        self.tool_calls += session["tool_call_count"] or 0

    def add_usage(self, usage: Record, cost: float | None) -> None:
        self.used.update({name: int(usage[name] or 0) for name in TOKEN_COLUMNS})
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost
        elif any(usage[name] for name in TOKEN_COLUMNS):
            self.cost_complete = False

    @property
    def total_tokens(self) -> int:
        return sum(self.used[name] for name in _TOTAL)

    def document(self) -> Record:
        return {
            "sessions": self.sessions,
            "messages": self.messages,
            "tool_calls": self.tool_calls,
            **{name: self.used[name] for name in TOKEN_COLUMNS},
            "total_tokens": self.total_tokens,
            "cost_usd": self.cost,
            "cost_complete": self.cost_complete,
        }


class _Report:
    """Collects the numbers of a report."""

    def __init__(self, zone: tzinfo | None) -> None:
        self._zone = zone
        self.overview = _Tally()
        self._roles: Counter[str] = Counter()
        self._seconds = 0.0
        self._first: float | None = None
        self._last: float | None = None
        self._models: dict[str, _Tally] = {}
        self._sources: dict[str, _Tally] = {}
        self._days: dict[date, _Tally] = {}
        self._hours, self._weekdays = [0] * 24, [0] * 7
        self._answered: Counter[str] = Counter()
        self._called: Counter[str] = Counter()
        self._top = {
            "longest": _Best("duration_seconds"),
            "most_messages": _Best("message_count"),
            "most_tokens": _Best("total_tokens"),
            "most_tool_calls": _Best("tool_call_count"),
        }

    def add_sessions(self, sessions: Iterable[Record]) -> None:
        for session in sessions:
            start = session["started_at"]
            end = max(session["last_active"] or start, start)
            session["duration_seconds"] = round(end - start, 3)
            session["total_tokens"] = sum(session[name] or 0 for name in _TOTAL)
            self._seconds += end - start
            self._first = start if self._first is None else min(self._first, start)
            self._last = end if self._last is None else max(self._last, end)
            for tally in (self.overview, self._source(session), self._day(start)):
                tally.add_session(session)
            if not session["is_split"]:
                # Without usage rows, the session's totals count for its model.
                self._count(session, _cost_of_session(session))
                self._model(session).sessions += 1
            for best in self._top.values():
                best.offer(session)

    def add_usage(self, rows: Iterable[Record]) -> None:
        for usage in rows:
            self._count(usage, _cost_of_usage(usage))
            model = self._model(usage)
            # A session that uses a model over two routes counts once for that model.
            if not usage["task"] and model.newest_session != usage["id"]:
                model.sessions += 1
                model.newest_session = usage["id"]

    def _count(self, usage: Record, cost: float | None) -> None:
        for tally in (
            self.overview,
            self._source(usage),
            self._day(usage["started_at"]),
            self._model(usage),
        ):
            tally.add_usage(usage, cost)

    def add_messages(self, counts: Iterable[tuple[str, str | None, int, int]]) -> None:
        for role, tool, begins, count in counts:
            moment = self._moment(begins)
            self._roles[role] += count
            self._hours[moment.hour] += count
            self._weekdays[moment.weekday()] += count
            self._days.setdefault(moment.date(), _Tally()).used["said"] += count
            if role == "tool" and tool:
                self._answered[tool] += count

    def add_calls(self, names: Iterable[str]) -> None:
        self._called.update(names)

    def _source(self, row: Record) -> _Tally:
        return self._sources.setdefault(row["source"], _Tally())

    def _model(self, row: Record) -> _Tally:
        # A provider prefix names the seller; the model is the same.
        name = (row["model"] or "").rpartition("/")[2] or _UNKNOWN
        return self._models.setdefault(name, _Tally())

    def _day(self, moment: float) -> _Tally:
        return self._days.setdefault(self._moment(moment).date(), _Tally())

    def _moment(self, timestamp: float) -> datetime:
        try:
            return datetime.fromtimestamp(timestamp, self._zone)
        except (OverflowError, ValueError, OSError):
            # Imported files may hold any number; one odd time must not break the report.
            return datetime.fromtimestamp(0, self._zone)

    # ── what it says ──────────────────────────────────────────────────────────────────────────

    def document(self) -> Record:
        return {
            "overview": self._overview(),
            "models": _ranked("model", self._models, without=("messages", "tool_calls")),
            "tools": self._tools(),
            "platforms": _ranked("source", self._sources),
            "activity": self._activity(),
            "over_time": self._over_time(),
            "top_sessions": {name: best.document() for name, best in self._top.items()},
        }

    def _overview(self) -> Record:
        tally = self.overview
        sessions = tally.sessions or 1
        return {
            **tally.document(),
            "user_messages": self._roles["user"],
            "assistant_messages": self._roles["assistant"],
            "tool_messages": self._roles["tool"],
            "hours": self._seconds / 3600,
            "average_duration_seconds": self._seconds / sessions,
            "messages_per_session": tally.messages / sessions,
            "tokens_per_session": tally.total_tokens / sessions,
            "first": self._first,
            "last": self._last,
        }

    def _tools(self) -> list[Record]:
        # A result or the calling message may be missing, so the larger number is right.
        counts = {
            name: max(self._answered[name], self._called[name])
            for name in self._answered.keys() | self._called.keys()
        }
        total = sum(counts.values())
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return [
            {"tool": name, "calls": count, "percent": 100 * count / total} for name, count in ranked
        ]

    def _activity(self) -> Record:
        days = sorted(day for day, tally in self._days.items() if tally.used["said"])
        longest = streak = 0
        before: date | None = None
        for day in days:
            streak = streak + 1 if before and day - before == timedelta(days=1) else 1
            longest, before = max(longest, streak), day
        return {
            "by_hour": self._hours,
            "by_weekday": self._weekdays,
            "busiest_hour": self._hours.index(max(self._hours)) if days else None,
            "busiest_weekday": self._weekdays.index(max(self._weekdays)) if days else None,
            "active_days": len(days),
            "longest_streak": longest,
        }

    def _over_time(self) -> list[Record]:
        return [
            {
                "date": day.isoformat(),
                "sessions": tally.sessions,
                "messages": tally.used["said"],
                "total_tokens": tally.total_tokens,
                "cost_usd": tally.cost,
                "cost_complete": tally.cost_complete,
            }
            for day, tally in sorted(self._days.items())
        ]


class _Best:
    """The sessions with the highest values."""

    def __init__(self, measure: str) -> None:
        self._measure = measure
        self._sessions: list[Record] = []

    def offer(self, session: Record) -> None:
        if session[self._measure]:
            self._sessions.append(session)
            if len(self._sessions) >= 100 * _TOP:
                self._sessions = self._best()

    def _best(self) -> list[Record]:
        return nsmallest(_TOP, self._sessions, key=lambda s: (-s[self._measure], s["id"]))

    def document(self) -> list[Record]:
        return [
            {
                "id": session["id"],
                "title": session["title"],
                "source": session["source"],
                "value": session[self._measure],
            }
            for session in self._best()
        ]


def _ranked(name: str, tallies: dict[str, _Tally], without: tuple[str, ...] = ()) -> list[Record]:
    """Return tallies as documents: most tokens first, then most sessions."""
    ranked = sorted(tallies.items(), key=lambda i: (-i[1].total_tokens, -i[1].sessions, i[0]))
    return [
        {name: key} | {k: v for k, v in tally.document().items() if k not in without}
        for key, tally in ranked
    ]


def _cost_of_session(session: Record) -> float | None:
    """Return the stated cost of a session; an estimate of 0 is the column's default: unknown."""
    if session["actual_cost_usd"] is not None:
        return float(session["actual_cost_usd"])
    if session["estimated_cost_usd"]:
        return float(session["estimated_cost_usd"])
    return 0.0 if session["cost_status"] == _INCLUDED else None


def _cost_of_usage(usage: Record) -> float | None:
    for name in ("actual_cost_usd", "estimated_cost_usd"):
        if usage[name] is not None:
            return float(usage[name])
    return 0.0 if usage["cost_status"] == _INCLUDED else None
