"""Lifecycle: create, end, reopen, and the values of a session."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput, UnknownSession
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import bases_of, session

#: The documented columns of a session, which scripts rely on.
DOCUMENTED_COLUMNS = (
    "id source user_id model model_config system_prompt parent_session_id started_at ended_at "
    "end_reason message_count tool_call_count input_tokens output_tokens cache_read_tokens "
    "cache_write_tokens reasoning_tokens billing_provider billing_base_url billing_mode "
    "estimated_cost_usd actual_cost_usd cost_status cost_source pricing_version title "
    "api_call_count handoff_state handoff_platform handoff_error"
).split()


class TestLifecycle:
    """Sessions are created once, end once, and can be reopened."""

    def test_a_new_session_has_the_documented_columns(
        self, db: SessionDB, clock: FrozenClock
    ) -> None:
        """A session record starts with the documented columns, in their order."""
        assert db.create_session("s", "cli") == "s"
        stored = session(db, "s")
        assert list(stored)[: len(DOCUMENTED_COLUMNS)] == DOCUMENTED_COLUMNS
        set_values = {name: stored[name] for name in DOCUMENTED_COLUMNS if stored[name]}
        assert set_values == {"id": "s", "source": "cli", "started_at": clock()}
        counters = [name for name in DOCUMENTED_COLUMNS if name.endswith(("_tokens", "_count"))]
        assert all(stored[name] == 0 for name in counters)

    def test_every_value_given_is_kept(self, db: SessionDB) -> None:
        """What `create_session` is given reads back."""
        db.create_session("p", "cli")
        given: dict[str, Any] = {
            "model": "m-1",
            "system_prompt": "Be brief.\r\n\tIndented.  \n",
            "user_id": "u-7",
            "parent_session_id": "p",
            "started_at": 1_700_000_000.123456,
        }
        db.create_session("s", "telegram", **given)
        stored = session(db, "s")
        assert {name: stored[name] for name in given} == given
        assert stored["source"] == "telegram"

    def test_a_session_without_an_id_gets_one(self, db: SessionDB) -> None:
        """A new one each time, made of the time and random digits."""
        first = db.create_session(source="cli", model="m-1")
        second = db.create_session()
        assert first != second
        for session_id, source in ((first, "cli"), (second, "unknown")):
            assert re.fullmatch(r"\d{8}_\d{6}_[0-9a-f]{8}", session_id)
            assert session(db, session_id)["source"] == source

    def test_creating_again_keeps_the_first_values(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 1: a second create changes nothing and returns the id."""
        assert db.create_session("s", "cli", model="first") == "s"
        before = session(db, "s")
        clock.advance(60)
        assert db.create_session("s", "telegram", model="second") == "s"
        assert session(db, "s") == before

    def test_creating_again_keeps_messages_title_and_end(self, db: SessionDB) -> None:
        """Behaviour 1: later changes are kept."""
        db.create_session("s", "cli")
        db.append_message("s", "user", "hi")
        db.set_session_title("s", "T")
        db.end_session("s", "done")
        before = session(db, "s")
        db.create_session("s", "cli")
        assert session(db, "s") == before
        assert db.message_count("s") == 1

    def test_an_unknown_argument_stores_nothing(self, db: SessionDB) -> None:
        """Behaviour 2: a keyword that does not exist is a TypeError."""
        unknown: dict[str, Any] = {"colour": "red"}
        with pytest.raises(TypeError):
            db.create_session("s", "cli", **unknown)
        with pytest.raises(TypeError):
            db.ensure_session("s", **unknown)
        assert db.get_session("s") is None

    def test_an_unknown_parent_stores_nothing(self, db: SessionDB) -> None:
        """Behaviour 3: the parent must exist."""
        with pytest.raises(UnknownSession) as raised:
            db.create_session("s", "cli", parent_session_id="nobody")
        assert "sqlite3.IntegrityError" in bases_of(raised.value)
        assert "nobody" in str(raised.value)
        assert db.get_session("s") is None
        assert db.session_count() == 0

    def test_a_model_config_is_json_text(self, db: SessionDB) -> None:
        """Behaviour 4: the configuration reads back as JSON text, an empty one as None."""
        db.create_session("a", "cli", model_config={"a": 1})
        db.create_session("b", "cli", model_config={})
        db.create_session("c", "cli", model_config={"名": "值 é"})
        assert session(db, "a")["model_config"] == '{"a": 1}'
        assert session(db, "b")["model_config"] is None
        assert session(db, "c")["model_config"] == '{"名": "值 é"}'

    def test_the_first_end_wins(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 5: a second end changes neither the reason nor the time."""
        db.create_session("s", "cli")
        ended_at = clock.advance(5)
        db.end_session("s", "compression")
        clock.advance(5)
        db.end_session("s", "user_exit")
        stored = session(db, "s")
        assert (stored["end_reason"], stored["ended_at"]) == ("compression", ended_at)

    def test_a_reopened_session_can_end_anew(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 6: reopening clears the end and nothing else."""
        db.create_session("s", "cli", model="m")
        db.append_message("s", "user", "hi")
        before = session(db, "s")
        db.end_session("s", "cli_close")
        db.reopen_session("s")
        assert session(db, "s") == before
        ended_at = clock.advance(5)
        db.end_session("s", "user_exit")
        stored = session(db, "s")
        assert (stored["end_reason"], stored["ended_at"]) == ("user_exit", ended_at)

    def test_unknown_sessions_are_reported_in_the_log(
        self, db: SessionDB, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Behaviour 7: end, reopen and prompt of an unknown id do nothing but warn."""
        changes: list[Callable[[], None]] = [
            lambda: db.end_session("missing", "done"),
            lambda: db.reopen_session("missing"),
            lambda: db.update_system_prompt("missing", "text"),
        ]
        for change in changes:
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                change()
            warnings = [r for r in caplog.records if r.levelno >= logging.WARNING]
            assert len(warnings) == 1
            assert "missing" in warnings[0].getMessage()
        assert db.get_session("missing") is None

    def test_no_such_session(self, db: SessionDB) -> None:
        """Behaviour 8: an unknown id returns None, whatever it looks like."""
        db.create_session("s", "cli")
        for unknown in ("missing", "S", "s ", " s", "", "%", "s\x00", "ſ"):
            assert db.get_session(unknown) is None

    def test_values_that_were_missing_are_filled_in(self, db: SessionDB) -> None:
        """Behaviour 91: a later create fills in missing values."""
        db.create_session("p", "cli")
        db.create_session("s", "gateway")
        db.create_session(
            "s",
            "cli",
            model="m",
            model_config={"a": 1},
            system_prompt="prompt",
            user_id="u",
            parent_session_id="p",
        )
        stored = session(db, "s")
        assert (stored["source"], stored["model"], stored["model_config"]) == (
            "gateway",
            "m",
            '{"a": 1}',
        )
        assert (stored["system_prompt"], stored["user_id"]) == ("prompt", "u")
        assert stored["parent_session_id"] == "p"
        db.ensure_session("s", model="other", system_prompt="other", user_id="other")
        assert session(db, "s") == stored

    def test_a_parent_filled_in_later_must_exist(self, db: SessionDB) -> None:
        """Behaviours 3 and 91: and the session stays as it was."""
        db.create_session("s", "cli")
        before = session(db, "s")
        with pytest.raises(UnknownSession):
            db.create_session("s", "cli", model="m", parent_session_id="nobody")
        assert session(db, "s") == before

    def test_ensure_session_creates_or_finds(self, db: SessionDB) -> None:
        """`ensure_session` takes its source from its default."""
        assert db.ensure_session("s") == "s"
        assert session(db, "s")["source"] == "unknown"
        assert db.ensure_session("s", "cli", "m") == "s"
        stored = session(db, "s")
        assert (stored["source"], stored["model"]) == ("unknown", "m")

    @pytest.mark.parametrize("source", [None, "", 5])
    def test_a_session_needs_a_source(self, db: SessionDB, source: Any) -> None:
        """A source that cannot be stored is an error, never a session silently left out."""
        with pytest.raises(InvalidInput) as raised:
            db.create_session("s", source)
        assert "ValueError" in bases_of(raised.value)
        assert db.session_count() == 0

    @pytest.mark.parametrize("moment", [float("nan"), float("inf"), "yesterday", True])
    def test_a_start_must_be_a_time(self, db: SessionDB, moment: Any) -> None:
        """A time that cannot be stored is an error."""
        with pytest.raises(InvalidInput):
            db.create_session("s", "cli", started_at=moment)
        assert db.get_session("s") is None

    def test_a_configuration_must_be_json(self, db: SessionDB) -> None:
        """A configuration that JSON cannot hold is an error."""
        with pytest.raises(InvalidInput):
            db.create_session("s", "cli", model_config={"a": object()})
        assert db.get_session("s") is None

    def test_prompt_and_model_are_overwritten(self, db: SessionDB) -> None:
        """The prompt reads back exactly, as prefix caches need it."""
        db.create_session("s", "cli", model="m", system_prompt="old")
        prompt = "  Line one\r\nline two\t\n\n" + "x" * 20_000 + " \n"
        db.update_system_prompt("s", prompt)
        db.update_session_model("s", "n")
        stored = session(db, "s")
        assert (stored["system_prompt"], stored["model"]) == (prompt, "n")
        db.update_system_prompt("s", None)
        assert session(db, "s")["system_prompt"] is None

    @pytest.mark.parametrize("reason", ["agent_close", "ws_orphan_reap"])
    def test_an_accidental_end_becomes_a_reset(
        self, db: SessionDB, clock: FrozenClock, reason: str
    ) -> None:
        """Behaviour 101: only accidental ends are promoted, and only once."""
        db.create_session("s", "telegram")
        assert db.promote_to_session_reset("s") is False
        ended_at = clock.advance(5)
        db.end_session("s", reason)
        clock.advance(5)
        assert db.promote_to_session_reset("s") is True
        stored = session(db, "s")
        assert (stored["end_reason"], stored["ended_at"]) == ("session_reset", ended_at)
        assert db.promote_to_session_reset("s") is False

    def test_an_intended_end_stays(self, db: SessionDB) -> None:
        """Behaviour 101: every other reason is left alone."""
        for reason in ("session_reset", "compression", "cli_close"):
            db.create_session(reason, "cli")
            db.end_session(reason, reason)
            assert db.promote_to_session_reset(reason) is False
            assert session(db, reason)["end_reason"] == reason
        assert db.promote_to_session_reset("missing") is False

    def test_a_reason_also_ends_an_open_session(self, db: SessionDB, clock: FrozenClock) -> None:
        """With a reason, an open session ends with it; an intended end stays."""
        db.create_session("s", "telegram")
        now = clock.advance(5)
        assert db.promote_to_session_reset("s", "idle") is True
        stored = session(db, "s")
        assert (stored["end_reason"], stored["ended_at"]) == ("idle", now)
        assert db.promote_to_session_reset("s", "daily") is False
        assert session(db, "s")["end_reason"] == "idle"

    def test_where_it_came_from(self, db: SessionDB) -> None:
        """Chat, directory and profile are stored, and filled in later, but not replaced."""
        origin: dict[str, Any] = {
            "session_key": "agent:main:t:dm:1",
            "chat_id": "1",
            "chat_type": "dm",
        }
        later: dict[str, Any] = {"thread_id": "7", "cwd": "/w/p", "profile_name": "work"}
        db.create_session("s", "telegram", **origin)
        db.create_session("s", "cli", chat_id="2", **later)
        stored = session(db, "s")
        assert {name: stored[name] for name in origin | later} == origin | later
        assert stored["source"] == "telegram"

    def test_an_origin_that_cannot_be_stored(self, db: SessionDB) -> None:
        """Ids that are numbers become text; anything else is refused."""
        db.create_session("s", "telegram", chat_id=42)  # type: ignore[arg-type]
        assert session(db, "s")["chat_id"] == "42"
        wrong: list[dict[str, Any]] = [{"chat_id": ["x"]}, {"session_key": "k" * 192}]
        for origin in wrong:
            with pytest.raises(InvalidInput):
                db.create_session("t", "cli", **origin)

    def test_a_configuration_is_replaced_as_text(self, db: SessionDB) -> None:
        """`update_session_meta` stores the text as it is, and the model if there is one."""
        db.create_session("s", "cli", model="m", model_config={"a": 1})
        db.update_session_meta("s", "no JSON")
        stored = session(db, "s")
        assert (stored["model_config"], stored["model"]) == ("no JSON", "m")
        assert len(db.list_sessions_rich()) == 1, "lists do not read it"
        db.update_session_meta("s", None, "n")
        stored = session(db, "s")
        assert (stored["model_config"], stored["model"]) == (None, "n")
        with pytest.raises(InvalidInput):
            db.update_session_meta("s", {"a": 1})  # type: ignore[arg-type]

    def test_a_billing_route_is_replaced(self, db: SessionDB) -> None:
        """The prompt goes with it, because it names the former model."""
        db.create_session("s", "cli", model="m", system_prompt="I am m.")
        db.update_token_counts("s", 1, billing_provider="p", billing_base_url="u", billing_mode="x")
        db.update_session_billing_route("s", provider="q", base_url=None)
        stored = session(db, "s")
        route = [stored[f"billing_{part}"] for part in ("provider", "base_url", "mode")]
        assert route == ["q", None, "x"]
        assert (stored["model"], stored["system_prompt"]) == ("m", None)
        db.update_session_billing_route("s", provider=None, base_url="v", billing_mode="y")
        assert session(db, "s")["billing_mode"] == "y"
