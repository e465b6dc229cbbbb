"""Attachments: images and files in messages, stored once and outside of the row."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import blake2b
from typing import Any

import pytest

from hermes_sessions.errors import AttachmentTooLarge, MessageTooLarge, NotFound
from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.store_context import AttachmentLimits
from hermes_sessions_testing.conformance.blobs import rows
from hermes_sessions_testing.conformance.fixtures import OpenStore

#: Not compressible, so that base64 of it has every character.
PNG = b"\x89PNG\r\n\x1a\n" + b"".join(blake2b(bytes([n])).digest() for n in range(250))
PDF = b"%PDF-1.7 " + b"some text " * 3000
IMAGE = b64encode(PNG).decode()
FILE = b64encode(PDF).decode()
URL = f"data:image/png;base64,{IMAGE}"

#: Content as clients of the large providers send it.
CONTENTS: dict[str, Any] = {
    "OpenAI image": [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": URL, "detail": "low"}},
    ],
    "OpenAI file": [
        {
            "type": "file",
            "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{FILE}"},
        }
    ],
    "OpenAI audio": [{"type": "input_audio", "input_audio": {"data": FILE, "format": "wav"}}],
    "Anthropic image": [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": IMAGE},
        },
        {"type": "text", "text": "What is this?"},
    ],
    "Gemini part": {"inlineData": {"mimeType": "image/png", "data": IMAGE}},
    "the same twice": [{"url": URL}, {"url": URL}, {"data": IMAGE, "name": "pixel.png"}],
    "two of them": [{"url": URL}, {"data": FILE}],
    "text with an image": f"before ![x]({URL}) after",
    "JSON as text": json.dumps({"result": {"screenshot": URL, "n": 1}}),
    "JSON in JSON": [{"type": "text", "text": json.dumps({"data": IMAGE})}],
    "bytes": PNG,
}
#: What looks like it, and stays where it is.
OTHERS: dict[str, Any] = {
    "short": [{"url": "data:image/png;base64,AAAA"}],
    "long text": "word " * 10_000,
    "letters": "A" * 40_000,
    "structured text": [{"type": "text", "text": "A" * 40_000}],
    "cut off": [{"url": URL[:-1]}],
    "not canonical": [{"data": IMAGE[:-4] + "AAB="}],
    "url-safe": [{"data": IMAGE.replace("+", "-").replace("/", "_")}],
    "with line breaks": [{"data": "\n".join([IMAGE[:76], IMAGE[76:]])}],
}


def stored(db: SessionDB, session_id: str = "s") -> str:
    """Return the texts in the rows of a session's messages."""
    sql = "SELECT content, payload, tool_calls, api_content FROM messages WHERE session_id = ?"
    with db.provider.read() as tx:
        return json.dumps(tx.all(sql, (session_id,)), ensure_ascii=False)


class TestAttachments:
    """Lifting, reading, listing."""

    @pytest.mark.parametrize("name", CONTENTS)
    def test_content_comes_back(self, db: SessionDB, open_another: OpenStore, name: str) -> None:
        """Every reader returns exactly what was given, and the row has none of the base64."""
        content = CONTENTS[name]
        db.create_session("s", "cli")
        added = db.append_message("s", "user", content)
        other = open_another()
        assert other.get_messages("s")[0]["content"] == content
        assert other.get_messages_as_conversation("s")[0]["content"] == content
        assert other.get_messages_around("s", added)["window"][0]["content"] == content
        assert other.list_recent_user_messages("s")[0]["content"] == content
        exported = other.export_session("s")
        assert exported is not None
        assert exported["messages"][0]["content"] == content
        assert len(stored(db)) < 1000
        assert rows(db, "blobs") == (2 if name == "two of them" else 1)

    @pytest.mark.parametrize("name", OTHERS)
    def test_what_is_not_an_attachment(self, db: SessionDB, name: str) -> None:
        """Text, and base64 that would not come back the same, stay in the row."""
        db.create_session("s", "cli")
        db.append_message("s", "user", OTHERS[name])
        assert db.get_messages("s")[0]["content"] == OTHERS[name]
        assert db.list_attachments("s") == []
        assert rows(db, "blobs") == 0

    def test_all_fields(self, db: SessionDB) -> None:
        """Payloads and tool calls are lifted, too; one blob serves all of them."""
        db.create_session("s", "cli")
        calls = [{"id": "c", "function": {"name": "show", "arguments": json.dumps({"u": URL})}}]
        payload = {"type": "message", "content": [{"type": "input_image", "image_url": URL}]}
        message = {"role": "assistant", "content": [{"url": URL}], "tool_calls": calls}
        db.append_messages("s", [{**message, "payload": payload}])
        [read] = db.get_messages("s")
        assert (read["content"], read["tool_calls"]) == ([{"url": URL}], calls)
        assert read["payload"] == payload
        assert db.get_payloads("s") == [payload]
        assert len(stored(db)) < 2000
        assert rows(db, "blobs") == 1

    def test_every_turn_sends_the_same_image(self, db: SessionDB) -> None:
        """It is stored once, however often it is sent and in whatever session."""
        for session_id in ("s", "t"):
            db.create_session(session_id, "cli")
            db.append_messages(
                session_id, [{"role": "user", "content": CONTENTS["OpenAI image"]}] * 5
            )
        assert rows(db, "blobs") == 1
        assert len(db.list_attachments("s")) == 5
        assert [m["content"] for m in db.get_messages("t")] == [CONTENTS["OpenAI image"]] * 5

    def test_attachments_are_listed(self, db: SessionDB) -> None:
        """With their type, name and size, and the message that has them."""
        db.create_session("s", "cli")
        first = db.append_message("s", "user", CONTENTS["OpenAI file"])
        db.append_message("s", "assistant", "nice")
        second = db.append_message("s", "user", PNG)
        pdf, png = db.list_attachments("s")
        assert pdf == {
            "id": blake2b(PDF, digest_size=32).hexdigest(),
            "media_type": "application/pdf",
            "name": "a.pdf",
            "size": len(PDF),
            "message_id": first,
            "ordinal": 1,
            "role": "user",
        }
        assert (png["media_type"], png["name"]) == ("image/png", None)
        assert (png["message_id"], png["ordinal"]) == (second, 3)
        got = db.get_attachment(pdf["id"])
        assert got["data"] == PDF
        assert (got["media_type"], got["name"], got["size"]) == (
            "application/pdf",
            "a.pdf",
            len(PDF),
        )

    @pytest.mark.parametrize(
        ("name", "media_type"),
        [
            ("OpenAI image", "image/png"),
            ("Anthropic image", "image/png"),
            ("Gemini part", "image/png"),
            ("text with an image", "image/png"),
            ("JSON as text", "image/png"),
            ("OpenAI audio", "audio/wav"),
        ],
    )
    def test_media_types(self, db: SessionDB, name: str, media_type: str) -> None:
        """The message says what it is, or its first bytes do."""
        db.create_session("s", "cli")
        db.append_message("s", "user", CONTENTS[name])
        assert [a["media_type"] for a in db.list_attachments("s")] == [media_type]

    def test_only_what_a_scope_may_see(self, db: SessionDB) -> None:
        """An attachment of others does not exist for a user, unless they sent it, too."""
        for user in ("ann", "bob"):
            db.create_session(user, "cli", user_id=user)
        db.append_message("ann", "user", PNG)
        [attachment] = db.list_attachments("ann")
        bob = Scope(user_id="bob")
        assert db.list_attachments("ann", scope=bob) == []
        with pytest.raises(NotFound, match="list_attachments"):
            db.get_attachment(attachment["id"], scope=bob)
        db.append_message("bob", "user", CONTENTS["OpenAI image"])
        assert db.get_attachment(attachment["id"], scope=bob)["data"] == PNG
        db.trash_sessions(["bob"])
        with pytest.raises(NotFound):
            db.get_attachment(attachment["id"], scope=bob)

    def test_quoting_a_placeholder(self, db: SessionDB) -> None:
        """Text that looks like a placeholder stays text, also beside the attachment itself."""
        db.create_session("s", "cli")
        quoted = f"[attachment {blake2b(PNG, digest_size=32).hexdigest()}]"
        contents = [quoted, PNG, [{"text": quoted}, {"url": URL}], quoted]
        for content in contents:
            db.append_message("s", "user", content)
        assert [m["content"] for m in db.get_messages("s")] == contents

    def test_search_and_previews_show_no_base64(self, db: SessionDB) -> None:
        """The words around an image are found; base64 and digests are not."""
        db.create_session("s", "cli")
        db.append_message("s", "user", f"look {URL} please")
        db.append_message("s", "user", [{"type": "text", "text": "zebra"}, {"url": URL}])
        db.append_message("s", "tool", json.dumps({"note": "giraffe", "data": IMAGE}))
        db.append_message("s", "user", PNG)
        [listed] = db.list_sessions_rich()
        assert listed["preview"] == "look [image/png] please"
        for word in ("look", "zebra", "giraffe"):
            [hit] = db.search_messages(word)
            assert len(str(hit["snippet"])) < 200
            assert len(str(hit["context"])) < 1000
        digest = blake2b(PNG, digest_size=32).hexdigest()
        for query in (IMAGE[:60], digest, IMAGE[40:52], "attachment"):
            assert db.search(query, relax=False).hits == []

    def test_limits(self, open_another: OpenStore) -> None:
        """What remains in the row is a message's size; an attachment has a limit of its own."""
        limits = AttachmentLimits(threshold=1024, max_bytes=20_000)
        db = open_another(max_message_bytes=2000, attachments=limits)
        db.create_session("s", "cli")
        db.append_message("s", "user", [{"url": URL}])
        with pytest.raises(AttachmentTooLarge, match=r"storage\.attachments\.max_bytes"):
            db.append_message("s", "user", [{"data": FILE}])
        with pytest.raises(MessageTooLarge):
            db.append_message("s", "user", [{"url": URL}, "word " * 1000])
        assert db.message_count("s") == 1
        assert rows(db, "blobs") == 1

    def test_threshold(self, open_another: OpenStore) -> None:
        """Smaller ones stay in the row; without a threshold, all do."""
        url = f"data:image/png;base64,{b64encode(PNG[:1500]).decode()}"
        never = open_another(attachments=AttachmentLimits(threshold=None))
        small = open_another(attachments=AttachmentLimits(threshold=1024))
        never.create_session("s", "cli")
        never.append_message("s", "user", [{"url": URL}])
        small.append_message("s", "user", [{"url": url}])
        open_another().append_message("s", "user", [{"url": url}])
        assert len(small.list_attachments("s")) == 1
        assert [m["content"][0]["url"] for m in never.get_messages("s")] == [URL, url, url]


class TestAttachmentLifetime:
    """Attachments stay as long as a message has them."""

    def test_deleting_the_last_message(self, db: SessionDB) -> None:
        """A blob goes with the last session that has it."""
        for session_id in ("s", "t"):
            db.create_session(session_id, "cli")
            db.append_message(session_id, "user", PNG)
        db.delete_session("s")
        assert db.get_messages("t")[0]["content"] == PNG
        assert rows(db, "blobs") == 1
        db.delete_session("t")
        assert rows(db, "blobs") == rows(db, "blob_parts") == rows(db, "blob_references") == 0

    def test_the_trash_keeps_them(self, db: SessionDB) -> None:
        """A session in the trash comes back with its attachments; purged, it takes them along."""
        db.create_session("s", "cli")
        db.append_message("s", "user", PNG)
        db.trash_sessions(["s"])
        db.sweep_blobs()
        db.restore_sessions(["s"])
        assert db.get_messages("s")[0]["content"] == PNG
        db.trash_sessions(["s"])
        db.purge_trash(0)
        assert rows(db, "blobs") == 0

    def test_rewinding_keeps_them(self, db: SessionDB) -> None:
        """A rewound message can be restored."""
        db.create_session("s", "cli")
        added = db.append_message("s", "user", PNG)
        db.rewind_to_message("s", added)
        assert db.list_attachments("s") == []
        db.sweep_blobs()
        db.restore_rewound("s")
        assert db.get_messages("s")[0]["content"] == PNG

    def test_replacing_messages(self, db: SessionDB) -> None:
        """The replaced ones go; those that are written again stay."""
        db.create_session("s", "cli")
        db.append_message("s", "user", PNG)
        db.append_message("s", "user", PDF)
        db.replace_messages("s", [{"role": "user", "content": [{"url": URL}]}])
        db.sweep_blobs()
        assert rows(db, "blobs") == 1
        assert db.get_messages("s")[0]["content"] == [{"url": URL}]
        db.clear_messages("s")
        db.sweep_blobs()
        assert rows(db, "blobs") == 0

    def test_a_continuation_has_its_own(self, db: SessionDB) -> None:
        """Messages that a continuation takes over outlive the session they came from."""
        db.create_session("s", "cli")
        db.append_message("s", "user", PNG)
        db.continue_session("s", "t", [{"role": "user", "content": PNG}])
        db.delete_session("s")
        assert db.get_messages("t")[0]["content"] == PNG

    def test_appending_twice(self, db: SessionDB) -> None:
        """A message with an external id is stored once, and so is its attachment's reference."""
        db.create_session("s", "cli")
        for _ in range(2):
            db.append_message("s", "user", PNG, external_id="e")
        assert db.message_count("s") == 1
        assert rows(db, "blob_references") == 1

    def test_export_and_import(self, db: SessionDB, open_another: OpenStore) -> None:
        """An export has everything in it; an import stores it as attachments again."""
        db.create_session("s", "cli")
        contents = [content for content in CONTENTS.values() if not isinstance(content, bytes)]
        for content in contents:
            db.append_message("s", "user", content)
        exported = db.export_session("s")
        assert exported is not None
        line = json.dumps(exported)
        db.delete_session("s")
        assert rows(db, "blobs") == 0
        assert db.import_sessions([json.loads(line)])["imported"] == 1
        assert [m["content"] for m in db.get_messages("s")] == contents
        assert rows(db, "blobs") == 2
        assert len(stored(db)) < 5000
        again = db.import_sessions([json.loads(line)])
        assert (again["skipped"], again["conflicts"]) == (1, [])
        # A store that keeps attachments in rows has the same transcript.
        other = open_another(attachments=AttachmentLimits(threshold=None))
        assert other.import_sessions([json.loads(line)])["skipped"] == 1

    def test_a_lost_blob_is_shown(self, db: SessionDB) -> None:
        """One lost image costs no other message; its place can be seen."""
        db.create_session("s", "cli")
        db.append_message("s", "user", [{"url": URL}])
        db.append_message("s", "user", PDF)
        [attachment, _] = db.list_attachments("s")
        lose = "DELETE FROM blob_parts WHERE digest = ?"
        db.provider.write(lambda tx: tx.run(lose, (attachment["id"],)))
        shown = [message["content"] for message in db.get_messages("s")]
        assert shown == [[{"url": f"data:image/png;base64,[attachment {attachment['id']}]"}], PDF]
