"""Runs an installed hermes-agent in one process with our engine, on the store of its home.

    python program.py SOURCES (ours|theirs) DESCRIPTOR ARGUMENT...

The client stores with our ``hermes_state``, or with its own. Beside it, a thread stores messages
with ours for as long as the process lives, and writes the number of each to DESCRIPTOR when it is
acknowledged. ``neighbours.txt`` gets a line whenever Python's SQLite library opens the store.
"""

import os
import sys
import threading
from typing import Any

home = os.environ["HERMES_HOME"]
sources, whose, acknowledged = sys.argv[1], sys.argv[2], int(sys.argv[3])
sys.path.insert(0, sources)
from hermes_sessions import SessionDB  # noqa: E402

if whose == "theirs":
    sys.path.remove(sources)
import hermes_state  # noqa: E402 - ours before the client imports its own

assert str(hermes_state.__file__).startswith(sources) == (whose == "ours"), hermes_state.__file__


def note_neighbour(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "sqlite3.connect" and f"{home}/state.db" in str(arguments[0]):
        with open("neighbours.txt", "a", encoding="utf-8") as file:  # noqa: PTH123
            file.write(f"{arguments[0]}\n")


def write_beside() -> None:
    store = SessionDB()
    store.create_session("beside", source="test")
    pace = threading.Event()
    number = 0
    while not pace.wait(0.01):  # The client needs the interpreter, too.
        store.append_message("beside", "user", str(number))
        os.write(acknowledged, f"{number}\n".encode())
        number += 1


sys.addaudithook(note_neighbour)
threading.Thread(target=write_beside, daemon=True).start()
sys.argv = ["hermes", *sys.argv[4:]]
from hermes_cli.main import main  # noqa: E402

main()
