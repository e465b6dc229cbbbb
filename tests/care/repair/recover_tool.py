"""A real ``sqlite3`` tool that can ``.recover``.

Many systems build theirs against a library without the means. The tool is the same, so it is given
the library that comes with our driver; its check that both are of one version is satisfied.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from pathlib import Path

import apsw
import apsw.sqlite_extra

from hermes_sessions.storage.sqlite.repair.recover_tool import find_recover_tool

_STAMP = 84


@functools.cache
def recovering_tool() -> str:
    """Return where one is; fails where there is no tool at all."""
    if (found := find_recover_tool()) is not None:
        return found
    system = shutil.which("sqlite3")
    assert system, "there is no sqlite3 tool here: install sqlite3"
    folder = Path(tempfile.mkdtemp(prefix="hermes-tool-"))
    binary = Path(os.path.realpath(system)).read_bytes()
    library = Path(apsw.sqlite_extra.path("sqlite3_shell")).with_name("libsqlite3_tool.so")
    # What is preloaded is named without blanks, wherever the environment is.
    (folder / library.name).symlink_to(library)
    stamp = apsw.sqlite3_sourceid().encode()
    begin = _version_stamp(binary)
    patched = binary[:begin] + stamp[:_STAMP].ljust(_STAMP, b"\0") + binary[begin + _STAMP :]
    (folder / "tool").write_bytes(patched)
    (folder / "tool").chmod(0o700)
    (folder / "sqlite3").write_text(
        f'#!/bin/sh\nLD_PRELOAD="{folder}/{library.name}" exec "{folder}/tool" "$@"\n',
        encoding="utf-8",
    )
    (folder / "sqlite3").chmod(0o700)
    tool = find_recover_tool(str(folder / "sqlite3"))
    assert tool, "the sqlite3 tool of this system cannot recover, not even with another library"
    return tool


def _version_stamp(binary: bytes) -> int:
    """Return the version that the tool prints: a date, a time, and a hash."""
    import re

    found = re.search(rb"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d [0-9a-f]{60}[0-9a-z]{4}", binary)
    assert found, "the sqlite3 tool does not print its version"
    return found.start()
