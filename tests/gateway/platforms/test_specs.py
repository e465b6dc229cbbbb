"""What every platform declares: settings with docs, questions, and pages with tables of keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_sessions.config.derived_keys import derive_keys
from hermes_sessions.config.error_text import is_secret
from hermes_sessions.config.key_types import REQUIRED, ParseContext
from hermes_sessions.gateway.platforms.reference import platform_table
from hermes_sessions.gateway.platforms.registry import BUILT_IN, find_spec

DOCS = Path(__file__).parents[3] / "docs"
HOME = Path("/home/of")


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_page_has_the_table_of_keys(name: str) -> None:
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert platform_table(name) in text


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_default_is_a_value_that_could_be_written(name: str) -> None:
    keys, _ = derive_keys(find_spec(name).settings)
    for key in keys:
        assert key.doc.endswith(".")
        if key.default is not REQUIRED:
            default = key.default_value(HOME)
            shown = "" if default is None else key.kind.show(default)
            assert key.kind.parse(shown, ParseContext(HOME, {})) == default


@pytest.mark.parametrize("name", BUILT_IN)
def test_questions_come_from_the_settings(name: str) -> None:
    spec = find_spec(name)
    assert spec.name == name
    keys, _ = derive_keys(spec.settings)
    required = {key.path for key in keys if key.default is REQUIRED and "." not in key.path}
    asked = {question.key: question for question in spec.questions}
    assert required <= asked.keys()
    for key, question in asked.items():
        assert question.is_secret == is_secret(key)
        assert question.help
        if key in required:
            assert question.default is None
            assert not question.is_optional
