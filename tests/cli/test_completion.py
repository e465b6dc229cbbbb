"""`hermes completion`: scripts for shells, and the candidates they get."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.harness import Hermes
from tests.cli.sample_store import AUTH, PROJECT, PROJECT_1, SUBAGENT, WEATHER
from tests.cli.terminal import Terminal
from tests.cli.test_start import imported_by, offending, without_click


def offered(hermes: Hermes, *words: str) -> list[str]:
    result = hermes.call("completion", "zsh", "--", *words)
    assert (result.code, result.err) == (0, "")
    return [line.partition("\t")[0] for line in result.out.splitlines()]


def test_commands(filled: Hermes) -> None:
    assert {"sessions", "insights", "completion"} <= set(offered(filled, ""))
    assert offered(filled, "ins") == ["insights"]
    assert offered(filled, "--plain", "ins") == ["insights"]
    assert offered(filled, "sessions", "re") == ["rename", "restore", "retention"]
    assert offered(filled, "sessions", "nothing") == []


def test_options(filled: Hermes) -> None:
    assert offered(filled, "sessions", "list", "--so") == ["--source"]
    assert "--help" in offered(filled, "sessions", "list", "--")
    assert offered(filled, "--ver") == ["--version"]
    assert offered(filled, "sessions", "delete", AUTH, "--pu") == ["--purge"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sessions", "show", "20250305_09"], [AUTH, SUBAGENT]),
        (["sessions", "show", "REF"], ["refactoring auth"]),
        (["sessions", "delete", WEATHER, "my project #"], ["my project #3", "my project #2"]),
        (["sessions", "rename", "20250303"], [WEATHER]),
        (["sessions", "rename", WEATHER, "20250305"], []),
        (["sessions", "export", "x", "--session-id", "20250301"], [PROJECT_1]),
        (["sessions", "search", "--session", "ref"], ["refactoring auth"]),
        (["--resume", "ref"], ["refactoring auth"]),
        (["-c", "20250304"], [PROJECT]),
        (["sessions", "list", "--source", "te"], ["telegram"]),
        (["sessions", "search", "--sort", "n"], ["newest"]),
        (["sessions", "export", "--format", ""], ["jsonl", "md", "html"]),
        (["completion", "f"], ["fish"]),
        (["sessions", "list", "--limit", ""], []),
        (["sessions", "import", ""], []),
    ],
)
def test_what_can_stand_there(filled: Hermes, words: Sequence[str], expected: list[str]) -> None:
    assert offered(filled, *words) == expected


def test_without_a_beginning_the_latest_are_offered(filled: Hermes) -> None:
    words = offered(filled, "sessions", "show", "")
    assert words[0] == "refactoring auth"
    assert AUTH in words
    about = filled.call("completion", "fish", "--", "sessions", "show", WEATHER).out
    assert about == f"{WEATHER}\n"
    named = filled.call("completion", "fish", "--", "sessions", "show", AUTH).out
    assert named == f"{AUTH}\trefactoring auth\n"


def test_the_trash_is_offered_where_it_is_emptied(filled: Hermes) -> None:
    filled.call("sessions", "delete", AUTH, "--yes")
    assert offered(filled, "sessions", "restore", "ref") == ["refactoring auth"]
    assert offered(filled, "sessions", "show", "ref") == []


def test_no_store_is_made_and_no_error_shown(hermes: Hermes) -> None:
    assert offered(hermes, "sessions", "show", "") == []
    assert offered(hermes, "sessions", "list", "--source", "") == []
    assert not hermes.home.exists()
    hermes.home.mkdir()
    hermes.store.write_bytes(b"no database" * 100)
    assert offered(hermes, "sessions", "show", "x") == []


def test_names_that_no_shell_could_type(hermes: Hermes) -> None:
    with hermes.db() as db:
        db.create_session("evil\nsecond line", "x\ty")
        db.create_session("evil plain", "cli")
    assert offered(hermes, "sessions", "show", "evil") == ["evil plain"]
    assert offered(hermes, "sessions", "list", "--source", "") == ["cli"]


def test_json(filled: Hermes) -> None:
    found = filled.call("completion", "bash", "--json", "--", "sessions", "show", "ref").json
    assert found == {"candidates": [{"value": "refactoring auth", "about": AUTH}]}
    script = filled.call("completion", "bash", "--json").json
    assert script["shell"] == "bash"
    assert script["script"] == filled.call("completion", "bash", "--plain").out


def test_an_unknown_shell(hermes: Hermes) -> None:
    assert hermes.call("completion", "csh").code == 2


def in_bash(hermes: Hermes, *words: str) -> list[str]:
    """What bash puts on the line when Tab is pressed after *words*."""
    program = (
        'source <(hermes completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        '_hermes_completion; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    result = subprocess.run(
        ["bash", "-c", program, "bash", "hermes", *words],
        env=hermes.environ(),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert result.stderr == ""
    return result.stdout.splitlines()


def test_bash(filled: Hermes) -> None:
    assert in_bash(filled, "sessions", "sho") == ["show"]
    assert in_bash(filled, "sessions", "show", "refa") == [r"refactoring\ auth"]
    # As bash hands over a word with a blank in it, and one whose quotes are still open: those stay.
    assert in_bash(filled, "sessions", "show", r"refactoring\ a") == [r"refactoring\ auth"]
    for quote in "'\"":
        assert in_bash(filled, "sessions", "show", f"{quote}refac") == ["refactoring auth"]


def test_what_bash_puts_between_quotes_is_the_title(hermes: Hermes) -> None:
    title = 'it\'s "50%" of $HOME \\ `x`'
    with hermes.db() as db:
        db.create_session("s", "cli")
        db.set_session_title("s", title)
    for quote, typed in (("'", "'it"), ('"', '"it'), ("", "it")):
        (completed,) = in_bash(hermes, "-c", typed)
        read = ["bash", "-c", f"printf %s {quote}{completed}{quote}"]
        assert subprocess.check_output(read, encoding="utf-8") == title


def in_fish(hermes: Hermes, line: str) -> list[str]:
    """What fish offers when Tab is pressed at the end of *line*."""
    program = 'hermes completion fish | source; complete --do-complete "$argv[1]"'
    result = subprocess.run(
        ["fish", "--no-config", "-c", program, line],
        env=hermes.environ(),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert result.stderr == ""
    return result.stdout.splitlines()


def test_fish(filled: Hermes) -> None:
    assert [line.partition("\t")[0] for line in in_fish(filled, "hermes sessions sho")] == ["show"]
    assert in_fish(filled, "hermes sessions show refa") == [f"refactoring auth\t{AUTH}"]
    assert in_fish(filled, r"hermes sessions show refactoring\ a") == [f"refactoring auth\t{AUTH}"]
    assert in_fish(filled, f"hermes -c {AUTH[:12]}")[0] == f"{AUTH}\trefactoring auth"


def test_zsh(filled: Hermes, tmp_path: Path) -> None:
    """Typed at a real prompt: what Tab puts on the line."""
    (tmp_path / ".zshrc").write_text(
        "autoload -Uz compinit; compinit -D -u; source <(hermes completion zsh)\n"
        "PS1='ready> '; unset zle_bracketed_paste; unsetopt beep prompt_sp\n"
    )
    with Terminal(
        filled, command=("zsh", "-d", "-i"), ZDOTDIR=str(tmp_path), TERM="vt100"
    ) as terminal:
        terminal.wait_until(lambda shown: "ready>" in shown, "the prompt")
        for typed, completed in (
            ("hermes sessions sho\t", "ready> hermes sessions show"),
            ("refa\t", r"ready> hermes sessions show refactoring\ auth"),
            ("\x15hermes -c 'refactoring a\t", "ready> hermes -c 'refactoring auth'"),
        ):
            terminal.keys(typed)
            terminal.wait_until(
                lambda shown, completed=completed: shown.rstrip().endswith(completed), completed
            )


def test_completing_imports_only_what_it_needs(filled: Hermes) -> None:
    modules = imported_by(filled, "completion", "bash", "--", "sessions", "show", "2025")
    assert without_click(offending(modules)) <= {"shlex"}
    assert not {m for m in modules if m.startswith("hermes_sessions.text")}
