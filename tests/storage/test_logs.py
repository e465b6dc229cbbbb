"""Log messages of the package: through `logging` or to the terminal."""

import logging

import pytest

from hermes_sessions.storage.logs import Logger, warnings_logged, warnings_shown_by, where

logger = Logger(__name__)


def test_messages_go_to_the_logger_of_the_same_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        logger.debug("%s", "one")
        logger.info("%d of %d", 2, 3)
        logger.warning("100 %")
    assert caplog.record_tuples == [
        (__name__, logging.DEBUG, "one"),
        (__name__, logging.INFO, "2 of 3"),
        (__name__, logging.WARNING, "100 %"),
    ]
    assert {record.funcName for record in caplog.records} == {
        "test_messages_go_to_the_logger_of_the_same_name"
    }


def test_warnings_are_shown_instead(caplog: pytest.LogCaptureFixture) -> None:
    shown: list[str] = []
    with caplog.at_level(logging.DEBUG), warnings_shown_by(shown.append):
        logger.debug("one")
        logger.warning("%s", "two")
        logger.warning("100 %")
    assert shown == ["two", "100 %"]
    assert caplog.records == []


def test_and_logged_after_all(caplog: pytest.LogCaptureFixture) -> None:
    shown: list[str] = []
    with caplog.at_level(logging.DEBUG), warnings_shown_by(shown.append):
        with warnings_logged():
            logger.info("one")
            logger.warning("two")
        logger.warning("three")
    assert [record.getMessage() for record in caplog.records] == ["one", "two"]
    assert shown == ["three"]


ODD = "half a pair: \ud800"


def test_a_log_can_be_written_whatever_a_name_holds(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tests.odd"):
        Logger("tests.odd").info("%s is called %s", 7, ODD)
        Logger("tests.odd").debug("%s", "not asked for")
    (record,) = caplog.records
    assert record.getMessage() == "7 is called half a pair: \\ud800"
    assert record.funcName == "test_a_log_can_be_written_whatever_a_name_holds"


def test_so_can_what_is_shown() -> None:
    shown: list[str] = []
    with warnings_shown_by(shown.append):
        Logger("tests.odd").warning(ODD)
    assert shown == ["half a pair: \\ud800"]


def test_records_keep_the_format_and_its_arguments(caplog: pytest.LogCaptureFixture) -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise AssertionError("formatted although no handler needs the text")

    with caplog.at_level(logging.WARNING, "tests.odd"):
        Logger("tests.odd").info("%s", Unprintable())
        Logger("tests.odd").warning("%s took %.1f s: %r", "café", 1.25, OSError("x"))
    (record,) = caplog.records
    assert record.msg == "%s took %.1f s: %r"
    assert record.args is not None
    assert len(record.args) == 3
    assert record.getMessage() == "café took 1.2 s: OSError('x')"


def test_a_percent_sign_without_arguments(caplog: pytest.LogCaptureFixture) -> None:
    Logger("tests.odd").warning("all of it: 100%")
    assert caplog.records[-1].getMessage() == "all of it: 100%"


def test_an_unexpected_error_is_named_without_its_text() -> None:
    with pytest.raises(UnicodeEncodeError) as raised:
        "secret \ud800".encode()
    said = where(raised.value)
    assert said.startswith("UnicodeEncodeError in test_an_unexpected_error")
    assert "secret" not in said
    assert __file__ in said
    assert where(ZeroDivisionError("secret")) == "ZeroDivisionError"
