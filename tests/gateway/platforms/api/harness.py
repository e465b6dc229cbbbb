"""A gateway with the HTTP API at work: a real store, a model's protocol, all over sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import httpx
import openai
import yaml

from hermes_sessions import SessionDB
from hermes_sessions.gateway.platforms.api.adapter import ApiAdapter
from hermes_sessions_testing.scripted_model import Answer, RecordedRequest, ScriptedModel
from tests.gateway.harness import RunningGateway, echo, said

TOKEN = "a-token-that-nobody-guesses"
PATIENCE = 60.0


class ApiHarness:
    """The gateway, from its start to its end."""

    def __init__(self, home: Path, **api: Any) -> None:
        self.home = home
        self.model = ScriptedModel()
        self.model.respond = self._respond
        #: What the model says before it begins to repeat what it hears.
        self.script: list[Answer] = []
        self.config: dict[str, Any] = {
            "model": {"base_url": self.model.base_url, "default": self.model.model},
            "platforms": {
                "api": {"token": TOKEN, "port": 0, "messages_per_minute": 0, **api},
            },
            "agent": {"restart_drain_timeout": 0},
        }
        self.running: RunningGateway | None = None
        self.db_options: dict[str, Any] = {}

    def _respond(self, request: RecordedRequest) -> Answer | None:
        is_title = "title" in said(request).lower()
        return echo(request) if is_title or not self.script else self.script.pop(0)

    def start(self) -> RunningGateway:
        (self.home / "config.yaml").write_text(yaml.safe_dump(self.config), encoding="utf-8")
        self.running = RunningGateway(self)  # type: ignore[arg-type] - all that it needs of a town
        self.running.wait_until_ready()
        return self.running

    def open_db(self) -> SessionDB:
        return SessionDB(self.home / "state.db", **self.db_options)

    @property
    def port(self) -> int:
        assert self.running is not None
        assert self.running.gateway is not None
        adapter = self.running.gateway.adapters["api_server"]
        assert isinstance(adapter, ApiAdapter)
        assert adapter.port is not None
        return adapter.port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, token: str | None = TOKEN, **headers: str) -> httpx.Client:
        """A client for HTTP; whoever makes one closes it."""
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE)

    def openai(self, **headers: str) -> openai.OpenAI:
        """OpenAI's own client; whoever makes one closes it."""
        return openai.OpenAI(
            base_url=f"{self.url}/v1",
            api_key=TOKEN,
            default_headers=headers,
            timeout=PATIENCE,
        )

    def prompts(self) -> list[list[dict[str, Any]]]:
        """What the model was asked, without the requests for titles."""
        asked = [request.body["messages"] for request in self.model.requests]
        return [messages for messages in asked if "title" not in str(messages[-1]).lower()]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self.running is not None:
            self.running.stop()
        self.model.close()
