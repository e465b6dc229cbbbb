"""The page about Matrix names every key, with its default."""

import re
from dataclasses import fields
from pathlib import Path

from hermes_sessions.config.key_types import ParseContext, Size
from hermes_sessions.gateway.platforms.matrix.settings import _KEYS, MatrixSettings

PAGE = Path(__file__).parents[4] / "docs" / "matrix.md"
SETTINGS = PAGE.read_text().partition("## Settings")[2].partition("\n## ")[0]
ROWS = dict(re.findall(r"^\| `([a-z_.]+)` \| `?([^|`]*?)`? \|", SETTINGS, re.MULTILINE))


def test_every_key_is_on_the_page() -> None:
    assert ROWS.keys() == {"token", *_KEYS}


def test_the_defaults_are_right() -> None:
    defaults = {each.name: each.default for each in fields(MatrixSettings)}
    size = Size(at_least=0, at_most=10**12).parse(ROWS["max_file_bytes"], ParseContext(PAGE, {}))
    assert size == defaults["max_file_bytes"]
    for name in ("device_name", "invites", "sync_seconds", "require_mention"):
        assert ROWS[name] == str(defaults[name]).replace("True", "true")
