"""One store for a team: each person sees their own sessions, the operator sees all.

python team_store.py postgresql://user:password@host/database
"""

import sys

from hermes_sessions import Scope, SessionDB


def main(url: str) -> None:
    # sqlite:///team.db and mysql://user@host/database work the same way.
    with SessionDB.from_url(url) as db:
        for person, topic in (("anna", "the quarterly report"), ("ben", "the report of last year")):
            session_id = db.create_session(source="web", user_id=person)
            db.append_message(session_id, "user", f"Summarise {topic}.")

        # A scope limits what is read: for a search, a list or an agent's tools.
        for person in ("anna", "ben"):
            answer = db.search("report", scope=Scope(user_id=person, source="web"))
            print(f"{person}: {[hit.snippet_text for hit in answer.hits]}")

        everything = db.search("report", sort="oldest")
        print(f"operator: {everything.report.total} messages on {db.describe()['provider']}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "sqlite:///team.db")
