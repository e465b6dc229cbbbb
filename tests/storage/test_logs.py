"""What the package has to say: to `logging`, or to people."""

import logging

import pytest

from hermes_sessions.storage.logs import Logger, warnings_shown_by

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
