"""The start of the commands ``hermes`` and ``hermes-sessions``.

It is outside the package because of Ctrl-C: until the package is loaded and handles it, Ctrl-C ends
the process silently, as a shell expects. Otherwise Python would print a traceback of its imports.
"""

import _signal  # type: ignore[import-not-found]

# Importing `signal` takes longer than this whole module. A signal that the parent process ignores,
# as nohup does, stays ignored.
_IS_OURS = _signal.getsignal(_signal.SIGINT) in {_signal.default_int_handler, _signal.SIG_DFL}


def _exit_silently() -> None:
    if _IS_OURS:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


_exit_silently()


def run() -> int:
    """Run the command line of this process and return its exit code."""
    from hermes_sessions.cli.main import run as run_command

    try:
        return run_command(on_ready=_handle_ctrl_c)
    finally:
        # The command is done, so an interrupt of Python's cleanup should print nothing.
        _exit_silently()


def _handle_ctrl_c() -> None:
    if _IS_OURS:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
