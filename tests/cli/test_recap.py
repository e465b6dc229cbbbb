"""The recap of a conversation that is resumed."""

from __future__ import annotations

from typing import Any

from hermes_sessions.cli.render.chat import TITLE, recap
from hermes_sessions.cli.render.style import Style

WIDE = Style(width=80)


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def body(messages: list[dict[str, Any]], style: Style = WIDE) -> list[str]:
    return [line.strip() for line in recap(messages, style)[1:-1]]


def test_who_said_what() -> None:
    panel = recap([said("user", "Where?"), said("assistant", "There.")], WIDE)
    assert TITLE in panel[0]
    assert [line.strip() for line in panel[1:-1]] == ["● You", "Where?", "◆ Hermes", "There."]


def test_what_is_left_out() -> None:
    messages = [
        said("system", "be brief"),
        said("user", "Where?"),
        said("assistant", None, reasoning="hm"),
        said("tool", "result"),
        said("user", ""),
        said("assistant", "There."),
    ]
    assert body(messages) == ["● You", "Where?", "◆ Hermes", "There."]
    assert recap([said("system", "x")], WIDE) == []


def test_the_last_ten_exchanges() -> None:
    messages = []
    for number in range(13):
        messages += [said("user", f"q{number}"), said("assistant", f"a{number}")]
    shown = body(messages)
    assert shown[0] == "… 6 earlier messages …"
    assert shown[2] == "q3"


def test_long_texts_are_cut_but_for_the_last_answer() -> None:
    many = "\n".join(f"line {number}" for number in range(9))
    shown = body([said("user", "x" * 400), said("assistant", many), said("assistant", many)])
    assert sum(line.count("x") for line in shown) < 300
    assert shown.count("line 2 …") == 1
    assert shown[-1] == "line 8"
    assert len("".join(body([said("assistant", "y" * 500), said("user", "z")]))) < 260


def test_tool_calls_are_counted() -> None:
    calls = [{"function": {"name": name}} for name in ("a", "b", "a", "c", "d", "e")]
    assert body([said("assistant", "On it.", tool_calls=calls)])[-1] == (
        "[6 tool calls: a, b, c, d, …]"
    )
    assert body([said("assistant", None, tool_calls=calls[:1])]) == ["◆ Hermes", "[1 tool call: a]"]


def test_images_and_control_characters() -> None:
    image = [{"type": "image_url", "image_url": {"url": "x"}}]
    assert body([said("user", image)]) == ["● You", "[image]"]
    assert "\x1b" not in "".join(recap([said("user", "a\x1b[31mb")], WIDE))


def test_any_terminal() -> None:
    messages = [said("user", "数据库 " * 40), said("assistant", "ok")]
    for style in (Style(width=20), Style(width=None), Style(ascii_only=True, width=40)):
        lines = recap(messages, style)
        assert lines
    assert all(ord(c) < 128 for c in recap(messages, Style(ascii_only=True, width=40))[0])
