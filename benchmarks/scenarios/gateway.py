"""A whole gateway under load: many people write at once, a scripted model answers each.

The messenger is in memory, the model is a process of its own, everything between them is the
gateway as it runs. Measured: from a message to its reply, how late the event loop was, and the
memory after each round, which must not grow with what was said. SQLite keeps pages of the file in
memory, up to a limit; they are measured, too.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.environments import REPOSITORY
from benchmarks.measures import Metrics, percentile
from benchmarks.scenarios.base import Job, Scenario, StoredRowsDiffer
from benchmarks.sizes import Size

_ROUNDS = 6
#: How often the delay of the event loop is looked at.
_TICK = 0.01


#: A model that gives every user the same answer until its input ends; prints its address.
_MODEL = """
import json, sys
from hermes_sessions_testing.scripted_model import ScriptedModel, streamed

with ScriptedModel() as model:
    def respond(_request):
        model.requests.clear()
        return streamed("Hello", " to", " you.")

    model.respond = respond
    print(json.dumps({"base_url": model.base_url, "default": model.model}), flush=True)
    sys.stdin.read()
"""


@contextmanager
def _model() -> Iterator[dict[str, str]]:
    """A model beside the gateway, so that neither its work nor its memory is measured."""
    with subprocess.Popen(
        [sys.executable, "-c", _MODEL],
        # The test tools are not installed with the product.
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "testing" / "src")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        if process.stdout is None or process.stdin is None:
            raise RuntimeError("the model has no pipes")
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()


def _pages_mb() -> float:
    """What SQLite has in memory, in this process."""
    import apsw

    return apsw.memory_used() / 1e6


def _resident_mb() -> float:
    """The memory of this process now."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def _messenger() -> Any:
    """A messenger in memory. Made here, because only the worker has the gateway installed."""
    from hermes_sessions.gateway.platforms.port import Adapter, Limits

    class Memory(Adapter):
        name = "telegram"
        limits = Limits(text=4096)
        is_connected = True

        def __init__(self) -> None:
            self.written: dict[str, float] = {}
            self.seconds: list[float] = []
            self.services: Any = None
            self.is_ready = asyncio.Event()

        async def connect(self, services: Any) -> None:
            self.services = services
            self.is_ready.set()

        async def disconnect(self) -> None:
            pass

        async def send(self, target: Any, text: str, *, key: str) -> str:  # noqa: ARG002
            self.seconds.append(time.perf_counter() - self.written.pop(target.chat_id))
            return key

    return Memory()


async def _stalls(late: list[float]) -> None:
    while True:
        due = time.perf_counter() + _TICK
        await asyncio.sleep(_TICK)
        late.append(max(0.0, time.perf_counter() - due))


async def _write(memory: Any, lane: int, number: int) -> None:
    from hermes_sessions import Platform, SessionSource
    from hermes_sessions.gateway.events import Inbound

    who = str(lane)
    memory.written[who] = time.perf_counter()
    source = SessionSource(Platform.TELEGRAM, who, chat_type="dm", user_id=who)
    receipt = await memory.services.accept(Inbound(source, f"Hello {number}", f"{who}-{number}"))
    if receipt.status != "stored":
        raise StoredRowsDiffer(f"a message was {receipt.status}: {receipt.reply}")


async def _measured(job: Job, settings: Any, db: Any) -> Metrics:
    from hermes_sessions.gateway.builder import gateway

    memory, lanes, late = _messenger(), job.count("lanes"), list[float]()
    resident, pages = list[float](), list[float]()
    with gateway(settings, db, adapters={"telegram": memory}, environ={}) as built:
        running = asyncio.create_task(built.run())
        await memory.is_ready.wait()
        watching = asyncio.create_task(_stalls(late))
        start = time.perf_counter()
        for number in range(_ROUNDS):
            await asyncio.gather(*(_write(memory, lane, number) for lane in range(lanes)))
            while memory.written:
                if running.done():
                    raise StoredRowsDiffer(f"the gateway ended: {running.result()}")
                await asyncio.sleep(_TICK)
            resident.append(_resident_mb())
            pages.append(_pages_mb())
        seconds = time.perf_counter() - start
        watching.cancel()
        built.end("shutdown")
        await running
    return {
        "messages_per_second": lanes * _ROUNDS / seconds,
        "reply_p50_ms": percentile(memory.seconds, 0.5) * 1000,
        "reply_p99_ms": percentile(memory.seconds, 0.99) * 1000,
        "stall_p99_ms": percentile(late, 0.99) * 1000,
        "stall_max_ms": max(late) * 1000,
        "first_mb": resident[0],
        "last_mb": resident[-1],
        # Without the pages, and from the second round on: the first one fills pools and caches.
        "last_to_second": (resident[-1] - pages[-1]) / (resident[1] - pages[1]),
        **{f"round_{number}_mb": value for number, value in enumerate(resident, 1)},
        **{f"round_{number}_pages_mb": value for number, value in enumerate(pages, 1)},
    }


def _run(job: Job) -> Metrics:
    from hermes_sessions.config import load_settings

    store: Any = job.open()
    with _model() as model:
        config = {
            "model": model,
            "platforms": {
                "telegram": {"enabled": True, "allowed_users": ["*"], "messages_per_minute": 0}
            },
        }
        # JSON is YAML, too.
        (job.scratch / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
        settings = load_settings(job.scratch, {})
        metrics = asyncio.run(_measured(job, settings, store.session_db))
    stored = store.count_messages()
    store.close()
    wanted = job.count("lanes") * _ROUNDS * 2
    if stored != wanted:
        raise StoredRowsDiffer(f"{stored} messages are stored, of {wanted}")
    return metrics


def _parameters(size: Size, _opponent: object) -> dict[str, float]:
    return {"lanes": size.gateway_lanes}


GATEWAY = Scenario(
    name="gateway",
    title="1,000 people write to one gateway at once, six times",
    opponents=("ours-gateway",),
    parameters=_parameters,
    run=_run,
)
