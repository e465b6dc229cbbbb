"""In which form sessions are written to a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO

Record = Mapping[str, Any]

JSONL = "jsonl"
MARKDOWN = "md"
HTML = "html"
#: The forms, and how names of files in them end.
FORMS = {JSONL: (".jsonl",), MARKDOWN: (".md", ".markdown"), HTML: (".html", ".htm")}


def form_of(target: str) -> str:
    """Return the form that the name of a file stands for; JSONL when it stands for none."""
    name = target.lower()
    return next((form for form, endings in FORMS.items() if name.endswith(endings)), JSONL)


def write_as(form: str, records: Iterable[Record], file: BinaryIO) -> None:
    """Write export records in one of the `FORMS`; one session is held at a time."""
    if form == JSONL:
        from hermes_sessions.storage.jsonl import write_jsonl

        write_jsonl(records, file)
    elif form == MARKDOWN:
        from hermes_sessions.cli.render import export as md

        _write(records, file, md.markdown_begin(), md.markdown_session, md.markdown_end())
    else:
        from hermes_sessions.cli.render import export

        _write(records, file, export.html_begin(), export.html_session, export.html_end())


def _write(
    records: Iterable[Record],
    file: BinaryIO,
    begin: str,
    session: Callable[[Record], Iterator[str]],
    end: str,
) -> None:
    file.write(begin.encode())
    for record in records:
        # Halves of surrogate pairs are no UTF-8.
        file.writelines(piece.encode("utf-8", "replace") for piece in session(record))
    file.write(end.encode())
