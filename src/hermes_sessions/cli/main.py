"""The entry point of the ``hermes`` and ``hermes-sessions`` commands.

Turns every outcome into an exit code, and expected failures into one line on standard error.
Other modules are imported inside functions, so that an interrupt during start-up is handled, too.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from hermes_sessions.cli.console import Console

DONE = 0
REFUSED = 1
USAGE = 2
#: The codes that shells use for commands ended by SIGINT or SIGPIPE.
INTERRUPTED = 130
PIPE_CLOSED = 141

#: Collect garbage rarely: start-up creates many objects, and hardly any of them is garbage.
_GC_THRESHOLD = 100_000


def run(
    arguments: Sequence[str] | None = None,
    console: Console | None = None,
    *,
    on_ready: Callable[[], None] = lambda: None,
) -> int:
    """Run the command line and return the exit code.

    Without *arguments*, uses those of the process, which must end after the command. Calls
    *on_ready* as soon as it handles Ctrl-C.

    0 done, 1 not found or refused, 2 wrong usage or configuration, 3 store unavailable, 130
    interrupted, 141 the reader closed the output.
    """
    is_whole_process = arguments is None
    if is_whole_process:
        gc.set_threshold(_GC_THRESHOLD)
        _open_missing_streams()
    try:
        on_ready()
        _never_fail_on_encoding()
        return _run(sys.argv[1:] if arguments is None else arguments, console)
    except KeyboardInterrupt:
        _end_line()
        return INTERRUPTED
    except BrokenPipeError:
        _discard(sys.stdout)
        _discard(sys.stderr)
        return PIPE_CLOSED
    finally:
        if is_whole_process:
            # The process is about to exit, so collecting garbage would be wasted time.
            gc.freeze()


def _run(arguments: Sequence[str], console: Console | None) -> int:
    from hermes_sessions.cli.console import Console, show_library_warnings
    from hermes_sessions.errors import HermesSessionsError

    console = console or Console()
    try:
        with show_library_warnings(console):
            code = _run_command(arguments, console)
            sys.stdout.flush()
            return code
    except HermesSessionsError as error:
        _report(console, str(error))
        return error.exit_code
    except BrokenPipeError:
        raise
    except OSError as error:
        # The operating system describes a full disk or an unreadable file best.
        name = "standard output" if _output_is_lost() else error.filename
        _report(console, f"{f'{name}: ' if name else ''}{error.strerror or error}.")
        return REFUSED


def _run_command(arguments: Sequence[str], console: Console) -> int:
    """Run the command; the list of sessions without importing click, if it has no options."""
    if list(arguments) != ["sessions", "list"]:
        return _run_parsed(arguments, console)
    from hermes_sessions.cli.session_list import print_sessions

    print_sessions(console)
    return DONE


def _run_parsed(arguments: Sequence[str], console: Console) -> int:
    import click

    from hermes_sessions.cli.chat.arguments import as_chat
    from hermes_sessions.cli.root import COMMANDS, hermes

    on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    arguments = as_chat(arguments, COMMANDS, on_terminal=on_terminal)
    try:
        with hermes.make_context(_program_name(), arguments, obj=console) as context:
            hermes.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.UsageError as error:
        hint = f" Try '{error.ctx.command_path} --help'." if error.ctx else ""
        _report(console, error.format_message() + hint)
        return USAGE
    return DONE


def _report(console: Console, message: str) -> None:
    from hermes_sessions.cli.render.safe_text import lines

    first, *others = lines(message)
    console.tell([f"Error: {first}", *others])


def _program_name() -> str:
    name = os.path.basename(sys.argv[0])  # noqa: PTH119 - pathlib is not loaded yet
    return name if name in {"hermes", "hermes-sessions"} else "hermes"


def _open_missing_streams() -> None:
    """Replace standard streams that were closed when the process started.

    Otherwise the next opened file would get their descriptors, and be written to. Afterwards input
    is at its end, messages on standard error are lost, and printing data fails as on a full disk.
    """
    for number, name, mode, way in (
        (0, "stdin", "r", os.O_RDONLY),
        (1, "stdout", "w", os.O_RDONLY),
        (2, "stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, way)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _never_fail_on_encoding() -> None:
    """Escape characters that the terminal's encoding lacks, and read undecodable bytes as
    surrogates, as in the arguments of a process.
    """
    for stream, errors in (
        (sys.stdin, "surrogateescape"),
        (sys.stdout, "backslashreplace"),
        (sys.stderr, "backslashreplace"),
    ):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=errors)


def _end_line() -> None:
    """Leave the line on which the terminal echoed ``^C``."""
    try:
        sys.stderr.write("\n")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def _output_is_lost() -> bool:
    """Return whether the buffered output cannot be written; discard it then."""
    try:
        sys.stdout.flush()
    except OSError:
        _discard(sys.stdout)
        return True
    return False


def _discard(stream: TextIO) -> None:
    """Discard buffered output, so that the interpreter's exit prints no error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    except (OSError, ValueError):
        return  # Not a real file, so there is nothing that could fail at exit.
    finally:
        os.close(nowhere)
