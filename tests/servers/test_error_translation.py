"""What servers refuse, in our words: each error says what to do next."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType

import psycopg
import pymysql
import pytest

import hermes_sessions.storage
from hermes_sessions.storage.mysql import error_translation as mysql
from hermes_sessions.storage.postgresql import error_translation as postgresql
from hermes_sessions.storage.servers.driver import Translation

STORAGE = Path(hermes_sessions.storage.__file__).parent
#: How a next step begins.
VERBS = (
    *("Check", "Connect", "Create", "Free", "Give", "Grant", "Install", "Look", "Lower", "Open"),
    *("Raise", "Repeat", "Run", "Set", "Try", "Update", "Use", "Wait"),
)


def translations() -> list[Translation]:
    found: list[Translation] = []
    modules: tuple[ModuleType, ...] = (mysql, postgresql)
    for module in modules:
        found += module.TRANSLATIONS.values()
        found += [value for value in vars(module).values() if isinstance(value, Translation)]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("translation", translations(), ids=lambda one: one.says)
def test_every_translation_has_a_next_step(translation: Translation) -> None:
    step = translation.next_step.removeprefix("Nothing was written: ")
    assert step.split()[0].capitalize() in (*VERBS, "Correct")
    assert not translation.next_step.endswith(".")
    said = str(translation.error_at("mysql://db/x", "its words"))
    assert said == f"mysql://db/x: {translation.says} (its words). {translation.next_step}."


@pytest.mark.parametrize(
    "error",
    [
        *(pymysql.err.OperationalError(number, "said") for number in (1, 1999, 2002, 4999)),
        pymysql.err.IntegrityError(1, "said"),
        pymysql.err.DataError(1, "said"),
        pymysql.err.ProgrammingError(1, "said"),
        pymysql.err.NotSupportedError(1, "said"),
        pymysql.err.InterfaceError(0, "said"),
        pymysql.err.InternalError(9999, "said"),
        pymysql.err.Error(),
    ],
    ids=repr,
)
def test_what_no_table_has_on_mysql(error: pymysql.Error) -> None:
    assert _next_step(str(mysql.translate(error, "db")))


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("said"),
        psycopg.OperationalError('FATAL:  role "x" does not exist'),
        psycopg.ProgrammingError("said"),
        psycopg.DataError("said"),
        psycopg.InterfaceError("said"),
        psycopg.NotSupportedError("said"),
        psycopg.Error(),
    ],
    ids=repr,
)
def test_what_no_table_has_on_postgresql(error: psycopg.Error) -> None:
    assert _next_step(str(postgresql.translate(error, "db")))


def raised_texts() -> list[tuple[str, str]]:
    """The texts of all errors that the modules of servers raise, and where."""
    found: list[tuple[str, str]] = []
    for folder in ("servers", "mysql", "postgresql"):
        for path in sorted((STORAGE / folder).glob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and re.match(
                    r"(Store|Schema|Statement)\w+$", getattr(node.func, "id", "")
                ):
                    found += [
                        (f"{folder}/{path.name}:{node.lineno}", _text(argument))
                        for argument in node.args[:1]
                        if isinstance(argument, ast.Constant | ast.JoinedStr)
                    ]
    return found


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(value) for value in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else "…"


@pytest.mark.parametrize(("where", "text"), raised_texts(), ids=lambda value: value[:40])
def test_what_is_raised_here_has_a_next_step(where: str, text: str) -> None:
    assert _next_step(text), where


def _next_step(text: str) -> bool:
    sentences = re.split(r"[.:;] ", text)
    return any(one.split()[0].capitalize() in (*VERBS, "Correct", "Repeating") for one in sentences)
