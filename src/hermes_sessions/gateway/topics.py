"""Topics of private Telegram chats are sessions of their own; which, is stored for everybody."""

from __future__ import annotations

from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.sessiondb import SessionDB


def note_topic(db: SessionDB, source: SessionSource, session_key: str, session_id: str) -> None:
    """Bind the topic that a message came from to the session that it is answered in.

    A session that goes on in another topic, because somebody resumed it there, leaves the old one.
    """
    is_private = source.platform is Platform.TELEGRAM and source.chat_type == "dm"
    if not is_private or not source.thread_id or not source.user_id:
        return
    here = {"chat_id": source.chat_id, "thread_id": source.thread_id}
    bound = db.get_telegram_topic_binding(**here)
    if bound is not None and bound["session_id"] == session_id:
        return
    elsewhere = db.get_telegram_topic_binding_by_session(session_id=session_id)
    if elsewhere is not None:
        db.delete_telegram_topic_binding(
            chat_id=elsewhere["chat_id"], thread_id=elsewhere["thread_id"]
        )
    db.enable_telegram_topic_mode(
        chat_id=source.chat_id, user_id=source.user_id, has_topics_enabled=True
    )
    db.bind_telegram_topic(
        **here, user_id=source.user_id, session_key=session_key, session_id=session_id
    )
