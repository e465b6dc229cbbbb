"""A gateway with the local socket at work: a real store, and a model's protocol over a socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from hermes_sessions import SessionDB
from hermes_sessions_testing.scripted_model import ScriptedModel
from tests.gateway.harness import RunningGateway, echo, said


class LocalHarness:
    """A gateway with the local socket."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.model = ScriptedModel()
        self.script: list[Any] = []
        self.model.respond = lambda request: (
            self.script.pop(0)
            if self.script and "title" not in said(request).lower()
            else echo(request)
        )
        self.config: dict[str, Any] = {
            "model": {"base_url": self.model.base_url, "default": self.model.model},
            "platforms": {"local": {"enabled": True, "messages_per_minute": 0}},
            "agent": {"restart_drain_timeout": 0},
        }
        self.running: RunningGateway | None = None

    @property
    def socket(self) -> Path:
        return self.home / "gateway" / "local.sock"

    def open_db(self) -> SessionDB:
        return SessionDB(self.home / "state.db")

    def start(self) -> None:
        (self.home / "config.yaml").write_text(yaml.safe_dump(self.config), encoding="utf-8")
        self.running = RunningGateway(self)  # type: ignore[arg-type] - all that it needs of a town
        self.running.wait_until_ready()

    def stop(self) -> None:
        if self.running is not None:
            self.running.stop("restart")

    def close(self) -> None:
        self.stop()
        self.model.close()
