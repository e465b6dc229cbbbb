"""Runs the blocks of one page in their order; a program, started once per page.

Called with the page's name and a file of blocks as JSON. Python blocks share one namespace in
this process; neighbouring shell blocks share one bash. Commands see a terminal as output, as
their reader will. Ends with status 1 and the place of the first block that does not do what the
page says.
"""

import fcntl
import itertools
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MARK = "\x1e"
COLUMNS = 100
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: A progress bar, which comes when a machine takes its time. No page can say whether it does.
_BAR = re.compile(r"(?:\r[^\r\n]* \[[#-]+\][^\r\n]*)+\n?")

BlockData = dict[str, Any]


class Mismatch(Exception):
    """The page and the program disagree; the text says where and how."""


def run_python(page: str, block: BlockData, namespace: dict[str, Any]) -> None:
    # Blank lines in front make a traceback name the page's own line.
    source = "\n" * block["line"] + block["text"]
    try:
        exec(compile(source, page, "exec"), namespace)
    except Exception:  # noqa: BLE001 - whatever the page raises is its author's to read
        raise Mismatch(f"{page}:{block['line']}: {traceback.format_exc()}") from None


def console_commands(block: BlockData) -> Iterator[tuple[int, str, list[str]]]:
    """Yield line, command and expected output; '> ' continues the command above."""
    current: tuple[int, str, list[str]] | None = None
    for number, line in enumerate(block["text"].splitlines(), block["line"] + 1):
        if line.startswith("$ "):
            if current:
                yield current
            current = (number, line[2:], [])
        elif current is None:
            raise Mismatch(f"line {number}: a console block starts with a '$ ' command")
        elif line.startswith("> ") and not current[2]:
            current = (current[0], f"{current[1]}\n{line[2:]}", [])
        else:
            current[2].append(line)
    if current:
        yield current


def expects_status(command: str, status: int) -> str:
    """Return shell text that runs *command* and goes on only if it exits with *status*."""
    return f"set +e\n{command}\nset -- $?\nset -e\n[ $1 = {status} ]"


def shell_script(blocks: list[BlockData]) -> tuple[str, dict[int, list[str]]]:
    """Return the bash text for the blocks, and the output expected after each marked line."""
    script: list[str] = []
    expected: dict[int, list[str]] = {}
    for block in blocks:
        if block["language"] == "bash":
            script += [f"printf '\\036%s\\n' {block['line']}", block["text"]]
            continue
        commands = list(console_commands(block))
        for index, (line, command, output) in enumerate(commands, 1):
            if index == len(commands) and block["status"]:
                command = expects_status(command, block["status"])  # noqa: PLW2901
            script += [f"printf '\\036%s\\n' {line}", command]
            expected[line] = output
    return "\n".join(script), expected


def output_of(script: str) -> tuple[int, str]:
    """Run *script* in bash with a terminal as output and nothing as input."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    attributes = termios.tcgetattr(theirs)
    attributes[1] &= ~termios.OPOST  # no carriage returns
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    process = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    chunks = []
    # A background process may keep the terminal open after bash has ended: hence no read to end.
    while select.select([ours], [], [], 0.05)[0] or process.poll() is None:
        if select.select([ours], [], [], 0)[0]:
            try:
                chunks.append(os.read(ours, 65536))
            except OSError:  # how Linux says that the other side is closed
                break
    os.close(ours)
    text = b"".join(chunks).decode(errors="replace")
    return process.wait(), _BAR.sub("", _ANSI.sub("", text))


def tidy(lines: list[str]) -> list[str]:
    lines = [line.rstrip() for line in lines]
    while lines and not lines[0]:
        del lines[0]
    while lines and not lines[-1]:
        del lines[-1]
    return lines


def matches(expected: list[str], output: list[str]) -> bool:
    """Whether *output* is what the page shows; dots stand for anything, alone for any lines."""
    pattern = ""
    for line in tidy(expected):
        if line.strip() in {"…", "..."}:
            pattern += r"(?:.*\n)*"
        else:
            parts = (re.escape(part) for part in re.split(r"…|\.\.\.", line))
            pattern += ".*".join(parts) + r"\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in tidy(output))) is not None


def run_shell(page: str, blocks: list[BlockData]) -> None:
    script, expected = shell_script(blocks)
    status, text = output_of(script)
    line = blocks[0]["line"]
    output = ""
    for part in text.split(MARK)[1:]:
        marked, _, output = part.partition("\n")
        line = int(marked)
        if line in expected and not matches(expected[line], output.splitlines()):
            shown = "\n".join(expected[line])
            raise Mismatch(f"{page}:{line}: expected\n{shown}\nbut got\n{output}")
    if status:
        raise Mismatch(f"{page}:{line}: ended with exit status {status}\n{output}")


def main(page: str, plan: str) -> int:
    blocks = json.loads(Path(plan).read_text(encoding="utf-8"))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    try:
        for language, group in itertools.groupby(blocks, lambda b: b["language"] == "python"):
            if language:
                for block in group:
                    run_python(page, block, namespace)
            else:
                run_shell(page, list(group))
    except Mismatch as mismatch:
        print(mismatch, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
