"""Results of child processes, without waiting for one that has died."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from multiprocessing.context import SpawnProcess
from typing import Any


def gather(processes: Sequence[SpawnProcess], results: Any) -> list[Any]:
    """One result from each process, in the order they come, then join them.

    Raises :class:`RuntimeError` when a process ends without handing in its result.
    """
    gathered: list[Any] = []
    while len(gathered) < len(processes):
        try:
            gathered.append(results.get(timeout=1))
        except queue.Empty:
            failed = [process.name for process in processes if process.exitcode not in (0, None)]
            if failed:
                raise RuntimeError(f"{', '.join(failed)} died; see the errors above") from None
    for process in processes:
        process.join()
    return gathered
