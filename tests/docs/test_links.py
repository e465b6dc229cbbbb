"""Links between the pages of the repository are valid."""

import itertools
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def targets(page: Path) -> list[str]:
    """Return the link and image targets of *page* that are not addresses of other sites."""
    found = []
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        for child in token.children or ():
            target = child.attrs.get("href") or child.attrs.get("src")
            if target and not re.match(r"[a-z]+:", str(target)):
                found.append(unquote(str(target)))
    return found


def anchors(page: Path) -> set[str]:
    """Return the anchors that the headings of *page* get where Markdown is shown."""
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    found = set()
    for opening, inline in itertools.pairwise(tokens):
        if opening.type == "heading_open":
            text = "".join(child.content for child in inline.children or ())
            found.add(re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for target in targets(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            dead.append(target)
    assert not dead


def test_a_dead_link_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Two `words`, here\n\n[a](x%20y.md#z) ![b](c.svg) [d](https://example.org)\n")
    assert targets(page) == ["x y.md#z", "c.svg"]
    assert anchors(page) == {"two-words-here"}


def test_every_page_is_found_from_the_first_one() -> None:
    index = ROOT / "docs" / "README.md"
    assert "docs/README.md" in targets(ROOT / "README.md")
    linked = {target.partition("#")[0] for target in targets(index)}
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {index.name}
    assert pages - linked == set()


def test_every_decision_is_in_the_list_in_its_place() -> None:
    directory = ROOT / "docs" / "decisions"
    records = sorted(page.name for page in directory.glob("0*.md"))
    assert targets(directory / "README.md") == records


def test_every_decision_has_the_same_parts() -> None:
    directory = ROOT / "docs" / "decisions"
    index = (directory / "README.md").read_text()
    for page in sorted(directory.glob("0*.md")):
        text = page.read_text()
        parts = re.findall(r"^## (.+)$", text, re.MULTILINE)
        wanted = ["Status", "Context", "Decision", "Consequences", "Alternatives rejected"]
        assert parts == wanted, page.name
        assert re.search(r"## Status\n(Accepted|Superseded|Proposed)", text), page.name
        (title,) = re.findall(r"^# (\d{4}) · (.+)$", text, re.MULTILINE)
        assert f"| [{title[0]}]({page.name}) | {title[1]} |" in index
