"""Facts about the machine that a reader needs to judge the numbers; nothing that names it."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measures import percentile

FSYNCS = 200


def facts(directory: Path) -> dict[str, Any]:
    """Cores, memory, processor, versions, file system, and how long an fsync takes there."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "file_system": _file_system(directory),
        "fsync_p50_ms": round(fsync_p50(directory) * 1000, 3),
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def fsync_p50(directory: Path) -> float:
    """The median seconds of a 4 KiB write and an fsync at the end of a growing file."""
    page = os.urandom(4096)
    seconds: list[float] = []
    with tempfile.TemporaryFile(dir=directory, buffering=0) as probe:
        for _ in range(FSYNCS):
            start = time.perf_counter()
            probe.write(page)
            os.fsync(probe.fileno())
            seconds.append(time.perf_counter() - start)
    return percentile(seconds, 0.5)


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _file_system(directory: Path) -> str:
    """The type of the file system the stores are on; the longest mount point that contains it."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "unknown"
    best, kind = "", "unknown"
    resolved = directory.resolve()
    for line in mounts.read_text().splitlines():
        _, point, found, *_ = line.split()
        if resolved.is_relative_to(point) and len(point) >= len(best):
            best, kind = point, found
    return kind
