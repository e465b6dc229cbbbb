"""A small store with one session of every kind."""

from pathlib import Path

from hermes_sessions import SessionDB
from tests.cli.harness import DAY, NOW

AUTH = "20250305_091523_a1b2c3d4"
SUBAGENT = "20250305_093000_b0b0b0b0"
PROJECT_1 = "20250301_080000_11111111"
PROJECT_2 = "20250302_090000_22222222"
PROJECT = "20250304_143022_e5f6a7b8"
WEATHER = "20250303_101500_f9a0b1c2"
PLAN = "20250223_120000_cafe0001"
TOOL = "20250305_140000_70010000"
ARCHIVED = "20250225_120000_a2c41fed"
OLD = "20240817_100000_01d01d01"

HOUR = 3600.0


def populate(path: Path) -> None:
    """Store the conversations in the file at *path*."""
    now = NOW
    with SessionDB(path, clock=lambda: now) as db:
        now = NOW - 200 * DAY
        db.create_session(OLD, "cli")
        db.append_message(OLD, "user", "Notes from last summer")
        db.set_session_title(OLD, "old notes")
        db.end_session(OLD, "cli_close")

        now = NOW - 10 * DAY
        db.create_session(PLAN, "discord", user_id="u7")
        db.append_message(PLAN, "user", "来月の旅行の計画を手伝ってください 🚀 できれば安く")
        db.set_session_title(PLAN, "旅行の計画 🚀")
        db.end_session(PLAN, "session_reset")

        now = NOW - 8 * DAY
        db.create_session(ARCHIVED, "cli")
        db.append_message(ARCHIVED, "user", "Something that is done")
        db.set_session_title(ARCHIVED, "done")
        db.set_session_archived(ARCHIVED)

        _chain(db, (PROJECT_1, NOW - 4 * DAY), (PROJECT_2, NOW - 3 * DAY))
        now = NOW - 2 * DAY
        db.create_session(PROJECT, "cli", parent_session_id=PROJECT_2, edge_kind="compression")
        db.set_session_title(PROJECT, "my project #3")
        db.append_message(
            PROJECT, "user", "Can you check the test failures?", timestamp=NOW - 1.5 * DAY
        )

        now = NOW - 3 * DAY - HOUR
        db.create_session(WEATHER, "telegram", user_id="u42")
        db.append_message(WEATHER, "user", "What's the weather in\n  Las Vegas?")
        db.append_message(WEATHER, "assistant", "Sunny, 18 °C.")

        _auth(db)

        now = NOW - 60
        db.create_session(TOOL, "tool")
        db.append_message(TOOL, "user", "an integration")


def _chain(db: SessionDB, *parts: tuple[str, float]) -> None:
    parent = None
    for number, (session_id, started) in enumerate(parts, 1):
        db.create_session(
            session_id,
            "cli",
            started_at=started,
            parent_session_id=parent,
            edge_kind="compression" if parent else None,
        )
        db.set_session_title(session_id, "my project" if number == 1 else f"my project #{number}")
        for turn in range(3):
            db.append_message(
                session_id, "user", f"part {number}, {turn}", timestamp=started + turn
            )
        db.end_session(session_id, "compression")
        parent = session_id


def _auth(db: SessionDB) -> None:
    start = NOW - 5 * HOUR
    db.create_session(AUTH, "cli", model="hermes-4", started_at=start)
    db.set_session_title(AUTH, "refactoring auth")
    db.append_message(AUTH, "user", "Help me refactor the auth module please", timestamp=start + 1)
    db.append_message(
        AUTH,
        "assistant",
        None,
        tool_calls=[
            {"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": "{}"}},
            {"id": "c2", "type": "function", "function": {"name": "read", "arguments": "{}"}},
        ],
        timestamp=start + 2,
    )
    db.append_message(
        AUTH,
        "tool",
        "\n".join(f"auth/{name}.py" for name in ("session", "token", "user", "views")),
        tool_name="terminal",
        tool_call_id="c1",
        timestamp=start + 3,
    )
    db.append_message(
        AUTH,
        "assistant",
        "The module has four files. I would start with the token handling, because everything "
        "else depends on it:\n\n1. one class per kind of token\n2. no global state",
        timestamp=NOW - 2 * HOUR,
    )
    db.update_token_counts(
        AUTH, input_tokens=1200, output_tokens=340, api_call_count=2, estimated_cost_usd=0.0123
    )
    db.create_session(
        SUBAGENT, "cli", parent_session_id=AUTH, edge_kind="subagent", started_at=start + 2
    )
    db.append_message(SUBAGENT, "user", "List the files", timestamp=start + 2)


def label(db: SessionDB) -> None:
    """Give some sessions tags, metadata and a workspace. The directories do not exist."""
    db.create_session(AUTH, "cli", cwd="/projects/hermes", tags=["urgent"])
    db.set_metadata(AUTH, {"ticket": 42, "team": "ops"})
    db.create_session(PROJECT, "cli", cwd="/projects/notes")
    db.set_tags(PROJECT, ["needs review", "urgent"])
