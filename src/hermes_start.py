"""Where the commands ``hermes`` and ``hermes-sessions`` begin.

A module of its own, outside the package, because of Ctrl-C: until the package is loaded and can
answer it properly, it ends the process without a word, as a shell expects. Otherwise Python would
print where in its imports it was.
"""

import _signal  # type: ignore[import-not-found]

# The module `signal` takes longer to import than all of this. Who starts us with the signal
# ignored, as nohup does, keeps it so.
_IS_OURS = _signal.getsignal(_signal.SIGINT) in {_signal.default_int_handler, _signal.SIG_DFL}


def _leave_quietly() -> None:
    if _IS_OURS:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


_leave_quietly()


def run() -> int:
    """Run the command line of this process and return its exit code."""
    from hermes_sessions.cli.main import run as run_command

    try:
        return run_command(on_ready=_answer_ctrl_c)
    finally:
        # All is done; what Python still puts away is nobody's concern.
        _leave_quietly()


def _answer_ctrl_c() -> None:
    if _IS_OURS:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
