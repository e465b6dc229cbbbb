"""`hermes sessions optimize`, and the index in `hermes sessions stats`."""

from tests.cli.harness import Hermes
from tests.cli.terminal import SLOW_COMMAND, Terminal
from tests.cli.test_search import forget_the_index


def test_what_waits_is_indexed(hermes: Hermes) -> None:
    forget_the_index(hermes, 30)
    stats = hermes.call("sessions", "stats")
    assert stats.out.splitlines()[-1] == (
        "Search index: 30 messages waiting (to index now, run: hermes sessions optimize)"
    )
    counted = hermes.call("sessions", "stats", "--json").json
    assert counted["search_index"] == {"complete": False, "pending": 30}
    result = hermes.call("sessions", "optimize")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[0] == ("Indexed 30 entries (messages and titles).")
    assert hermes.call("sessions", "stats").out.splitlines()[-1] == "Search index: complete"
    again = hermes.call("sessions", "optimize", "--json").json
    assert (again["indexed"], again["rebuilt"], again["pending"]) == (0, False, 0)


def test_the_index_is_rebuilt(filled: Hermes) -> None:
    before = filled.call("sessions", "search", "token", "--json").json["hits"]
    with filled.db() as db:
        db.provider.write(lambda tx: tx.run("DELETE FROM search_index WHERE rowid > 0"))
    assert filled.call("sessions", "search", "token", "--exact").code == 1
    result = filled.call("sessions", "optimize", "--rebuild")
    assert result.out.startswith("Rebuilt the search index: 25 entries")
    assert filled.call("sessions", "search", "token", "--json").json["hits"] == before
    assert filled.call("sessions", "optimize", "--rebuild", "--json").json["rebuilt"] is True


def test_space_is_given_back(hermes: Hermes) -> None:
    with hermes.db() as db:
        db.create_session("s", "cli")
        for _ in range(4):
            db.append_message("s", "user", "x" * 1_000_000)
        db.delete_session("s")
    full = hermes.store.stat().st_size
    result = hermes.call("sessions", "optimize")
    assert result.out.splitlines()[-1].startswith("Freed 3.")
    assert hermes.store.stat().st_size < full / 2
    assert hermes.call("sessions", "optimize", "--json").json["freed_bytes"] == 0


def test_an_empty_home(hermes: Hermes) -> None:
    result = hermes.call("sessions", "optimize")
    assert (result.code, result.out) == (0, "The search index is up to date.\n")


def test_a_long_work_shows_a_bar(hermes: Hermes) -> None:
    forget_the_index(hermes, 250)
    with Terminal(hermes, "sessions", "optimize", program=SLOW_COMMAND) as terminal:
        assert terminal.finish() == 0
    assert "Indexing" in terminal.screen
    assert "100%" in terminal.screen
    forget_the_index(hermes, 250)
    with Terminal(hermes, "sessions", "optimize", "--plain", program=SLOW_COMMAND) as terminal:
        assert terminal.finish() == 0
    assert "%" not in terminal.screen
