"""Store a conversation, close the program, and continue it later.

python store_conversation.py [FILE]
"""

import sys

from hermes_sessions import SessionDB


def first_run(path: str) -> None:
    with SessionDB(path) as db:
        session_id = db.create_session(source="example", model="gpt-4o")
        db.append_message(session_id, role="user", content="Plan a trip to Lisbon.")
        db.append_message(session_id, role="assistant", content="Gladly. When do you travel?")
        db.set_session_title(session_id, "Lisbon")


def later_run(path: str) -> None:
    with SessionDB(path) as db:
        session_id = db.resolve_session_by_title("Lisbon")
        if session_id is None:
            raise SystemExit("There is no session called Lisbon.")

        # An external id makes retries safe: the same message is stored once.
        for _ in range(2):
            db.append_message(session_id, "user", "In May.", external_id="example:42")

        # This is what a model expects as its history.
        for message in db.get_messages_as_conversation(session_id):
            print(f"{message['role']}: {message['content']}")


if __name__ == "__main__":
    file = sys.argv[1] if len(sys.argv) > 1 else "example.db"
    first_run(file)
    later_run(file)
