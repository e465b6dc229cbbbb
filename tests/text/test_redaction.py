"""What redaction removes from text, and what it keeps."""

from typing import Any

import pytest

from hermes_sessions.text.redaction import RULES, Redactor

KEY = "sk-" + "a1B2" * 8


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"use {KEY}.", "use [redacted: API key]."),
        ("sk-ant-api03-" + "x" * 20, "[redacted: API key]"),
        ("ghp_" + "a" * 36, "[redacted: API key]"),
        ("AKIA" + "A1" * 8, "[redacted: API key]"),
        ("AIza" + "b" * 35, "[redacted: API key]"),
        ("bot 123456789:" + "A" * 35, "bot [redacted: API key]"),
        ("xoxb-123456789-abc", "[redacted: API key]"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "[redacted: token]"),
        ("Authorization: Bearer abcdef123456789", "Authorization: Bearer [redacted: token]"),
        ("postgres://me:hunter2@host/db", "postgres://me:[redacted: password]@host/db"),
        ("API_KEY=abcdef123", "API_KEY=[redacted: secret]"),
        ("MY_SERVICE_TOKEN: 'abcdef123'", "MY_SERVICE_TOKEN: '[redacted: secret]'"),
        ('{"password": "hunter22"}', '{"password": "[redacted: secret]"}'),
        (r"{\"password\": \"hunter22\"}", r"{\"password\": \"[redacted: secret]\"}"),
        ("write to anna.b+x@example.co.uk!", "write to [redacted: e-mail address]!"),
        ("/home/anna/notes.txt", "/home/[redacted: home directory]/notes.txt"),
        ("/Users/anna", "/Users/[redacted: home directory]"),
        (r"C:\Users\anna\x", r"C:\Users\[redacted: home directory]\x"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nafter",
            "[redacted: private key]\nafter",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMII and cut", "[redacted: private key]"),
    ],
)
def test_what_is_taken_out(text: str, redacted: str) -> None:
    redactor = Redactor()
    assert redactor.text(text) == redacted
    assert sum(redactor.counts.values()) == 1
    # What was replaced is not replaced again.
    assert Redactor().text(redacted) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The token handling depends on the password module.",
        "token: str | None",
        "a sk-learn tutorial",
        "version 1.2.3 @ home",
        "max_tokens = 4096",
        "/home",
        "user@host",
        "12:30:45",
        "Grüße aus 東京 …",
    ],
)
def test_what_stays(text: str) -> None:
    redactor = Redactor()
    assert redactor.text(text) == text
    assert not redactor.counts


def test_a_record_is_redacted_everywhere() -> None:
    record: dict[str, Any] = {
        "id": "anna@example.com",
        "title": f"my {KEY}",
        "source": "cli",
        "started_at": 1.5,
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": f"{KEY} {KEY}"}],
                "tool_calls": [{"function": {"name": "x", "arguments": '{"token": "abcdef1"}'}}],
            },
            {"role": "tool", "content": {"password": "short", "n": 1}},
            {"role": "tool", "content": b"\x00secret"},
        ],
    }
    redactor = Redactor()
    redacted = redactor.record(record)
    assert "abcdef1" not in str(redacted)
    assert KEY not in str(redacted)
    assert (redacted["id"], redacted["source"]) == ("anna@example.com", "cli")
    assert redacted["started_at"] == 1.5
    assert redacted["messages"][1]["content"] == {"password": "[redacted: secret]", "n": 1}
    assert redacted["messages"][2]["content"] == "[redacted: bytes]"
    assert redactor.counts == {"API key": 3, "secret": 2, "bytes": 1}
    assert record["title"] == f"my {KEY}"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@pytest.mark.parametrize("piece", ["a", "a.", "a@", "sk-", "token=", "/home/", "x:", "eyJ", "-"])
def test_hostile_text_is_read_in_one_go(rule: Any, piece: str) -> None:
    """Would not end if a rule tried every way to read it."""
    rule.pattern.sub("", piece * (20_000 // len(piece)))
