"""The dashboard and the API server of the unmodified hermes-agent 0.19.0, on each database."""

from __future__ import annotations

import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.clients.adopted import FIRST, IS_STOCK, PATIENCE, SECOND, Home, Server

pytestmark = pytest.mark.slow
KEY = "8c1f0e52b7a94d63a1d0c9e4"


class Client:
    """Requests to a server of the client."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.url = url
        self._headers = {"Content-Type": "application/json", **headers}

    def ask(self, request: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Return the status and the JSON of an answer; *request* is a method and a path."""
        method, path = request.split(" ", 1)
        data = None if body is None else json.dumps(body).encode()
        sent = urllib.request.Request(
            self.url + path, data, {**self._headers, **headers}, method=method
        )
        try:
            with urllib.request.urlopen(sent, timeout=PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, json.loads(refused.read())

    def get(self, path: str) -> Any:
        """Return the JSON of a page that must be there."""
        status, found = self.ask(f"GET {path}")
        assert status == 200, found
        return found


@contextmanager
def dashboard(home: Home) -> Iterator[Client]:
    ready = re.compile(r"HERMES_DASHBOARD_READY port=(\d+)")
    options = ("dashboard", "--no-open", "--skip-build", "--port", "0")
    with home.server(*options, until=lambda printed: bool(ready.search(printed))) as server:
        found = ready.search(server.printed)
        assert found
        url = f"http://127.0.0.1:{found[1]}"
        with urllib.request.urlopen(f"{url}/", timeout=PATIENCE) as page:
            token = re.search(r'TOKEN__="([^"]+)"', page.read().decode())
        assert token
        yield Client(url, {"X-Hermes-Session-Token": token[1]})


def test_lists_of_the_dashboard(home: Home) -> None:
    home.seed_two(then=f"db.set_session_title({FIRST!r}, 'My Fruit Chat')")
    with dashboard(home) as client:
        page = client.get("/api/sessions?limit=1")
        assert (page["total"], page["limit"], page["offset"]) == (2, 1, 0)
        [row] = page["sessions"]
        assert row["id"] == SECOND
        assert not row.keys() & {"system_prompt", "model_config"}
        assert (row["is_active"], row["archived"]) == (True, False)
        assert {"preview", "last_active", "cwd", "handoff_state", "rewind_count"} <= row.keys()
        inside = client.get(f"/api/sessions?order=recent&archived=include&cwd_prefix={home.place}")
        assert inside["total"] == 2
        assert client.get("/api/sessions?cwd_prefix=/nowhere")["sessions"] == []
        assert client.ask("GET /api/sessions?archived=zzz")[0] == 400
        for path in ("/api/profiles/sessions", "/api/profiles/sessions/sidebar"):
            assert FIRST in json.dumps(client.get(path))
            assert not client.get(path).get("errors"), path

        [hit] = client.get("/api/sessions/search?q=pineap")["results"]
        assert (hit["session_id"], hit["lineage_root"]) == (FIRST, FIRST)
        assert ">>>" in hit["snippet"]
        by_id = client.get(f"/api/sessions/search?q={SECOND[9:]}")["results"][0]
        assert (by_id["session_id"], by_id["role"]) == (SECOND, None)
        assert by_id["snippet"] == "second"

        assert client.get(f"/api/sessions/{FIRST}")["title"] == "My Fruit Chat"
        assert client.get(f"/api/sessions/{FIRST[:8]}")["id"] == FIRST
        assert client.ask("GET /api/sessions/nope")[0] == 404
        found = client.get(f"/api/sessions/{FIRST}/messages?limit=2&offset=1")
        assert [each["content"] for each in found["messages"]] == ["echo: hello pineapple one"]
        assert found["pagination"] == {"limit": 2, "offset": 1, "returned": 1}
        tip = client.get(f"/api/sessions/{FIRST}/latest-descendant")
        assert (tip["path"], tip["changed"]) == ([FIRST], False)
        assert len(client.get(f"/api/sessions/{FIRST}/export")["messages"]) == 2
        assert client.get("/api/status")["active_sessions"] == 2


def test_changes_by_the_dashboard(home: Home) -> None:
    home.seed_two(
        then=f"db.set_session_title({FIRST!r}, 'My Fruit Chat'); "
        "db.create_session('empty', 'cli'); db.end_session('empty', 'cli_close'); "
        f"db.record_auxiliary_usage({FIRST!r}, 'compression', model='small', input_tokens=9)"
    )
    with dashboard(home) as client:
        second = f"PATCH /api/sessions/{SECOND}"
        assert client.ask(second, {"title": "Two"}) == (200, {"ok": True, "title": "Two"})
        status, refused = client.ask(second, {"title": "My Fruit Chat"})
        assert (status, FIRST in json.dumps(refused)) == (400, True)
        assert client.ask(second, {})[0] == 400
        status, archived = client.ask(second, {"archived": True})
        assert (status, archived["archived"]) == (200, True)
        stats = client.get("/api/sessions/stats")
        assert (stats["total"], stats["active_store"], stats["archived"]) == (3, 2, 1)

        assert client.get("/api/sessions/empty/count") == {"count": 1}
        assert client.ask("DELETE /api/sessions/empty") == (200, {"ok": True, "deleted": 1})
        assert client.ask("DELETE /api/sessions/nope")[1] == {"ok": True, "already_absent": True}
        status, plan = client.ask(
            "POST /api/sessions/prune", {"dry_run": True, "older_than_days": 1}
        )
        assert (status, plan["matched"]) == (200, 0)

        session = {"id": "new", "source": "cli", "messages": [{"role": "user", "content": "hi"}]}
        status, report = client.ask("POST /api/sessions/import", {"sessions": [session]})
        assert (status, report.get("imported_ids")) == (200, ["new"]), report
        status, report = client.ask("POST /api/sessions/import", {"sessions": [{"source": "x"}]})
        assert (status, report["detail"]["errors"][0]["index"]) == (400, 0)
        gone = client.ask("POST /api/sessions/bulk-delete", {"ids": ["new", "nope"]})
        assert gone == (200, {"ok": True, "deleted": 1})

        usage = client.get("/api/analytics/usage?days=30")
        assert (usage["totals"]["total_input"], usage["totals"]["total_sessions"]) == (200, 2)
        assert len(usage["daily"]) == 1
        assert [row["model"] for row in usage["by_model"]] == ["fake-model", "small"]
        assert [row["task"] for row in usage["by_task"]] == ["compression"]
        models = client.get("/api/analytics/models?days=30")
        assert models["models"][0]["avg_tokens_per_session"] == 107
        assert client.get("/api/cron/jobs/j1/runs")["runs"] == []


@contextmanager
def api_server(home: Home) -> Iterator[tuple[Server, Client]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    client = Client(f"http://127.0.0.1:{port}", {"Authorization": f"Bearer {KEY}"})

    def is_up(_printed: str) -> bool:
        try:
            return client.ask("GET /health")[0] == 200
        except OSError:
            return False

    variables = {"API_SERVER_ENABLED": "true", "API_SERVER_KEY": KEY, "API_SERVER_PORT": str(port)}
    with home.server("gateway", "run", until=is_up, **variables) as server:
        yield server, client


def test_the_api_server_of_the_gateway(home: Home) -> None:
    with api_server(home) as (server, client):
        health = client.get("/health/detailed")
        assert health["readiness"]["checks"]["state_db"] == {"status": "ok"}
        sessions = "POST /api/sessions"
        status, made = client.ask(sessions, {"id": "api1", "title": "Api One"})
        assert (status, made["session"]["title"]) == (201, "Api One")
        status, refused = client.ask(sessions, {"id": "api1"})
        assert (status, refused["error"]["code"]) == (409, "session_exists")
        status, refused = client.ask(sessions, {"id": "api2", "title": "Api One"})
        assert (status, refused["error"]["code"]) == (400, "invalid_title")
        assert client.ask("GET /api/sessions/api2")[0] == 404
        status, changed = client.ask("PATCH /api/sessions/api1", {"title": "Api Uno"})
        assert (status, changed["session"]["title"]) == (200, "Api Uno")
        status, reply = client.ask("POST /api/sessions/api1/chat", {"message": "hello api"})
        assert (status, reply["message"]["content"]) == (200, "echo: hello api")
        said = client.get("/api/sessions/api1/messages")["data"]
        assert [each["content"] for each in said] == ["hello api", "echo: hello api"]
        status, forked = client.ask("POST /api/sessions/api1/fork", {})
        assert (status, forked["session"]["title"]) == (201, "Api Uno #2")
        assert forked["session"]["message_count"] == 2

        for text in ("one", "two"):
            turn = {"model": "hermes-agent", "messages": [{"role": "user", "content": text}]}
            status, reply = client.ask(
                "POST /v1/chat/completions", turn, **{"X-Hermes-Session-Id": "completions"}
            )
            assert (status, reply["choices"][0]["message"]["content"]) == (200, f"echo: {text}")
        sent = home.model.requests[-1].body["messages"]
        assert [each["content"] for each in sent][1:] == ["one", "echo: one", "two"]
        status, gone = client.ask("DELETE /api/sessions/api1")
        assert (status, gone["deleted"]) == (200, True)
        server.stop()
    if IS_STOCK:  # Ours keeps its log while the client's delivery ledger has the file open.
        assert not (home.folder / "state.db-wal").exists()
    assert home.ask("sorted(row['source'] for row in db.list_sessions_rich())") == [
        "api_server",
        "api_server",
    ]
