"""Printed lines: widths, ages, sanitising, layouts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcswidth, wcwidth

from hermes_sessions.cli.render import safe_text
from hermes_sessions.cli.render import text_width as columns
from hermes_sessions.cli.render.costs import cost_text
from hermes_sessions.cli.render.humanize import counted, date_and_time, relative_time, size
from hermes_sessions.cli.render.json_output import json_text
from hermes_sessions.cli.render.session_card import session_card
from hermes_sessions.cli.render.session_table import session_table
from hermes_sessions.cli.render.style import Style
from hermes_sessions.cli.render.transcript import message_lines
from tests.cli.harness import DAY, NOW


def session(**columns: Any) -> dict[str, Any]:
    return {
        "id": "20250305_091523_a1b2c3d4",
        "title": None,
        "preview": "",
        "source": "cli",
        "last_active": NOW,
        "started_at": NOW,
    } | columns


# ── time ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("age", "words"),
    [
        (0, "just now"),
        (59.9, "just now"),
        (60, "1m ago"),
        (3599, "59m ago"),
        (3600, "1h ago"),
        (DAY - 1, "23h ago"),
        (DAY, "yesterday"),
        (2 * DAY - 1, "yesterday"),
        (2 * DAY, "2d ago"),
        (7 * DAY - 1, "6d ago"),
        (7 * DAY, "2025-02-26"),
        (-59, "just now"),
        (-DAY, "2025-03-06"),
    ],
)
def test_relative_time(age: float, words: str) -> None:
    assert relative_time(NOW - age, NOW) == words


def test_times_that_are_missing_or_absurd_are_a_question_mark() -> None:
    assert relative_time(None, NOW) == "?"
    assert relative_time(1e300, NOW) == "?"
    assert date_and_time(-1e300) == "?"
    assert date_and_time(NOW) == "2025-03-05 15:00:00"


# ── width ─────────────────────────────────────────────────────────────────────────────────────


def test_what_is_measured_without_the_table_agrees_with_the_table() -> None:
    known = [(chr(c), width) for c in range(0x10000) if (width := columns.known_width(chr(c)))]
    assert len(known) > 25_000
    assert [c for c, width in known if width != wcwidth(c)] == []


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("plain", 5),
        ("日本語", 6),
        ("e\u0301", 1),
        ("👍", 2),
        ("👍🏽", 2),
        ("👨\u200d👩\u200d👧", 2),
        ("🇩🇪🇫🇷", 4),
        ("한국어", 6),
    ],
)
def test_display_width(text: str, width: int) -> None:
    assert columns.display_width(text) == width


@pytest.mark.parametrize(
    ("text", "room", "expected"),
    [
        ("fits", 4, "fits"),
        ("too long", 6, "too l…"),
        ("日本語です", 6, "日本…"),
        ("日本語です", 7, "日本語…"),
        ("a👨\u200d👩\u200d👧b", 3, "a…"),
        ("word then", 6, "word…"),
        ("anything", 1, "…"),
        ("anything", 0, ""),
    ],
)
def test_cut(text: str, room: int, expected: str) -> None:
    assert columns.cut(text, room, "…") == expected


@given(
    st.text(st.characters(exclude_categories=("Cc", "Cs", "Cf", "Zl", "Zp"))), st.integers(1, 40)
)
def test_cut_text_never_takes_more_than_its_room(text: str, room: int) -> None:
    assert columns.display_width(columns.cut(text, room, "…")) <= room
    padded = columns.pad(columns.cut(text, room, "…"), room)
    assert columns.display_width(padded) == room


@given(st.text("ab 日本é👍", min_size=1), st.integers(2, 12))
def test_wrapped_lines_fit_and_lose_nothing_but_blanks(text: str, room: int) -> None:
    wrapped = columns.wrap(text, room)
    assert all(wcswidth(line) <= room for line in wrapped)
    assert "".join(wrapped).replace(" ", "") == text.replace(" ", "")


# ── cleaning ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain", "plain"),
        ("two\n lines\t here", "two lines here"),
        ("\x1b[31mred\x1b[0m", "�[31mred�[0m"),
        ("\x9b31m", "�31m"),
        ("abc\u202egpj.exe", "abcgpj.exe"),
        ("half \ud83d pair", "half � pair"),
        ("family 👨\u200d👩", "family 👨\u200d👩"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
    ],
)
def test_one_line_is_harmless(text: str, clean: str) -> None:
    assert safe_text.one_line(text) == clean


@given(st.text())
def test_nothing_that_moves_the_cursor_gets_through(text: str) -> None:
    shown = [safe_text.one_line(text), *safe_text.lines(text)]
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for line in shown for c in line)
    "".join(shown).encode()


def test_lines_of_a_text() -> None:
    assert safe_text.lines("\n\na\r\nb\rc\td\n\n") == ["a", "b", "c   d"]


# ── tables ────────────────────────────────────────────────────────────────────────────────────

SEED = [
    session(
        title="refactoring auth",
        preview="Help me refactor the auth module please",
        last_active=NOW - 2 * 3600,
    ),
    session(
        id="20250304_143022_e5f6a7b8",
        title="my project #3",
        preview="Can you check the test failures?",
        last_active=NOW - 1.5 * DAY,
    ),
    session(
        id="20250303_101500_f9a0b1c2",
        preview="What's the weather in Las Vegas?",
        last_active=NOW - 3 * DAY,
    ),
]


def test_the_documented_layout_with_titles() -> None:
    assert session_table(SEED, now=NOW, style=Style()) == [
        "Title                         Preview                                   Last Active  ID",
        "─" * 110,
        (
            "refactoring auth              Help me refactor the auth module please   2h ago       "
            "20250305_091523_a1b2c3d4"
        ),
        (
            "my project #3                 Can you check the test failures?          yesterday    "
            "20250304_143022_e5f6a7b8"
        ),
        (
            "—                             What's the weather in Las Vegas?          3d ago       "
            "20250303_101500_f9a0b1c2"
        ),
    ]


def test_the_documented_layout_without_titles() -> None:
    untitled = [SEED[0] | {"title": None}, SEED[2] | {"source": "telegram"}]
    lines = session_table(untitled, now=NOW, style=Style())
    assert lines[0].split() == ["Preview", "Last", "Active", "Src", "ID"]
    assert lines[1] == "─" * 97
    only_cli = session_table([SEED[0] | {"title": None}], now=NOW, style=Style())
    assert only_cli[1] == "─" * 95
    assert lines[3].split()[-2:] == ["telegram", "20250303_101500_f9a0b1c2"]
    assert lines[2].index("20250305") == lines[3].index("20250303")


@pytest.mark.parametrize("width", [20, 32, 40, 53, 54, 60, 71, 80, 100, 110, 130, 200])
@pytest.mark.parametrize("titled", [True, False])
def test_no_line_is_wider_than_the_window_unless_the_id_is(width: int, titled: bool) -> None:
    rows = [
        session(
            title="日本語のとても長いタイトル" * 4 if titled else None, preview="プレビュー" * 12
        ),
        session(title=None, preview="plain " * 10, source="telegram"),
    ]
    lines = session_table(rows, now=NOW, style=Style(width=width))
    assert sum(rows[0]["id"] in line for line in lines) == 2
    assert max(columns.display_width(line) for line in lines) <= max(width, 26)


def test_long_ids_are_never_cut() -> None:
    long_id = "agent-" + "x" * 120
    for width in (None, 40, 100, 300):
        lines = session_table([session(id=long_id)], now=NOW, style=Style(width=width))
        assert any(long_id in line for line in lines)


def test_plain_decoration_is_ascii() -> None:
    lines = session_table(SEED, now=NOW, style=Style(ascii_only=True))
    assert all(line.isascii() for line in lines)
    assert lines[2].split("  ")[0] == "refactoring auth"
    assert lines[4].startswith("-  ")


def test_colour_is_only_there_when_asked_for() -> None:
    assert "\x1b" not in "".join(session_table(SEED, now=NOW, style=Style()))
    painted = session_table(SEED, now=NOW, style=Style(colour=True))
    assert painted[0].startswith("\x1b[1m")


# ── card and transcript ───────────────────────────────────────────────────────────────────────


def test_a_card_shows_what_is_known_and_nothing_else() -> None:
    bare = session_card(session(message_count=0), conversation=[], now=NOW, style=Style())
    assert [line.split(":")[0] for line in bare] == [
        "Title",
        "ID",
        "Source",
        "Started",
        "Last active",
        "Messages",
    ]
    rich = session(
        title="auth",
        user_id="u1",
        model="m",
        ended_at=NOW - 10 * DAY,
        end_reason="cli_close",
        message_count=4,
        tool_call_count=1,
        api_call_count=2,
        input_tokens=10,
        reasoning_tokens=3,
        estimated_cost_usd=0.0123,
        archived_at=NOW,
        parent_session_id="parent",
        edge_kind="branch",
    )
    child = session(id="child", parent_session_id=rich["id"], edge_kind="subagent")
    assert session_card(rich, conversation=[rich, child], now=NOW, style=Style()) == [
        "Title:        auth",
        "ID:           20250305_091523_a1b2c3d4",
        "Source:       cli · u1",
        "Model:        m",
        "Started:      2025-03-05 15:00:00 (just now)",
        "Last active:  2025-03-05 15:00:00 (just now)",
        "Ended:        2025-02-23 15:00:00, cli_close",
        "Messages:     4 · 1 tool call · 2 model calls",
        "Tokens:       10 input, 3 reasoning",
        "Cost:         $0.0123 (estimated)",
        "Archived:     2025-03-05 15:00:00 (just now)",
        "Parent:       parent (branch)",
        "Child:        child (subagent)",
    ]


def test_what_was_paid_counts_more_than_what_was_estimated() -> None:
    card = session_card(
        session(actual_cost_usd=0.0, estimated_cost_usd=1.0),
        conversation=[],
        now=NOW,
        style=Style(),
    )
    assert card[-1] == "Cost:         $0.0000"


@pytest.mark.parametrize(
    ("session_cost", "rows", "shown"),
    [
        ({}, [], ""),
        ({"estimated_cost_usd": 0.0}, [], ""),
        ({"api_call_count": 1, "estimated_cost_usd": 0.0}, [], "unknown"),
        (
            {"api_call_count": 1, "estimated_cost_usd": 0.0, "cost_status": "included"},
            [],
            "$0.0000 (estimated)",
        ),
        ({}, [{"api_call_count": 1, "estimated_cost_usd": None}], "unknown"),
        ({}, [{"api_call_count": 1, "estimated_cost_usd": 0.0}], "$0.0000 (estimated)"),
        ({}, [{"api_call_count": 1, "actual_cost_usd": 2.5}], "$2.50"),
        (
            {},
            [
                {"api_call_count": 1, "estimated_cost_usd": 0.01},
                {"api_call_count": 1, "estimated_cost_usd": None},
                {"api_call_count": 0, "estimated_cost_usd": None},
            ],
            "at least $0.0100 (estimated)",
        ),
    ],
)
def test_an_unknown_cost_is_unknown(
    session_cost: dict[str, Any], rows: list[dict[str, Any]], shown: str
) -> None:
    assert cost_text(session_cost, rows) == shown


def test_messages_are_cut_unless_asked_for_in_full() -> None:
    message = {
        "role": "assistant",
        "content": "\n".join(f"line {n}" for n in range(20)),
        "timestamp": NOW,
        "tool_calls": [{"function": {"name": f"tool{n % 5}"}} for n in range(6)],
    }
    short = message_lines(message, style=Style(), full=False)
    assert short[0] == "◆ assistant  2025-03-05 15:00:00"
    assert short[-2:] == ["  … 8 more lines", "  [6 tool calls: tool0, tool1, tool2, tool3, …]"]
    assert len(message_lines(message, style=Style(), full=True)) == 1 + 20 + 1


def test_tool_results_and_odd_content() -> None:
    result = {
        "role": "tool",
        "tool_name": "terminal",
        "content": "a\nb\nc\nd\ne",
        "timestamp": None,
    }
    assert message_lines(result, style=Style(), full=False) == [
        "· tool terminal  ?",
        "  a",
        "  b",
        "  c",
        "  … 2 more lines",
    ]
    image = {"role": "user", "content": [{"type": "image_url"}], "timestamp": NOW}
    assert message_lines(image, style=Style(), full=False)[1:] == ["  [non-text content]"]
    calls = {"role": "assistant", "content": None, "tool_calls": {"name": "x"}, "timestamp": NOW}
    assert message_lines(calls, style=Style(), full=False)[1:] == ["  [1 tool call: x]"]
    strange = {"role": "assistant", "content": "", "tool_calls": ["?"], "timestamp": NOW}
    assert message_lines(strange, style=Style(), full=False)[1:] == ["  [1 tool call]"]


def test_long_lines_are_wrapped_to_the_window() -> None:
    message = {"role": "user", "content": "word " * 40, "timestamp": NOW}
    lines = message_lines(message, style=Style(width=30), full=True)
    assert all(len(line) <= 34 for line in lines)
    assert " ".join(line.strip() for line in lines[1:]) == ("word " * 40).strip()


# ── numbers and JSON ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1024, "1.0 KB"), (13002342, "12.4 MB")],
)
def test_size(number: int, text: str) -> None:
    assert size(number) == text


def test_counted() -> None:
    assert [counted(n, "session") for n in (0, 1, 2)] == ["0 sessions", "1 session", "2 sessions"]


@given(st.recursive(st.none() | st.text() | st.integers(), st.lists, max_leaves=5))
def test_json_is_exact_and_can_be_encoded(value: Any) -> None:
    text = json_text(value)
    text.encode()
    assert json.loads(text) == value


def test_json_keeps_text_readable_and_bytes_as_base64() -> None:
    assert json_text("Grüße 日本") == '"Grüße 日本"'
    assert json.loads(json_text({"content": b"\x00\xff"})) == {"content": {"base64": "AP8="}}
    with pytest.raises(TypeError):
        json_text(object())
