"""Small disks and directories that cannot be written, for processes that open a store there.

As root, and wherever users may have their own mounts, real mounts are used in a namespace that goes
away with the process; nothing is left behind and tests do not meet.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

_OWN_MOUNTS = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-r", "--mount"]


def on_a_small_disk(directory: Path, kilobytes: int, results: Path) -> list[str]:
    """A command line to put in front of another, which then finds *directory* on a disk of that
    size, with its present files. What is there in the end is copied to *results*."""
    here, there = shlex.quote(str(directory)), shlex.quote(str(results))
    script = f"""
        set -e
        mkdir -p {there}/before {there}/after
        cp -a {here}/. {there}/before
        mount -t tmpfs -o size={kilobytes}k,mode=700 tmpfs {here}
        cp -a {there}/before/. {here}
        "$@"
        cp -a {here}/. {there}/after
    """
    return [*_OWN_MOUNTS, "sh", "-c", script, "sh"]


def read_only(path: Path) -> list[str]:
    """A command line to put in front of another, which then cannot write to the file or directory
    *path*, for every user."""
    here = shlex.quote(str(path))
    script = f"""
        set -e
        mount --bind {here} {here}
        mount -o remount,bind,ro {here}
        exec "$@"
    """
    return [*_OWN_MOUNTS, "sh", "-c", script, "sh"]


def in_a_read_only_directory(path: Path) -> list[str]:
    """A command line to put in front of another, which then can write to the file *path* and to
    nothing beside it."""
    here = shlex.quote(str(path))
    script = f"""
        set -e
        mount --bind "$(dirname {here})" "$(dirname {here})"
        mount -o remount,bind,ro "$(dirname {here})"
        mount --bind {here} {here}
        mount -o remount,bind,rw {here}
        exec "$@"
    """
    return [*_OWN_MOUNTS, "sh", "-c", script, "sh"]
