"""Set up the environment in .venv from a hashed lock file; the slow path of ./hermes and ./test.

Called as ``environment.py LOCK NAME=STAMP...`` by scripts/environment.sh, with any Python from
3.11 on and the standard library only. One process works at a time; the others wait and find the
work done. A set-up that was interrupted leaves a mark, and the next one starts from nothing.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
# Present from before the first change until after the last one.
INCOMPLETE = VENV / "incomplete"
# Settings of pip that would install elsewhere than into the environment, or refuse the clone.
MISLEADING_SETTINGS = (
    "PIP_PREFIX",
    "PIP_REQUIRE_HASHES",
    "PIP_ROOT",
    "PIP_TARGET",
    "PIP_USER",
)


class SetupError(Exception):
    """A step failed; the text holds what its program printed."""


def say(text: str) -> None:
    """Tell the person waiting; stdout is not ours."""
    print(f"environment: {text}", file=sys.stderr, flush=True)


def run(*command: str | Path, lock: int) -> None:
    """Run one step quietly; raise SetupError with its output when it fails.

    The step inherits the lock: should this process be killed, the next one waits for the step.
    """
    environment = {k: v for k, v in os.environ.items() if k not in MISLEADING_SETTINGS}
    result = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
        errors="replace",
        check=False,
        pass_fds=(lock,),
    )
    if result.returncode != 0:
        raise SetupError(f"{result.stdout.strip()}\nfailed: {' '.join(map(str, command))}")


def take_lock() -> int:
    """Wait until no other set-up runs; the returned descriptor holds the lock until exit."""
    lock = os.open(ROOT / ".venv.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("waiting for another set-up to finish")
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def is_current(stamps: dict[str, str]) -> bool:
    """Whether the environment is complete and made from the inputs the stamps stand for."""
    if INCOMPLETE.exists() or not (VENV / "bin" / "python").exists():
        return False
    for name, stamp in stamps.items():
        path = VENV / f"{name}.stamp"
        if not path.exists() or path.read_text() != stamp + "\n":
            return False
    return True


def is_reusable() -> bool:
    """Whether packages may be exchanged in place instead of starting from nothing.

    Every stamp names the place the environment was made for: one that was moved or copied has
    scripts that start the Python of its old place.
    """
    stamps = [path.read_text() for path in VENV.glob("*.stamp")]
    return (
        bool(stamps)
        and not INCOMPLETE.exists()
        and (VENV / "bin" / "python").exists()
        and all(f" {ROOT}/pyproject.toml\n" in stamp for stamp in stamps)
    )


def create(lock: int) -> None:
    """Make an empty environment with pip in it."""
    if VENV.is_symlink() or VENV.is_file():
        VENV.unlink()
    elif VENV.exists():
        shutil.rmtree(VENV)
    VENV.mkdir()
    INCOMPLETE.touch()
    # The resolved program carries its version in its name: when the system moves on to another
    # Python it disappears, which is noticed, instead of silently becoming that other Python.
    run(Path(sys.executable).resolve(), "-I", "-m", "venv", VENV, lock=lock)


def install(requirements: str, lock: int) -> None:
    """Install the locked packages, then the clone itself as an editable package.

    For development, the test tools are installed in the same way.
    """
    pip = (VENV / "bin" / "python", "-I", "-m", "pip", "install", "--no-input")
    pip = (*pip, "--disable-pip-version-check")
    locked = ROOT / "requirements" / f"{requirements}.lock"
    # The lock is complete, so nothing is resolved: pip would look for the newest release of what
    # is asked for with an extra, and refuse it for want of a hash.
    run(*pip, "--no-deps", "--require-hashes", "-r", locked, lock=lock)
    # Everything it needs is there, so nothing is resolved, fetched or isolated.
    own = [ROOT, *([ROOT / "testing"] if requirements == "dev" else [])]
    editable = [argument for path in own for argument in ("-e", path)]
    run(*pip, "--no-index", "--no-deps", "--no-build-isolation", *editable, lock=lock)
    compile_sources(lock)
    # What "hermes-sessions adopt" does in an environment without hermes-agent.
    shutil.copy2(VENV / "bin" / "hermes-sessions", VENV / "bin" / "hermes")


def compile_sources(lock: int) -> None:
    """Compile the clone's modules, as pip compiles packages, so that the first start is fast.

    It stays fast where Python may not write bytecode. A module that cannot be compiled stops only
    the command that imports it.
    """
    with suppress(SetupError):
        run(VENV / "bin" / "python", "-I", "-m", "compileall", "-q", ROOT / "src", lock=lock)


def main(requirements: str, *named_stamps: str) -> int:
    """Bring the environment to the given stamps; return the exit status."""
    stamps = dict(item.split("=", 1) for item in named_stamps)
    try:
        lock = take_lock()
        if is_current(stamps):
            return 0
        say(f"setting up {VENV} (once, well under a minute)")
        if not is_reusable():
            create(lock)
        INCOMPLETE.touch()
        install(requirements, lock)
        for name, stamp in stamps.items():
            (VENV / f"{name}.stamp").write_text(stamp + "\n")
        INCOMPLETE.unlink()
        say("ready")
    except (SetupError, OSError) as error:
        say(f"set-up failed, the next start tries again\n{error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted, the next start tries again")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
