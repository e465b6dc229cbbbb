"""Reads the code blocks of a Markdown page and decides how to run each."""

import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

PYTHON = {"python"}
SHELL = {"bash", "console"}
DATA = {"json", "jsonl", "toml", "yaml"}
# Shown, not checked. Any other word is a typing error that would silently switch checking off.
SHOWN = {"diff", "mermaid", "sql", "text"}

_NOT_RUN = re.compile(r"<!--\s*not run:(.*?)-->", re.DOTALL)
_STATUS = re.compile(r"<!--\s*exit status: (\d+)\s*-->")
# What a block may not do to the machine, or cannot do without a network.
_OUT_OF_BOUNDS = re.compile(
    r"^(?:\$ )?\s*(?:sudo\b|apt|brew |git clone|curl |docker |\./test\b"
    r"|pip3? |pipx |uv |python3? -m (?:pip|venv)\b|\S*/bin/(?:pip|activate))",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """One fenced block; *line* is the line of its fence."""

    language: str
    line: int
    text: str
    not_run: str | None  # the reason given for not running it
    status: int  # of the last command of a console block


def read_blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of *page*, each with what the comment right above it says."""
    blocks = []
    comment = ""
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type == "fence":
            not_run = _NOT_RUN.search(comment)
            status = _STATUS.search(comment)
            blocks.append(
                Block(
                    language=token.info.strip(),
                    line=token.map[0] + 1 if token.map else 0,
                    text=token.content,
                    not_run=not_run[1].strip() if not_run else None,
                    status=int(status[1]) if status else 0,
                )
            )
        comment = token.content if token.type == "html_block" else ""
    return blocks


def faults(block: Block) -> list[str]:
    """Return what is wrong with the way a block is written, in words for its author."""
    found = []
    known = PYTHON | SHELL | DATA | SHOWN
    if block.language not in known:
        found.append(f"language {block.language!r} is none of {', '.join(sorted(known))}")
    if block.not_run == "":
        found.append("'not run:' must be followed by a reason")
    if block.language in SHELL and block.not_run is None:
        found += [
            f"{match[0].strip()!r} needs a '<!-- not run: reason -->' above the block"
            for match in _OUT_OF_BOUNDS.finditer(block.text)
        ]
    if block.status and block.language != "console":
        found.append("an exit status can only be expected of a console block")
    return found
