"""Programs of lane tests: ``python -m tests.lifecycle.programs VERB URL …``."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from hermes_sessions import SessionDB
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.lifecycle.session_store import SessionStore
from tests.lifecycle.senders import ann


def _opened(url: str, directory: str, now: str) -> SessionStore:
    db = SessionDB.from_url(url, clock=lambda: float(now))
    return SessionStore(Path(directory), GatewayConfig(write_sessions_json=False), db=db)


def arrive(url: str, directory: str, now: str, chats: str, seed: str) -> None:
    """Wait for a word; then receive messages in all chats, in some order, several times each.

    Say which session each chat was in, always the same one, and how many notices were given out.
    """
    store = _opened(url, directory, now)
    order = random.Random(int(seed))
    print("ready", flush=True)
    sys.stdin.readline()
    found: dict[str, set[str]] = {}
    notices = 0
    for chat in order.choices(range(int(chats)), k=int(chats) * 3) + list(range(int(chats))):
        entry = store.get_or_create_session(ann(chat_id=str(chat)))
        found.setdefault(entry.session_key, set()).add(entry.session_id)
        notices += store.take_notice(entry.session_key) is not None
    seen = {key: sorted(ids) for key, ids in sorted(found.items())}
    print(json.dumps({"sessions": seen, "notices": notices}), flush=True)
    store.close()
    store.db.close()


def live(url: str, directory: str, now: str, chats: str, seed: str) -> None:
    """Do one thing after the other to lanes, for ever; say what was done."""
    store = _opened(url, directory, now)
    order = random.Random(int(seed))
    while True:
        chat = str(order.randrange(int(chats)))
        entry = store.get_or_create_session(ann(chat_id=chat), force_new=order.random() < 0.5)
        store.append_to_transcript(entry.session_id, {"role": "user", "content": "Hello"})
        if order.random() < 0.3:
            store.reset_session(entry.session_key)
        if order.random() < 0.3:
            store.suspend_session(entry.session_key)
        if order.random() < 0.3:
            store.switch_session(entry.session_key, entry.session_id)
        print(entry.session_id, flush=True)


if __name__ == "__main__":
    {"arrive": arrive, "live": live}[sys.argv[1]](*sys.argv[2:])
