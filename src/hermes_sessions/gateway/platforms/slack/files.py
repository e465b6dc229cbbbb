"""Files that came with a message on Slack, by reference. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hermes_sessions.gateway.events import Attachment
from hermes_sessions.gateway.platforms.attachments import kind_of, left_out, size_of
from hermes_sessions.gateway.platforms.payloads import record, short, text_of
from hermes_sessions.gateway.platforms.port import UnreadablePayload

#: It becomes a part of a call.
FILE_ID: Final = re.compile(r"F[A-Z0-9]{1,31}")
#: Slack takes ten in one message.
_MOST_FILES: Final = 50
#: What is left of a file that was deleted, or that the workspace's plan does not show any more.
_GONE: Final = frozenset({"tombstone", "hidden_by_limit"})


class Files(NamedTuple):
    """The files of one message."""

    attachments: tuple[Attachment, ...]
    #: What the agent is told of those that it cannot have.
    notes: tuple[str, ...]


def files_of(files: object, max_bytes: int) -> Files:
    """Return the files of a message; those above *max_bytes* are left out, and that is said.

    Raises:
        UnreadablePayload: they are not what Slack documents.
    """
    if files is None:
        return Files((), ())
    if not isinstance(files, list) or len(files) > _MOST_FILES:
        raise UnreadablePayload("event.files is not a list of files.")
    attachments: list[Attachment] = []
    notes: list[str] = []
    for each in files:
        file = record(each, "A file")
        attachment = _attachment(file)
        name = f" {attachment.name!r}" if attachment.name else ""
        mode = text_of(file.get("mode"), "A file's mode")
        if mode in _GONE:
            notes.append(f"[A file{name} is no longer there.]")
        elif mode == "external" or file.get("is_external") is True:
            notes.append(f"[A file{name} is kept elsewhere: {file.get('url_private')!s:.1000}]")
        elif (attachment.size or 0) > max_bytes:
            notes.append(left_out(attachment, max_bytes))
        else:
            attachments.append(attachment)
    return Files(tuple(attachments), tuple(notes))


def _attachment(file: Mapping[str, Any]) -> Attachment:
    reference = file.get("id")
    if not isinstance(reference, str) or not FILE_ID.fullmatch(reference):
        raise UnreadablePayload("A file has no usable id.")
    mime_type = short(file.get("mimetype"))
    return Attachment(
        kind=kind_of(mime_type),
        reference=reference,
        name=short(file.get("name")),
        mime_type=mime_type,
        size=size_of(file.get("size")),
    )
