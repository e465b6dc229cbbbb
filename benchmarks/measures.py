"""Small statistics: nearest-rank percentiles, medians, and the summary of a run's latencies."""

from __future__ import annotations

import math
from collections.abc import Sequence

Metrics = dict[str, float]


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: the smallest value that ``share`` of the values do not exceed.

    Raises :class:`ValueError` for no values or a share outside 0 < share <= 1.
    """
    if not values:
        raise ValueError("no values to take a percentile of")
    if not 0 < share <= 1:
        raise ValueError(f"share must be above 0 and at most 1, not {share}")
    ordered = sorted(values)
    # Rounding first: 0.999 * 1000 is a hair above 999 in binary.
    return ordered[math.ceil(round(share * len(ordered), 9)) - 1]


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones."""
    if not values:
        raise ValueError("no values to take a median of")
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def latency_metrics(seconds: Sequence[float]) -> Metrics:
    """Throughput and the usual percentiles of calls that each took this many seconds."""
    return {
        "calls": float(len(seconds)),
        "per_second": len(seconds) / sum(seconds),
        "p50_ms": percentile(seconds, 0.50) * 1000,
        "p99_ms": percentile(seconds, 0.99) * 1000,
        "p999_ms": percentile(seconds, 0.999) * 1000,
        "worst_ms": max(seconds) * 1000,
    }
