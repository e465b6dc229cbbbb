"""`hermes sessions search`: queries, results and reports."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import apsw
import pytest

from tests.cli.harness import DAY, NOW, Hermes, Result
from tests.cli.sample_store import AUTH, PLAN, PROJECT, PROJECT_1, PROJECT_2
from tests.cli.terminal import Terminal, without_escapes


def found(result: Result) -> list[int]:
    """The numbers of the messages that text output shows."""
    return [int(number) for number in re.findall(r"[·|] message (\d+)$", result.out, re.MULTILINE)]


def say(hermes: Hermes, *texts: str, session: str = "s", source: str = "cli") -> None:
    with hermes.db() as db:
        db.create_session(session, source)
        for text in texts:
            db.append_message(session, "user", text)


# ── what is asked ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "hits"),
    [
        (["token"], {15, 16}),
        (["token", "handling"], {16}),
        (["token handling"], {16}),
        (['"token handling"'], {16}),
        (["TOKEN"], {15, 16}),
        (["auth/token.py"], {15}),
        (["weather", "OR", "travel", "OR", "旅行"], {2, 11}),
        (["tok*"], {15, 16}),
        (["source:telegram", "sunny"], {12}),
        (["in:my project", "part"], {4, 5, 6, 7, 8, 9}),
        (["--", "-in:my project", "role:user", "files"], {17}),
        (["token", "(handling OR views)"], {15, 16}),
        (["token", "handling OR views"], {15, 16}),
        (["--", "token", "-handling"], {15}),
        (["--", "-part", "source:cli", "has:title"], {1, 3, 10, 13, 14, 15, 16}),
        (["--exact", "--", "token", "-global state"], {15}),
    ],
)
def test_queries(filled: Hermes, words: list[str], hits: set[int]) -> None:
    result = filled.call("sessions", "search", *words)
    assert (result.code, result.err) == (0, "")
    assert set(found(result)) == hits


def test_quotes_that_the_shell_took_off_keep_a_phrase_together(hermes: Hermes) -> None:
    say(hermes, "docker compose fails", "compose a letter to docker, it fails")
    assert found(hermes.call("sessions", "search", "docker compose", "fails")) == [1]
    # One argument is the whole query: users do not write quotes inside of quotes for a few words.
    assert len(found(hermes.call("sessions", "search", "docker compose fails"))) == 2


@pytest.mark.parametrize(
    ("arguments", "hits"),
    [
        (["search", "weather", "--source", "telegram"], [11]),
        (["search", "weather", "--source", "cli", "--source", "telegram"], [11]),
        (["search", "token", "--role", "tool"], [15]),
        (["search", "token", "--tool", "terminal"], [15]),
        (["search", "las", "--user", "u42"], [11]),
        (["search", "token", "--model", "hermes"], [16, 15]),
        (["search", "part", "--since", "3d", "--sort", "oldest"], [7, 8, 9]),
        (["search", "part", "--until", "2025-03-02", "--sort", "newest"], [6, 5, 4]),
        (["search", "part", "--since", "2025-03-02", "--until", "1d", "--limit", "2"], [9, 8]),
        (["search", "token", "--session", AUTH], [16, 15]),
        (["search", "token", "--session", "20250305_0915"], [16, 15]),
        (["search", "token", "--session", "refactoring auth"], [16, 15]),
        (["search", "--source", "telegram"], [12, 11]),
        (["search", "--since", "1h"], [18]),
    ],
)
def test_filters(filled: Hermes, arguments: list[str], hits: list[int]) -> None:
    result = filled.call("sessions", *arguments)
    assert (result.code, result.err) == (0, "")
    assert found(result) == hits


@pytest.mark.parametrize(
    ("options", "query"),
    [
        (["--source", "telegram"], "weather source:cli"),
        (["--role", "user"], "weather role:assistant"),
        (["--until", "2025-01-01"], "weather after:2025-02-01"),
        (["--model", "nothing"], "weather model:m"),
        (["--user", "nobody"], "weather user:7"),
        (["--tool", "none"], "weather tool:terminal"),
    ],
)
def test_an_option_holds_whatever_the_query_says(
    filled: Hermes, options: list[str], query: str
) -> None:
    result = filled.call("sessions", "search", *options, query)
    assert result.code == 1
    assert "exclude each other: no message satisfies both." in " ".join(result.out.split())


def test_a_session_is_searched_with_all_its_parts(filled: Hermes) -> None:
    result = filled.call("sessions", "search", "part", "--session", PROJECT, "--json").json
    assert {hit["session_id"] for hit in result["hits"]} == {PROJECT_1, PROJECT_2}


def test_a_session_filter_matches_the_whole_id(hermes: Hermes) -> None:
    for session in ("s1", "s10"):
        say(hermes, "the same words", session=session)
    assert found(hermes.call("sessions", "search", "words", "--session", "s1")) == [1]
    assert found(hermes.call("sessions", "search", "words", "session:s1")) == [1]
    assert found(hermes.call("sessions", "search", "words", "--session", "s10")) == [2]


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["search"], 2, "Nothing to search for. Give some words or a filter."),
        (["search", "", " "], 2, "Nothing to search for."),
        (["search", "--exact"], 2, "Nothing to search for."),
        (["search", "x", "--since", "soon"], 2, "'--since': 'soon' is not a date. Use 2026-05-01"),
        (["search", "x", "--until", "2025-02-30"], 2, "'--until': '2025-02-30' is not a date."),
        (["search", "x", "--since", "1d", "--until", "2d"], 2, "must be later than --since"),
        (["search", "x", "--sort", "best"], 2, "'best' is not one of 'relevance', 'newest'"),
        (["search", "x", "--limit", "0"], 2, "'0' is not a whole number (1 or more)."),
        (["search", "x", "--cursor", "?"], 1, "The cursor is not valid."),
        (["search", "x", "--session", "nobody"], 1, "No session matches 'nobody'."),
        (
            ["search", "docker", "-compose"],
            2,
            "No such option: -compose. If a search word starts with a dash",
        ),
        (["search", "x", "--sorce", "cli"], 2, "No such option '--sorce'."),
    ],
)
def test_what_cannot_be_asked(
    filled: Hermes, arguments: list[str], code: int, complaint: str
) -> None:
    result = filled.call("sessions", *arguments)
    assert (result.code, result.out) == (code, "")
    assert complaint in result.err
    assert result.err.count("\n") == 1


# ── what is shown ─────────────────────────────────────────────────────────────────────────────


def test_a_hit_says_what_is_around_it_and_how_to_open_it(filled: Hermes) -> None:
    out = filled.call("sessions", "search", "views").out
    assert out.splitlines() == [
        "refactoring auth",
        f"  2025-03-05 10:00:03 (4h ago) · cli · {AUTH} · message 15",
        "  ◆ assistant: [2 tool calls: terminal, read]",
        "> · tool terminal: auth/session.py auth/token.py auth/user.py auth/>>>views<<<.py",
        (
            "  ◆ assistant: The module has four files. I would start with the token handling, "
            "because everything else depend…"
        ),
        f"  hermes sessions show {AUTH} --around 15",
        "",
        "1 match.",
    ]
    command = out.splitlines()[-3].split()[1:]
    opened = filled.call(*command)
    assert opened.code == 0
    assert "· tool terminal  2025-03-05 10:00:03  ← message 15\n" in opened.out


def test_a_session_without_a_title_is_named_by_what_its_user_said(filled: Hermes) -> None:
    out = filled.call("sessions", "search", "sunny").out
    assert out.startswith("What's the weather in Las Vegas?\n")


def test_a_session_without_user_messages(hermes: Hermes) -> None:
    with hermes.db() as db:
        db.create_session("s", "cron")
        db.append_messages("s", [{"role": "tool", "content": f"report {n}"} for n in range(300)])
    out = hermes.call("sessions", "search", "report", "299").out
    assert out.startswith("—\n")
    assert "> · tool: >>>report 299<<<\n" in out or "> · tool: >>>report<<< >>>299<<<\n" in out


def test_a_title_that_matches(filled: Hermes) -> None:
    lines = filled.call("sessions", "search", "old", "notes").out.splitlines()
    assert lines[0] == "old notes"
    assert lines[2] == "> title: >>>old<<< >>>notes<<<"
    assert lines[3] == "  ● user: Notes from last summer"


def test_an_id_with_blanks_is_quoted_in_the_command(hermes: Hermes) -> None:
    say(hermes, "hello there", session="my id")
    assert (
        "  hermes sessions show 'my id' --around 1\n"
        in hermes.call("sessions", "search", "hello").out
    )


def test_an_id_that_begins_with_a_dash_is_not_an_option_in_the_command(hermes: Hermes) -> None:
    say(hermes, "hello there", session="-x")
    out = hermes.call("sessions", "search", "hello").out
    assert "  hermes sessions show --around 1 -- -x\n" in out
    assert hermes.call("sessions", "show", "--around", "1", "--", "-x").code == 0


def test_text_that_has_marks_of_its_own(hermes: Hermes) -> None:
    say(hermes, ">>> import docker\n\x1b[31m>>> docker.ping()")
    result = hermes.call("sessions", "search", "docker")
    assert "> ● user: >>> import >>>docker<<< �[31m>>> >>>docker<<<.ping()\n" in result.out


def test_only_matches_are_coloured(hermes: Hermes) -> None:
    say(hermes, "a diff: >>>plum<<< and fig")
    with Terminal(hermes, "sessions", "search", "fig", columns=80) as terminal:
        assert terminal.finish() == 0
    assert "a diff: >>>plum<<< and \x1b[1;31mfig\x1b[0m" in terminal.screen


def test_matches_are_coloured_on_a_terminal(filled: Hermes) -> None:
    with Terminal(filled, "sessions", "search", "token", "handling", columns=60) as terminal:
        assert terminal.finish() == 0
    assert "\x1b[1;31mtoken\x1b[0m" in terminal.screen
    assert ">>>" not in terminal.screen
    lines = without_escapes(terminal.screen).splitlines()
    shown = [line for line in lines if not line.startswith("  hermes ")]
    assert max(map(len, shown)) <= 60
    assert f"  hermes sessions show {AUTH} --around 16" in lines


def test_a_match_over_two_lines_is_coloured_in_both(hermes: Hermes) -> None:
    say(hermes, "We spoke of the very long winter of discontent")
    arguments = ["sessions", "search", '"very long winter of discontent"']
    with Terminal(hermes, *arguments, columns=36) as terminal:
        assert terminal.finish() == 0
    assert terminal.screen.count("\x1b[1;31m") == 2
    painted = re.findall(r"\x1b\[1;31m(.*?)\x1b\[0m", terminal.screen)
    assert " ".join(painted) == "very long winter of discontent"


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_matches_are_marked_where_there_is_no_colour(
    filled: Hermes, environ: dict[str, str]
) -> None:
    with Terminal(filled, "sessions", "search", "sunny", **environ) as terminal:
        assert terminal.finish() == 0
    assert "> ◆ assistant: >>>Sunny<<<, 18 °C.\n" in terminal.screen


# ── what is said about it ─────────────────────────────────────────────────────────────────────


def account(result: Result) -> str:
    """The last line, or the last two when there is a next page."""
    return result.out.rpartition("\n\n")[2] if "\n\n" in result.out else result.out


def test_nothing_found(filled: Hermes) -> None:
    result = filled.call("sessions", "search", "nonesuch")
    assert (result.code, result.out, result.err) == (1, "Nothing found.\n", "")
    as_json = filled.call("sessions", "search", "nonesuch", "--json")
    assert as_json.code == 1
    assert (as_json.json["hits"], as_json.json["account"]["total"]) == ([], 0)


def test_what_filters_removed(filled: Hermes) -> None:
    result = filled.call("sessions", "search", "weather", "--source", "cli")
    assert (result.code, result.out) == (1, "Nothing found. Filtered out: 1 by source.\n")
    result = filled.call("sessions", "search", "part", "-source:discord", "--until", "2025-03-02")
    assert result.code == 2
    arguments = ["search", "--until", "2025-03-02", "--", "part", "-role:tool", "-has:title"]
    result = filled.call("sessions", *arguments)
    assert account(result) == "Nothing found. Filtered out: 3 by -has title.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "files depend",
            "2 matches. Nothing matched exactly; relaxed to: other forms of the words.",
        ),
        ("what did they say about sunny", "relaxed to: without common words."),
        ("sunny submarines", "relaxed to: any of the words."),
        ("epend", "Nothing matched as whole words; searched inside words."),
    ],
)
def test_how_a_question_was_relaxed(filled: Hermes, words: str, said: str) -> None:
    assert said in account(filled.call("sessions", "search", *words.split()))
    strict = filled.call("sessions", "search", "--exact", *words.split())
    assert (strict.code, strict.out) == (1, "Nothing found.\n")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            '"las vegas',
            "Added a missing closing quote.",
        ),
        ("vegas OR", "Ignored an OR without terms on both sides."),
        ("vegas before:soon", "Ignored before:soon: not a date; try 7d"),
    ],
)
def test_repairs_are_reported(filled: Hermes, query: str, said: str) -> None:
    result = filled.call("sessions", "search", query)
    assert found(result) == [11]
    assert said in account(result)


def test_a_query_of_which_nothing_is_left(filled: Hermes) -> None:
    result = filled.call("sessions", "search", "( )")
    assert result.code == 1
    assert result.out == ("Nothing found. Ignored empty parentheses. The query is empty.\n")


def test_pages(filled: Hermes) -> None:
    arguments = ["sessions", "search", "--sort", "oldest", "--limit", "4", "--role", "user", "part"]
    first = filled.call(*arguments)
    assert found(first) == [4, 5, 6, 7]
    count, following = account(first).splitlines()
    assert count == "4 of 6 matches."
    command = following.removeprefix("Next page: hermes ").split()
    assert following.startswith(
        "Next page: hermes sessions search --role user --sort oldest --limit 4 --cursor "
    )
    # What is written meanwhile does not move the pages.
    with filled.db(NOW - 100 * DAY) as db:
        db.append_message(PLAN, "user", "a late part")
    second = filled.call(*command)
    assert found(second) == [8, 9]
    assert "Next page" not in second.out


def test_the_next_page_of_a_filter_by_age(filled: Hermes) -> None:
    arguments = ["search", "part", "--since", "5d", "--until", "1h", "--limit", "4"]
    first = filled.call("sessions", *arguments)
    following = account(first).splitlines()[1]
    assert "--since 2025-02-28T15:00:00+00:00 --until 2025-03-05T14:00:00+00:00" in following
    command = following.removeprefix("Next page: hermes ").split()
    second = filled.call(*command, now=NOW + 100)
    assert len({*found(first), *found(second)}) == 6


def test_the_next_page_of_a_query_with_dashes_and_quotes(hermes: Hermes) -> None:
    say(hermes, *(f"docker compose {n}" for n in range(3)))
    arguments = ["search", "--exact", "--limit", "2", "--", "docker compose", "-swarm"]
    result = hermes.call("sessions", *arguments)
    assert re.search(
        r"Next page: hermes sessions search --limit 2 --exact --cursor \S+ -- 'docker compose' "
        r"-swarm\n$",
        result.out,
    )


def test_very_many_matches(hermes: Hermes) -> None:
    with hermes.db() as db:
        db.create_session("s", "cli")
        db.append_messages("s", [{"role": "user", "content": f"report {n}"} for n in range(1200)])
        db.optimize_search()
    ranked = hermes.call("sessions", "search", "report")
    assert re.match(
        r"10 of 1,000\+ matches\. The newest \d{3} are ranked by relevance; "
        r"the others follow by time\.\n",
        account(ranked),
    )
    newest = hermes.call("sessions", "search", "report", "--sort", "newest", "--limit", "1")
    assert account(newest).startswith("1 of 1,000+ matches.\nNext page: ")


# ── the index and the store ───────────────────────────────────────────────────────────────────


def change(hermes: Hermes, sql: str) -> None:
    """Change the file while no process has it open."""
    connection = apsw.Connection(str(hermes.store))
    connection.execute(sql)
    connection.close()


def forget_the_index(hermes: Hermes, messages: int) -> None:
    """Store messages, with an index that holds none of them."""
    with hermes.db() as db:
        db.create_session("s", "cli")
        db.append_messages(
            "s", [{"role": "user", "content": f"report {n}"} for n in range(messages)]
        )
    change(hermes, "DELETE FROM search_index; UPDATE search_state SET indexed_through = 0")


def test_a_search_brings_the_index_along(hermes: Hermes) -> None:
    forget_the_index(hermes, 30)
    assert account(hermes.call("sessions", "search", "report", "7")) == "1 match.\n"
    with hermes.db() as db:
        assert db.search_index_status()["complete"]


def test_an_index_that_lacks_too_much(hermes: Hermes) -> None:
    forget_the_index(hermes, 4500)
    assert account(hermes.call("sessions", "search", "report", "4499")) == (
        "At least 1 match. The index is being built: 2,500 messages are not in it yet. "
        "To index them now, run: hermes sessions optimize\n"
    )
    result = hermes.call("sessions", "search", "report", "4498", "--json").json
    assert result["account"]["complete"] is True


def test_an_empty_home(hermes: Hermes) -> None:
    result = hermes.call("sessions", "search", "x")
    assert (result.code, result.out, result.err) == (1, "Nothing found.\n", "")


@contextmanager
def writing(hermes: Hermes) -> Iterator[None]:
    """Hold the write lock as another process in the middle of a long write."""
    started, end = threading.Event(), threading.Event()

    def hold(_tx: object) -> None:
        started.set()
        end.wait()

    with hermes.db() as db:
        thread = threading.Thread(target=db.provider.write, args=[hold])
        thread.start()
        started.wait()
        yield
        end.set()
        thread.join()


def test_a_search_does_not_wait_for_writers(hermes: Hermes) -> None:
    forget_the_index(hermes, 30)
    with writing(hermes):
        result = hermes.call("sessions", "search", "report", "7")
    assert result.code == 0
    assert account(result).startswith("1 match.")


def test_a_store_of_a_later_version_is_read(hermes: Hermes) -> None:
    forget_the_index(hermes, 30)
    change(hermes, "PRAGMA user_version = 99")
    result = hermes.call("sessions", "search", "report", "7")
    assert (result.code, result.err) == (0, "")
    assert account(result).startswith("1 match.")
