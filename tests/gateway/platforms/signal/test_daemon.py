"""The daemon for tests answers as signal-cli 0.13.19 did, which was asked the same."""

import json
import socket
from typing import Any

import pytest

from hermes_sessions_testing.fake_servers.signal.daemon import SignalDaemon

UNKNOWN = {"account": "+4912345", "recipient": ["+491"], "message": "x"}


def request(method: str, params: dict[str, Any] | None = None) -> bytes:
    said = {"jsonrpc": "2.0", "method": method, "id": 1, "params": params or {}}
    return json.dumps(said).encode() + b"\n"


def ask(line: bytes) -> bytes:
    with SignalDaemon() as daemon:
        host, _, port = daemon.address.partition(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(line)
            with connection.makefile("rb") as answers:
                return answers.readline()


def refused(code: int, message: str, number: str = "1") -> bytes:
    error = f'{{"code":{code},"message":"{message}","data":null}}'
    return f'{{"jsonrpc":"2.0","error":{error},"id":{number}}}\n'.encode()


def version(number: str) -> bytes:
    return f'{{"jsonrpc":"2.0","result":{{"version":"0.13.19"}},"id":{number}}}\n'.encode()


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (request("version"), version("1")),
        (b'{"jsonrpc":"2.0","id":"a-b","method":"version"}\r\n', version('"a-b"')),
        (request("nope"), refused(-32601, "Method not implemented")),
        (request("send", UNKNOWN), refused(-32602, "Specified account does not exist")),
        (
            request("send", {"recipient": ["+491"], "message": "x"}),
            refused(-32602, "Method requires valid account parameter"),
        ),
        (b"\n", refused(-32700, "Empty input line", "null")),
        (b"[]\n", refused(-32600, "invalid request", "null")),
        (b"5\n", refused(-32600, "unexpected type: NUMBER", "null")),
        (b"{}\n", refused(-32600, "only jsonrpc version 2.0 is supported", "null")),
        (b'{"jsonrpc":"2.0","id":1}\n', refused(-32600, "method field must be set")),
        (b"\xff\xfe\n", b""),
    ],
)
def test_answers(line: bytes, answer: bytes) -> None:
    assert ask(line) == answer


def test_what_is_no_json() -> None:
    error = json.loads(ask(b"{nonsense\n"))
    assert (error["error"]["code"], error["id"]) == (-32700, None)
