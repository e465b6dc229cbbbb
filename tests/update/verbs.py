"""A process that uses a store in many ways, of the version that is first on the path.

    python verbs.py URL

Prints one line of JSON: what it found, or why it was refused.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from hermes_sessions import SessionDB
from hermes_sessions.errors import HermesSessionsError


def use(url: str) -> dict[str, Any]:
    with SessionDB.from_url(url, lock_timeout=120.0) as db:
        found: dict[str, Any] = {
            "listed": sorted(row["id"] for row in db.list_sessions_rich(limit=100)),
            "replay": [m["content"] for m in db.get_messages_as_conversation("rewound")],
            "hits": sorted(hit["session_id"] for hit in db.search_messages("pineapple")),
            "exported": sorted(record["id"] for record in db.export_all()),
        }
        db.append_message("kept", "user", "from the earlier version")
        db.set_session_title("kept", "Renamed")
        target = db.append_message("rewound", "user", "to be rewound")
        db.append_message("rewound", "assistant", "an answer")
        db.rewind_to_message("rewound", target)
        db.set_session_archived("archived", True)
        db.delete_session("deleted")
        db.create_session("new", "cli", parent_session_id="kept")
        db.append_message("new", "user", "a pineapple of its own")
        db.end_session("new", "done")
        db.update_token_counts("new", input_tokens=3, model="m")
        return found


if __name__ == "__main__":
    try:
        print(json.dumps(use(sys.argv[1])))
    except HermesSessionsError as error:
        print(json.dumps({"refused": " ".join(str(error).split())}))
