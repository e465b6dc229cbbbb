"""`hermes insights`: charts and costs."""

import pytest

from hermes_sessions.cli.render.insights import bar, columns_chart, cost, insights_lines
from hermes_sessions.cli.render.style import Style
from tests.cli.harness import DAY, NOW, Hermes

UNICODE, ASCII = Style(), Style(ascii_only=True)


@pytest.mark.parametrize(
    ("value", "drawn", "in_ascii"),
    [(8, "████", "####"), (4, "██", "##"), (3, "█▌", "##"), (0.01, "▏", "#"), (0, "", "")],
)
def test_a_bar_is_as_long_as_its_value(value: float, drawn: str, in_ascii: str) -> None:
    assert bar(value, 8, 4, UNICODE) == drawn
    assert bar(value, 8, 4, ASCII) == in_ascii


def test_no_bar_is_longer_than_there_is_room() -> None:
    assert bar(9, 8, 4, UNICODE) == "████"
    assert bar(1, 0, 4, UNICODE) == ""


def test_columns_stand_beside_each_other() -> None:
    assert columns_chart([0, 8, 1, 4], UNICODE, wide=False) == [" █", " █", " █ █", " █▄█"]
    assert columns_chart([8, 0, 1], ASCII, wide=True) == ["##", "##", "##", "##  ##"]
    assert columns_chart([0, 0], UNICODE, wide=True) == []


@pytest.mark.parametrize(
    ("usd", "complete", "shown"),
    [
        (None, False, "unknown"),
        (None, True, "unknown"),
        (0.0, True, "$0.0000"),
        (0.0123, True, "$0.0123"),
        (12.5, True, "$12.50"),
        (12.5, False, "at least $12.50"),
    ],
)
def test_an_unknown_cost_is_not_zero(usd: float | None, complete: bool, shown: str) -> None:
    assert cost({"cost_usd": usd, "cost_complete": complete}) == shown


def test_costs_that_are_partly_known(hermes: Hermes) -> None:
    with hermes.db() as db:
        for name, estimate in (("a", 2.5), ("b", None)):
            db.create_session(name, "cli", model="m")
            db.update_token_counts(name, input_tokens=1, estimated_cost_usd=estimate)
    assert "  Cost:         at least $2.50" in hermes.call("insights").out.splitlines()
    overview = hermes.call("insights", "--json").json["overview"]
    assert (overview["cost_usd"], overview["cost_complete"]) == (2.5, False)


def test_platforms_are_shown_when_there_are_others(hermes: Hermes) -> None:
    with hermes.db() as db:
        db.create_session("a", "cli")
    assert "Platforms" not in hermes.call("insights").out
    with hermes.db() as db:
        db.create_session("b", "signal")
    assert "Platforms" in hermes.call("insights").out


@pytest.mark.parametrize(
    ("age", "dates"),
    [
        (20, ["2025-02-13", "2025-03-05"]),
        (60, ["2024-12-30 week", "2025-03-03 week"]),
        (300, ["2024-05", "2025-03"]),
    ],
)
def test_days_are_summed_where_there_are_many(hermes: Hermes, age: int, dates: list[str]) -> None:
    with hermes.db() as db:
        for name, days in (("old", age), ("older", age - 0.1), ("new", 0)):
            db.create_session(name, "cli", started_at=NOW - days * DAY)
            db.update_token_counts(name, input_tokens=5, estimated_cost_usd=0.5)
        report = db.get_insights(0)
    lines = list(insights_lines(report, ASCII))
    shown = lines[lines.index("Over time") + 1 : lines.index("Top sessions") - 1]
    assert [line.split("  ")[1] for line in shown] == dates
    assert shown[0].endswith("  10 tokens, $1.00")


def test_names_that_could_act_on_the_terminal(hermes: Hermes) -> None:
    with hermes.db() as db:
        db.create_session("s", "evil\x1b[2J", model="m\x1b[31m")
        db.append_message("s", "tool", "x", tool_name="t\x07")
    assert "\x1b" not in hermes.call("insights").out
    assert "\x07" not in hermes.call("insights", "--source", "evil\x1b[2J").out


def test_a_number_of_days(hermes: Hermes) -> None:
    result = hermes.call("insights", "--days", "many")
    assert (result.code, result.out) == (2, "")
    assert "is not a number of days" in result.err
    assert hermes.call("insights").out == "No sessions started in the last 30 days.\n"
    assert hermes.call("insights", "--days", "0").out == "No sessions started at any time.\n"
