"""``hermes completion``: shell scripts, and the candidates that they ask for.

Each script runs this command to complete the words typed so far. It must answer without a visible
delay, so it imports only the typed command, and opens the store, read-only, only where a session or
a source can follow. It never creates a store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.lazy_group import LazyGroup
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.storage.sessiondb import SessionDB

_BASH: Final = r"""# Completion of hermes for bash. In ~/.bashrc: source <(hermes completion bash)
_hermes_completion() {
    local candidate quoted
    COMPREPLY=()
    while IFS= read -r candidate; do
        case ${COMP_WORDS[COMP_CWORD]} in
            # Bash keeps the quote that was typed, and what is special inside it differs.
            \'*) quoted=${candidate//\'/\'\\\'\'} ;;
            \"*) quoted=$(sed 's/[\\"$`]/\\&/g' <<<"$candidate") ;;
            *) quoted=$(printf %q "$candidate") ;;
        esac
        COMPREPLY+=("$quoted")
    done < <("${COMP_WORDS[0]}" completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _hermes_completion hermes hermes-sessions
"""


_ZSH: Final = r"""#compdef hermes hermes-sessions
# Completion of hermes for zsh. In ~/.zshrc, after compinit: source <(hermes completion zsh)
_hermes_completion() {
    # PREFIX begins behind a quote that is not closed yet.
    local -a values shown typed=("${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}")
    local value about
    while IFS=$'\t' read -r value about; do
        values+=("$value")
        shown+=("$value${about:+  -- $about}")
    done < <("${words[1]}" completion zsh -- "${(@)typed}" 2>/dev/null)
    if (( ${#values} )); then
        compadd -l -d shown -a values
    else
        _files
    fi
}
compdef _hermes_completion hermes hermes-sessions
"""


_FISH: Final = r"""# Completion of hermes for fish. Once:
#   hermes completion fish > ~/.config/fish/completions/hermes.fish
function __hermes_completion
    set -l before (commandline -opc)
    set -l current (commandline -ct | string unescape)
    test (count $current) -eq 0; and set current ''
    $before[1] completion fish -- $before[2..-1] $current 2>/dev/null
end
complete -c hermes -a '(__hermes_completion)'
complete -c hermes-sessions -a '(__hermes_completion)'
"""


SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


_MAX_CANDIDATES = 30
#: Options of the chat that take a session, also without a command.
_RESUMING = frozenset({"-c", "--continue", "-r", "--resume"})
_TAKES_SESSIONS = frozenset({"--session", "--session-id"})


class Candidate(NamedTuple):
    """A word that can follow, and the description that a shell shows."""

    value: str
    about: str = ""


class Cursor(NamedTuple):
    """The position of the incomplete word in the command line."""

    command: click.Command
    path: tuple[str, ...]
    #: The option whose value is being typed.
    option: click.Option | None
    #: How many arguments precede it.
    position: int


@click.command(short_help="Print a shell completion script.")
@click.argument("shell", type=click.Choice(list(SCRIPTS)))
@click.argument("words", metavar="[WORDS...]", nargs=-1, type=click.UNPROCESSED)
@pass_console
def completion(console: Console, *, shell: str, words: tuple[str, ...]) -> None:
    """Print a script that lets a shell complete commands, options, session ids and titles.

    For bash, add 'source <(hermes completion bash)' to ~/.bashrc; for zsh and fish, see
    docs/cli.md. With WORDS after --, prints the completions of the last word, for the scripts.
    """
    if not words:
        text = SCRIPTS[shell]
        if console.as_json:
            console.print_json({"shell": shell, "script": text})
        else:
            console.print(text.rstrip("\n"))
        return
    typed = [_unquoted(word) for word in words] if shell == "bash" else list(words)
    root = click.get_current_context().find_root().command
    found = list(candidates(console, root, typed))
    if console.as_json:
        console.print_json({"candidates": [candidate._asdict() for candidate in found]})
    else:
        with_words = shell != "bash"
        console.print(
            f"{value}\t{about}" if with_words and about else value for value, about in found
        )


def candidates(console: Console, root: click.Command, words: Sequence[str]) -> Iterator[Candidate]:
    """Yield the completions of the last of *words*, which follow the name of the program."""
    cursor, text = _cursor(root, words), words[-1]
    if cursor.option is not None:
        yield from _values(console, cursor.option, text)
    elif text.startswith("-"):
        yield from _options(cursor.command, text)
    elif isinstance(cursor.command, LazyGroup):
        if not cursor.path and len(words) > 1 and words[-2] in _RESUMING:
            yield from _from_store(console, text, trash=False)
            return
        for name, lazy in cursor.command.lazy_commands.items():
            if name.startswith(text):
                yield Candidate(name, lazy.short_help)
    else:
        argument = _argument(cursor)
        if isinstance(argument.type if argument else None, click.Choice):
            yield from _choices(argument, text)
        elif argument is not None and (argument.metavar or "").startswith("ID"):
            yield from _from_store(console, text, trash=cursor.path[-1:] == ("restore",))


def _cursor(root: click.Command, words: Sequence[str]) -> Cursor:
    command, path = root, list[str]()
    option: click.Option | None = None
    position = 0
    for word in words[:-1]:
        if option is not None:
            option = None
        elif word.startswith("-") and word != "-":
            option = _awaiting(command, word)
        elif isinstance(command, LazyGroup) and word in command.lazy_commands:
            command, position = command.lazy_commands[word].load(), 0
            path.append(word)
        else:
            position += 1
    return Cursor(command, tuple(path), option, position)


def _awaiting(command: click.Command, word: str) -> click.Option | None:
    """Return the option of this name if its value comes next."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and word in parameter.opts:
            return None if parameter.is_flag or parameter.count else parameter
    return None


def _argument(cursor: Cursor) -> click.Parameter | None:
    arguments = [p for p in cursor.command.params if isinstance(p, click.Argument)]
    for number, argument in enumerate(arguments):
        if number == cursor.position or argument.nargs == -1:
            return argument
    return None


def _options(command: click.Command, text: str) -> Iterator[Candidate]:
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            for name in parameter.opts:
                # Offer long names only: one letter does not explain itself.
                if name.startswith(text) and (name.startswith("--") or name == text):
                    yield Candidate(name, one_line(parameter.help or ""))
    if "--help".startswith(text):
        yield Candidate("--help", "Show this message and exit.")


def _values(console: Console, option: click.Option, text: str) -> Iterator[Candidate]:
    if isinstance(option.type, click.Choice):
        yield from _choices(option, text)
    elif _TAKES_SESSIONS.intersection(option.opts) or _RESUMING.intersection(option.opts):
        yield from _from_store(console, text, trash=False)
    elif "--source" in option.opts:
        yield from _sources(console, text)


def _choices(parameter: click.Parameter | None, text: str) -> Iterator[Candidate]:
    if parameter is not None and isinstance(parameter.type, click.Choice):
        for choice in parameter.type.choices:
            if str(choice).startswith(text):
                yield Candidate(str(choice))


# ── from the store ────────────────────────────────────────────────────────────────────────────


def _from_store(console: Console, text: str, *, trash: bool) -> Iterator[Candidate]:
    try:
        with SessionDB(read_only=True, clock=console.clock) as db:
            found = _in_trash(db, text) if trash else _sessions(db, text)
    except HermesSessionsError:
        # Pressing Tab must not print errors. The command itself will report them.
        return
    for value, about in found:
        # A shell cannot type other characters.
        if value.isprintable():
            yield Candidate(value, one_line(about))


def _sessions(db: SessionDB, text: str) -> list[Candidate]:
    titles = db.find_session_titles(text, limit=_MAX_CANDIDATES)
    found = [Candidate(title, session_id) for title, session_id in titles]
    if text:
        ids = db.find_session_ids(text, limit=_MAX_CANDIDATES)
        return found + [Candidate(i, _name(db.get_session(i))) for i in ids]
    latest = db.list_sessions_rich(limit=_MAX_CANDIDATES, compact_rows=True)
    return found + [Candidate(row["id"], _name(row)) for row in latest]


def _in_trash(db: SessionDB, text: str) -> list[Candidate]:
    rows = db.list_trash()
    return [
        Candidate(value, _name(row))
        for row in rows
        for value in (row["title"], row["id"])
        if value and value.lower().startswith(text.lower())
    ][:_MAX_CANDIDATES]


def _name(row: Mapping[str, object] | None) -> str:
    return str((row or {}).get("title") or (row or {}).get("preview") or "")


def _sources(console: Console, text: str) -> Iterator[Candidate]:
    try:
        with SessionDB(read_only=True, clock=console.clock) as db:
            counts = db.get_stats()["sources"]
    except HermesSessionsError:
        return
    for source, numbers in counts.items():
        if source.startswith(text) and source.isprintable():
            yield Candidate(source, f"{numbers['sessions']} sessions")


def _unquoted(word: str) -> str:
    """Return a shell word without quotes; it may be incomplete."""
    import shlex

    for ending in ("", "'", '"'):
        try:
            return " ".join(shlex.split(word + ending))
        except ValueError:
            continue
    return word
