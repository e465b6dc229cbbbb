"""Files that come from elsewhere: whatever is in them, it is stored, left out or refused in words.

Nothing else happens: no other error, nothing half written, nothing outside the store.
"""

from __future__ import annotations

import html.parser
import io
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_sessions import SessionDB
from hermes_sessions.cli.render.export import html_session
from hermes_sessions.config import load_settings
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.errors import ConfigError, ImportRefused, InvalidTitle
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.storage.jsonl import read_jsonl

#: Each makes a store, or two.
_FEW = settings(
    max_examples=60 if settings().max_examples > 100 else 25,
    suppress_health_check=list(HealthCheck),
)
_ODD_TEXTS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "../../etc/passwd",
            "/etc/passwd",
            "a/../b",
            "..",
            ".",
            "",
            "CON",
            "x\x00y",
            "\ud800",
            "%s",
        ]
    ),
)
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), _ODD_TEXTS, st.just(10**400)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_ODD_TEXTS, inner, max_size=4),
    max_leaves=12,
)
_SESSION_KEYS = st.sampled_from(
    "id source user_id model title started_at ended_at parent_session_id edge_kind messages "
    "message_count system_prompt model_config archived_at rewinds usage more continues "
    "escaped".split()
)
_MESSAGE_KEYS = st.sampled_from(
    "role content content_type timestamp tool_calls tool_name tool_call_id ordinal external_id "
    "active id rewind_id finish_reason reasoning".split()
)
_MESSAGES = st.lists(st.dictionaries(_MESSAGE_KEYS, _VALUES, max_size=5) | _VALUES, max_size=4)
_SESSIONS = st.lists(
    st.builds(
        lambda fields, messages: {"id": "s", "source": "cli", **fields, **messages},
        st.dictionaries(_SESSION_KEYS, _VALUES, max_size=5),
        st.just({}) | st.builds(lambda found: {"messages": found}, _MESSAGES),
    )
    | _VALUES,
    max_size=4,
)
DEEP = "[" * 100_000 + "]" * 100_000


# ── exported sessions ─────────────────────────────────────────────────────────────────────────


@_FEW
@given(_SESSIONS)
def test_sessions_of_any_shape(sessions: list[Any]) -> None:
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in sessions)
    with SessionDB(":memory:") as db:
        try:
            result = db.import_sessions(read_jsonl(io.BytesIO(lines)))
        except ImportRefused:
            assert db.session_count() == 0
            return
        if not result["ok"]:
            assert db.session_count() == 0
        # What was taken can be read, found and given away again.
        exported = list(db.export_all())
        db.search("passwd")
        with SessionDB(":memory:") as other:
            assert other.import_sessions(exported)["ok"]


@_FEW
@given(st.binary(max_size=200))
def test_bytes_instead_of_sessions(content: bytes) -> None:
    with SessionDB(":memory:") as db, suppress(ImportRefused):
        result = db.import_sessions(read_jsonl(io.BytesIO(content)))
        assert result["ok"] or result["errors"]


@pytest.mark.parametrize(
    "line",
    [
        f'{{"id": "s", "source": "cli", "messages": {DEEP}}}',
        f'{{"id": "s", "source": "cli", "extra": {DEEP}}}',
        DEEP,
        '{"id": "s", "source": "cli", "started_at": 1' + "0" * 5_000 + "}",
        '{"id": "a", "id": "b", "source": "cli", "messages": []}',
    ],
    ids=["deep messages", "deep field", "deep line", "a long number", "a key twice"],
)
def test_lines_made_to_do_harm(line: str) -> None:
    with SessionDB(":memory:") as db:
        try:
            db.import_sessions(read_jsonl(io.BytesIO(line.encode())))
        except ImportRefused:
            assert db.session_count() == 0
        assert db.session_count() <= 1


def test_a_line_without_end_is_not_read_to_its_end() -> None:
    class Endless(io.RawIOBase):
        given = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            self.given += len(buffer)
            assert self.given < 50_000_000, "it reads and reads"
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

    with pytest.raises(ImportRefused, match="long"):
        list(read_jsonl(io.BufferedReader(Endless()), max_line_bytes=1_000_000))


# ── files of a gateway from before ────────────────────────────────────────────────────────────


@_FEW
@given(entries=st.dictionaries(_ODD_TEXTS, _VALUES, max_size=4) | _VALUES, lines=_MESSAGES)
def test_older_files_of_any_shape(
    entries: Any, lines: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("sessions")
    (directory / "sessions.json").write_text(json.dumps(entries))
    (directory / "20250101_000000_abcdef01.jsonl").write_text(
        "".join(f"{json.dumps(line)}\n" for line in lines)
    )
    before = set(directory.parent.iterdir())
    with SessionDB(":memory:") as db, SessionStore(directory, GatewayConfig(), db=db) as sessions:
        sessions.list_sessions()
        for row in db.list_sessions_rich():
            db.get_messages(row["id"])
    assert set(directory.parent.iterdir()) == before


@pytest.mark.parametrize("is_index", [True, False])
@pytest.mark.parametrize(
    "content", [DEEP, "{", "\x00", '{"a": ' * 5_000], ids=["deep", "half", "nul", "long"]
)
def test_older_files_made_to_do_harm(content: str, is_index: bool, tmp_path: Path) -> None:
    (tmp_path / "sessions.json").write_text(content if is_index else "{}")
    (tmp_path / "20250101_000000_abcdef01.jsonl").write_text(f"{content}\n" * 2)
    (tmp_path / "outside.jsonl").symlink_to("/etc/passwd")
    with SessionDB(":memory:") as db, SessionStore(tmp_path, GatewayConfig(), db=db) as sessions:
        assert sessions.list_sessions() == []
        assert "root:" not in json.dumps(list(db.export_all()), default=str)


# ── the configuration ─────────────────────────────────────────────────────────────────────────

_BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
)


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['touch /tmp/never']",
        "sessiondb: !!python/name:os.system",
        "sessiondb: " + DEEP[:5_000] + DEEP[-5_000:],
        _BOMB,
        "sessiondb: &x\n  provider: *x\n",
        "\x00",
        "sessiondb: [",
        "sessiondb:\n  sqlite:\n    path: [1]\n",
    ],
    ids=["code", "a name", "deep", "aliases", "itself", "nul", "half", "a list"],
)
def test_a_configuration_made_to_do_harm(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with suppress(ConfigError):
        load_settings(tmp_path, {})
    assert [each.name for each in tmp_path.iterdir()] == ["config.yaml"]


# ── what is shown ─────────────────────────────────────────────────────────────────────────────

_MARKUP = st.lists(
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            '" onload="alert(1)',
            "</style>",
            "</title>",
            "-->",
            "<!--",
            "&lt;",
            "javascript:alert(1)",
            "<img src=x onerror=alert(1)>",
            "]]>",
            "\x00",
            "\u2028",
            "[x](javascript:alert(1))",
            "```",
            "\x1b]0;x\x07",
        ]
    ),
    min_size=1,
    max_size=4,
).map(" ".join)


class _Active(html.parser.HTMLParser):
    """Notes whatever would run, or fetch something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "iframe", "object", "embed", "img", "svg", "base", "form", "link"):
            self.found.append(tag)
        for name, value in attrs:
            target = re.sub(r"\s", "", value or "").lower()
            if name.startswith("on") or target.startswith(("javascript:", "data:", "vbscript:")):
                self.found.append(f"{tag} {name}={value}")


@_FEW
@given(texts=st.lists(_MARKUP, min_size=1, max_size=3), title=_MARKUP, model=_MARKUP)
def test_a_page_runs_nothing_of_what_was_said(texts: list[str], title: str, model: str) -> None:
    with SessionDB(":memory:") as db:
        db.create_session("s", "cli", model=model, user_id=title)
        with suppress(InvalidTitle):
            db.set_session_title("s", title[:80])
        for text in texts:
            for role in ("user", "assistant", "tool"):
                db.append_message(
                    "s",
                    role,
                    text,
                    tool_name=text,
                    tool_calls=[{"id": text, "function": {"name": text, "arguments": text}}],
                )
        page = "".join(piece for record in db.export_all() for piece in html_session(record))
    parser = _Active()
    parser.feed(page)
    assert parser.found == []
