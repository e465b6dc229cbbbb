"""The file formats of exported sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

Record = Mapping[str, Any]

JSONL = "jsonl"
MARKDOWN = "md"
HTML = "html"
#: The formats, each with the file extensions that choose it.
FORMS = {JSONL: (".jsonl",), MARKDOWN: (".md", ".markdown"), HTML: (".html", ".htm")}


def form_of(target: str) -> str:
    """Return the format for the extension of a file, JSONL for any other."""
    name = target.lower()
    return next((form for form, endings in FORMS.items() if name.endswith(endings)), JSONL)


def write_as(form: str, records: Iterable[Record], file: BinaryIO) -> None:
    """Write export records in one of the `FORMS`, holding one session in memory at a time."""
    if form == JSONL:
        from hermes_sessions.storage.jsonl import write_jsonl

        write_jsonl(records, file)
        return
    from hermes_sessions.cli.render import export

    if form == MARKDOWN:
        begin, session, end = "", export.markdown_session, ""
    else:
        begin, session, end = export.html_begin(), export.html_session, export.html_end()
    file.write(begin.encode())
    for record in records:
        # Lone surrogates cannot be encoded as UTF-8.
        file.writelines(piece.encode("utf-8", "replace") for piece in session(record))
    file.write(end.encode())
