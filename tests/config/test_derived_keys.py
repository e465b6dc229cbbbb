import ast
import inspect
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from hermes_sessions.config.derived_keys import (
    FREE_SECTIONS,
    KEY_AT,
    KEYS,
    NAMED_SECTIONS,
    RESERVED,
    SECTION_CLASSES,
    SECTIONS,
    SHARED_SECTIONS,
    derive_keys,
)
from hermes_sessions.config.error_text import is_secret
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.config.gateway_settings import SessionResetSettings
from hermes_sessions.config.key_types import Choice, Key, ParseContext, WholeNumber
from hermes_sessions.config.resolver import resolve_values
from hermes_sessions.config.sections import (
    SettingsSection,
    Subsection,
    default_of,
    section,
    setting,
)
from hermes_sessions.config.settings import Settings
from hermes_sessions.config.yaml_document import Scalar
from hermes_sessions.model.reset_policy import SessionResetPolicy

HOME = Path("/home/ada/.hermes")


def test_every_key_has_a_field_and_every_field_a_key() -> None:
    declared = {
        f"{section}.{name}" if section else name
        for section, section_class in SECTION_CLASSES.items()
        for name in section_class.fields
    }
    named = {f"{section}.{name}" for section, name in NAMED_SECTIONS.items()}
    kept = {f"{section}.extra" for section in FREE_SECTIONS}
    assert declared - {"home", "warnings"} == (KEY_AT.keys() | SECTIONS | kept) - named
    assert SECTION_CLASSES.keys() == SECTIONS - NAMED_SECTIONS.keys() | {""}
    assert len(KEY_AT) == len(KEYS)


def test_the_key_table_is_derived_from_the_fields() -> None:
    class Inner(SettingsSection, short_form="size"):
        size: int = setting(3, kind=WholeNumber(at_least=0, at_most=9), doc="Size of {things}.")

    class Outer(SettingsSection):
        given: str
        mode: str = setting("a", kind=Choice(("a", "b")), env=("MODE",), doc="Mode.")
        boxes: Inner = section(Inner, things="boxes")

    keys, classes = derive_keys(Outer)
    assert [(key.path, key.default, key.doc, key.environment) for key in keys] == [
        ("mode", "a", "Mode.", ("MODE",)),
        ("boxes.size", 3, "Size of boxes.", ()),
    ]
    assert classes == {"": Outer, "boxes": Inner}
    assert Outer(given="x") == Outer(given="x", mode="a", boxes=Inner(size=3))
    with pytest.raises(TypeError, match="Outer: missing or unknown: given"):
        Outer()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Inner: missing or unknown: sise"):
        Inner(sise=3)  # type: ignore[call-arg]


def test_no_key_is_declared_twice() -> None:
    def declared(section: type[SettingsSection], path: str) -> list[str]:
        found = []
        for name, field in section.fields.items():
            at = f"{path}.{name}"
            inner = field.section if isinstance(field, Subsection) else None
            found += declared(inner, at) if inner else [at]
        return found

    paths = declared(Settings, "settings")
    assert len(paths) == len(set(paths))
    assert len(KEYS) == len(KEY_AT)
    variables = [variable for key in KEYS for variable in key.environment]
    assert len(variables) == len(set(variables))


def test_no_default_is_stated_twice() -> None:
    """Sources of `config` and of `GatewayConfig` state each default in one field alone."""
    tree = ast.parse(inspect.getsource(GatewayConfig))
    stated = [
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Constant)
    ]
    assert stated == []
    for policy_field in fields(SessionResetPolicy):
        assert policy_field.default is not MISSING
        assert policy_field.default == default_of(SessionResetSettings, policy_field.name)
    tree = ast.parse(inspect.getsource(SessionResetPolicy))
    literals = [
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, (ast.Constant, ast.Tuple))
        and node.target.id != "timezone"
    ]
    assert literals == []


def test_a_default_is_a_value_that_could_be_written() -> None:
    for key in KEYS:
        default = key.default_value(HOME)
        assert key.kind.parse(key.kind.show(default), ParseContext(HOME, {})) == default


def test_texts_fit_in_one_row_of_the_reference() -> None:
    for key in KEYS:
        for text in (key.default_text, key.kind.allowed, key.doc):
            assert text
            assert "|" not in text
            assert "\n" not in text


def test_reserved_and_shared_names_do_not_clash_with_keys() -> None:
    assert not RESERVED & (KEY_AT.keys() | SECTIONS)
    assert SECTIONS | {""} >= SHARED_SECTIONS
    assert all("." not in name or name.rpartition(".")[0] in SECTIONS for name in RESERVED)


def test_secrets_are_kept_out_of_representations() -> None:
    for section_class in SECTION_CLASSES.values():
        names = section_class.fields
        values = section_class(**{name: f"value of {name}" for name in names})
        for name in names:
            assert (f"value of {name}'" in repr(values)) is not is_secret(name)


@pytest.mark.parametrize(
    "name", ["model.api_key", "platforms.telegram.token", "sessiondb.mysql.dsn", "DB_PASSWORD"]
)
def test_secret_names(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["sessiondb.provider", "sessiondb.sqlite.path", "HOME"])
def test_public_names(name: str) -> None:
    assert not is_secret(name)


def test_value_of_a_secret_key_is_never_shown() -> None:
    keys = [Key("x.token", WholeNumber(at_least=0, at_most=9), 1, "doc", ("X_TOKEN", "X_VALUE"))]
    found = {"x.token": (4, Scalar(4, "hunter2", plain=True))}
    for environ in ({}, {"X_TOKEN": "hunter2"}, {"X_VALUE": "hunter2"}):
        values, problems, _ = resolve_values(keys, found, ParseContext(HOME, environ))
        ((line, problem),) = problems
        assert values == {}
        assert line == (0 if environ else 4)
        assert "x.token is (hidden)" in problem
        assert "hunter2" not in problem


def test_environment_wins_over_file_and_file_over_default() -> None:
    key = Key("x.y", Choice(("a", "b", "c")), "a", "doc", ("FIRST", "SECOND"))
    found = {"x.y": (1, Scalar(1, "b", plain=True))}

    def value(environ: dict[str, str], *, in_file: bool) -> object:
        at = found if in_file else {}
        values, problems, _ = resolve_values([key], at, ParseContext(HOME, environ))
        assert problems == []
        return values["x.y"]

    assert value({}, in_file=False) == "a"
    assert value({}, in_file=True) == "b"
    assert value({"FIRST": "", "SECOND": ""}, in_file=True) == "b"
    assert value({"SECOND": "c"}, in_file=True) == "c"
    assert value({"FIRST": "a", "SECOND": "c"}, in_file=True) == "a"
    assert value({"SECOND": "c"}, in_file=False) == "c"


def test_a_wrong_environment_variable_is_named() -> None:
    key = Key("x.y", Choice(("a", "b")), "a", "doc", ("X_KIND",))
    _, problems, _ = resolve_values([key], {}, ParseContext(HOME, {"X_KIND": "z"}))
    assert problems == [
        (
            0,
            (
                'x.y is "z" (from X_KIND); allowed: a, b. '
                "Change it, or remove the key to get the default (a)."
            ),
        )
    ]
