"""Search stored messages and highlight the matches in HTML.

python search_history.py [FILE]
"""

import sys
from html import escape

from hermes_sessions import SearchConditions, SessionDB


def as_html(text: str, spans: list[tuple[int, int]]) -> str:
    """Return the text with each match in <mark>."""
    pieces, done = [], 0
    for start, end in spans:
        pieces += [escape(text[done:start]), "<mark>", escape(text[start:end]), "</mark>"]
        done = end
    return "".join([*pieces, escape(text[done:])])


def main(path: str) -> None:
    with SessionDB(path) as db:
        session_id = db.create_session(source="example")
        db.append_messages(
            session_id,
            [
                {"role": "user", "content": "Why does the build fail with <libfoo>?"},
                {"role": "assistant", "content": "libfoo 1.2 is missing from the image."},
            ],
        )

        # Any text is a valid query. Filters can be part of it: "libfoo role:user after:7d".
        answer = db.search("libfoo", sort="oldest")
        print(f"{answer.report.total} matches")
        for hit in answer.hits:
            print(f"  {hit.role}: {as_html(hit.snippet_text, hit.spans)}")

        # A question that finds nothing as asked is relaxed, and the answer says how.
        answer = db.search(
            "which libraries are missing", conditions=SearchConditions(roles=("assistant",))
        )
        print(f"{len(answer.hits)} by {answer.report.step!r}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "example.db")
