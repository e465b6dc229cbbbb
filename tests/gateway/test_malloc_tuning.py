"""Memory limits of the C library, checked with glibc in another process."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions.gateway import malloc_tuning
from hermes_sessions_testing.scripted_model import streamed
from tests.gateway.harness import PATIENCE, TelegramHarness

#: Threads allocate at the same time; prints how many arenas there are then.
_ARENAS = """
import ctypes, sys, tempfile, threading
from hermes_sessions.gateway import malloc_tuning

malloc_tuning.limit_arenas({environ})
both = threading.Barrier(12)
def allocate():
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    both.wait()
    library.malloc(3000)
    both.wait()
threads = [threading.Thread(target=allocate) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
library = ctypes.CDLL(None)
library.fopen.restype = ctypes.c_void_p
with tempfile.NamedTemporaryFile() as file:
    stream = ctypes.c_void_p(library.fopen(file.name.encode(), b"w"))
    library.malloc_info(0, stream)
    library.fclose(stream)
    print(file.read().count(b"<heap nr="))
"""
_is_glibc = sys.platform == "linux" and malloc_tuning._of_glibc("malloc_info") is not None
on_glibc = pytest.mark.skipif(not _is_glibc, reason="another C library")


def arenas(environ: dict[str, str]) -> int:
    program = _ARENAS.replace("{environ}", repr(environ))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@on_glibc
def test_many_threads_have_few_arenas() -> None:
    assert arenas({}) <= 2


@on_glibc
@pytest.mark.parametrize(
    "environ", [{"MALLOC_ARENA_MAX": "9"}, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=9"}]
)
def test_the_environment_may_override_it(environ: dict[str, str]) -> None:
    assert arenas(environ) > 2


def test_without_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "elsewhere")
    malloc_tuning.limit_arenas({})
    malloc_tuning.trim_free_memory()


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[TelegramHarness]:
    with TelegramHarness(tmp_path) as harness:
        yield harness


def test_memory_is_given_back_once_when_nothing_runs(
    harness: TelegramHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back: list[bool] = []
    at_start = threading.Event()

    def trim_free_memory() -> None:
        given_back.append(True)
        at_start.set()

    monkeypatch.setattr(malloc_tuning, "trim_free_memory", trim_free_memory)
    # After the start, nothing but this test has it rest.
    harness.config["gateway"] = {"lease_seconds": 3600}
    gateway = harness.start().gateway
    assert gateway is not None
    assert at_start.wait(PATIENCE)
    gate = harness.model.gate()
    harness.model.respond = lambda _request: streamed(gate, "Done.")
    harness.telegram.write("Hello")
    gate.wait_until_reached()
    gateway._trim_memory_when_idle()
    assert len(given_back) == 1
    gate.open()
    harness.wait_for_replies(1)
    assert gateway.pool.wait_idle(PATIENCE)
    for _ in range(2):
        gateway._trim_memory_when_idle()
    assert len(given_back) == 2
