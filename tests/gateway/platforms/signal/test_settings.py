"""``platforms.signal``."""

from pathlib import Path

import pytest

from hermes_sessions.config import load_settings
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.registry import known_platforms, make_adapter
from hermes_sessions.gateway.platforms.signal.rpc import DaemonAddress, LineSplitter, LineTooLong
from hermes_sessions.gateway.platforms.signal.spec import SPEC
from tests.gateway.platforms.settings_reader import HOME, read


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("127.0.0.1:7583", DaemonAddress("127.0.0.1", 7583)),
        ("tcp://signal:1", DaemonAddress("signal", 1)),
        ("[::1]:7583", DaemonAddress("::1", 7583)),
        ("unix:/run/signal.sock", DaemonAddress(path=Path("/run/signal.sock"))),
        ("/run/signal.sock", DaemonAddress(path=Path("/run/signal.sock"))),
        ("unix:signal.sock", DaemonAddress(path=HOME / "signal.sock")),
    ],
)
def test_addresses(written: str, address: DaemonAddress) -> None:
    settings = read(SPEC, None, {"account": "+49 176-12 34 56", "address": written}, HOME)
    assert settings.address == address
    assert settings.account == "+49176123456"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "account is missing"),
        ({"account": "0176 123456"}, "begins with"),
        ({"account": "+49176123456", "address": "7583"}, "host:port"),
        ({"account": "+49176123456", "address": "x:70000"}, "host:port"),
        ({"account": "+49176123456", "adress": "x:1"}, "did you mean address"),
        ({"account": "+49176123456", "http_url": "http://127.0.0.1:8080"}, "--tcp"),
        ({"account": "+49176123456", "max_file_bytes": "many"}, "max_file_bytes"),
    ],
)
def test_what_is_wrong_is_said(values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(SPEC, None, values, HOME)


def test_it_is_made_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "platforms:\n  signal:\n    enabled: true\n    account: '+15550100'\n", encoding="utf-8"
    )
    section = load_settings(tmp_path, {}).platforms["signal"]
    assert "signal" in known_platforms()
    assert make_adapter("signal", section, tmp_path).name == "signal"


def test_lines_in_pieces() -> None:
    lines = LineSplitter(limit=5)
    assert lines.feed(b"ab") == []
    assert lines.feed(b"c\nde\nfgh") == [b"abc", b"de"]
    assert lines.feed(b"ij") == []
    (too_long, fine) = lines.feed(b"k\nok\n")
    assert isinstance(too_long, LineTooLong)
    assert fine == b"ok"
    assert [type(line) for line in lines.feed(b"x" * 100)] == []
    assert [type(line) for line in lines.feed(b"\n\n")] == [LineTooLong, bytes]
