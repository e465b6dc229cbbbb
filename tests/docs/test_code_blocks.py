"""What the documentation shows works: its blocks are run, in order, page by page.

`python` blocks of a page share one namespace. `bash` blocks must succeed. In `console` blocks,
lines after `$ ` are commands and the rest is what they print, `…` standing for anything.
`<!-- not run: reason -->` above a block exempts it; `<!-- exit status: 2 -->` above a console
block says how its last command ends.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs import page_runner
from tests.docs.pages import DATA, PYTHON, SHELL, faults, read_blocks

ROOT = Path(__file__).parent.parent.parent
PAGES = [*ROOT.glob("README.md"), *sorted((ROOT / "docs").rglob("*.md"))]

PARSERS: dict[str, Callable[[str], Any]] = {
    "json": json.loads,
    "jsonl": lambda text: [json.loads(line) for line in text.splitlines()],
    "toml": tomllib.loads,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
}


def blocks_to_run(page: Path) -> list[dict[str, Any]]:
    return [
        dataclasses.asdict(block)
        for block in read_blocks(page)
        if block.language in PYTHON | SHELL and block.not_run is None
    ]


def run_page(page: Path, name: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Run the page's blocks in a new home and a working directory with ./hermes in it."""
    blocks = blocks_to_run(page)
    plan = place / "plan.json"
    plan.write_text(json.dumps(blocks), encoding="utf-8")
    directory = place / "directory"
    directory.mkdir()
    programs = Path(sys.executable).parent
    (directory / "hermes").symlink_to(programs / "hermes")
    return subprocess.run(
        [sys.executable, "-W", "error", page_runner.__file__, name, plan],
        cwd=directory,
        env={
            "HERMES_HOME": str(place / "home"),
            "HOME": str(place),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "TERM": "dumb",
            "TZ": "UTC",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_blocks_of_a_page_do_what_it_says(
    page: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    for block in read_blocks(page):
        if block.not_run:
            record_property("not run", f"{name_of(page)}:{block.line}: {block.not_run}")
    if blocks_to_run(page):
        result = run_page(page, name_of(page), tmp_path)
        assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_blocks_of_a_page_are_well_written(page: Path) -> None:
    found = []
    for block in read_blocks(page):
        found += [f"{name_of(page)}:{block.line}: {fault}" for fault in faults(block)]
        if block.language in DATA:
            try:
                PARSERS[block.language](block.text)
            except (ValueError, yaml.YAMLError) as error:
                found.append(f"{name_of(page)}:{block.line}: {error}")
    assert not found


def write_page(path: Path, *blocks: str) -> Path:
    """Write a page of blocks given as 'language', newline, text; with comments as they are."""
    parts = [
        block if block.startswith("<!--") else f"```{block}\n```\n\nand then\n" for block in blocks
    ]
    path.write_text("# Page\n\n" + "\n".join(parts), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "blocks",
    [
        ["python\nx = 1", "text\nwhatever", "python\nassert x == 1"],
        ["bash\nX=1\nmkdir d\ncd d", "console\n$ echo $X $(basename $PWD)\n1 d"],
        ["python\nimport os\nos.mkdir('d')", "console\n$ ls -d d\nd", "python\nos.rmdir('d')"],
        ["console\n$ seq 5\n1\n…\n5\n$ echo 2026-01-02 done\n… done"],
        ["console\n$ cat <<END\n> a\n> b\n> END\na\nb"],
        ["console\n$ test -t 1 && echo terminal\nterminal"],
        ["<!-- exit status: 3 -->", "console\n$ echo oops >&2; (exit 3)\noops", "bash\ntrue"],
        ["<!-- not run: it would end the world -->", "bash\nfalse"],
        ["bash\ntest -L hermes && test -x ./hermes && command -v hermes"],
    ],
)
def test_a_page_that_tells_the_truth(tmp_path: Path, blocks: list[str]) -> None:
    result = run_page(write_page(tmp_path / "page.md", *blocks), "page.md", tmp_path)
    assert (result.returncode, result.stderr) == (0, "")


BAR = """
import itertools, sys
from hermes_sessions.cli.console import Progress
seconds = itertools.count(0, 2)
print("before")
with Progress("Indexing", 3, visible=True, stopwatch=lambda: float(next(seconds))) as bar:
    for _ in range(3):
        bar.advance()
print("after")
"""


def test_whether_a_machine_takes_its_time_is_not_on_a_page(tmp_path: Path) -> None:
    (tmp_path / "bar.py").write_text(BAR)
    page = write_page(tmp_path / "page.md", "console\n$ python ../bar.py 2>&1\nbefore\nafter")
    result = run_page(page, "page.md", tmp_path)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("blocks", "complaint"),
    [
        (["python\nx = 1", "python\n\nassert x == 2"], 'File "page.md", line 11'),
        (["bash\ntrue\nfalse\ntrue"], "page.md:3: ended with exit status 1"),
        (["bash\nfalse | true"], "exit status 1"),
        (["console\n$ true\n$ echo a\nb"], "page.md:5: expected\nb\nbut got\na"),
        (["console\n$ echo a"], "but got\na"),
        (["console\n$ seq 5\n1\n…\n4"], "but got"),
        (["console\n$ echo a\na", "console\n$ false"], "page.md:11: ended with"),
        (["<!-- exit status: 3 -->", "console\n$ (exit 2)"], "exit status 1"),
        (["console\nhello"], "starts with a '$ ' command"),
    ],
)
def test_a_page_that_does_not(tmp_path: Path, blocks: list[str], complaint: str) -> None:
    result = run_page(write_page(tmp_path / "page.md", *blocks), "page.md", tmp_path)
    assert result.returncode == 1
    assert complaint in result.stderr


@pytest.mark.parametrize(
    ("blocks", "complaint"),
    [
        (["pyhton\nx"], "language 'pyhton'"),
        (["\nx"], "language ''"),
        (["<!-- not run: -->", "bash\nx"], "a reason"),
        (["console\n$ git clone there"], "'$ git clone' needs"),
        (["bash\npip install hermes-sessions"], "'pip' needs"),
        (["bash\necho hello\n./test"], "'./test' needs"),
        (["<!-- exit status: 1 -->", "bash\nfalse"], "console block"),
    ],
)
def test_a_badly_written_block(tmp_path: Path, blocks: list[str], complaint: str) -> None:
    (block,) = read_blocks(write_page(tmp_path / "page.md", *blocks))
    assert complaint in " ".join(faults(block))
