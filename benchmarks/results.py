"""What a run measured: a list of rounds for each scenario, opponent and metric."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.measures import Metrics, median

Rounds = dict[str, dict[str, list[Metrics]]]


@dataclass
class Results:
    """Rounds by scenario and opponent, and the numbers derived from them."""

    rounds: Rounds = field(default_factory=dict)

    def add(self, scenario: str, opponent: str, metrics: Metrics) -> None:
        """Record one more round."""
        self.rounds.setdefault(scenario, {}).setdefault(opponent, []).append(metrics)

    def value(self, scenario: str, opponent: str, metric: str) -> float | None:
        """The median over the rounds; None when it was not measured."""
        found = self._values(scenario, opponent, metric)
        return median(found) if found else None

    def worst(self, scenario: str, opponent: str, metric: str) -> float | None:
        """The largest over the rounds; None when it was not measured."""
        return max(self._values(scenario, opponent, metric), default=None)

    def ratio(self, scenario: str, metric: str, one: str, other: str) -> float | None:
        """How many times ``other`` goes into ``one``: the median of the rounds' own ratios.

        Rounds are interleaved, so what disturbs one side of a round mostly disturbs both.
        """
        pairs = zip(
            self._values(scenario, one, metric),
            self._values(scenario, other, metric),
            strict=False,
        )
        ratios = [left / right for left, right in pairs if right]
        return median(ratios) if ratios else None

    def as_json(self) -> dict[str, Any]:
        """Medians with the rounds they come from, rounded for reading."""
        return {
            scenario: {
                opponent: {
                    metric: {
                        "median": _rounded(median([r[metric] for r in rounds])),
                        "rounds": [_rounded(r[metric]) for r in rounds],
                    }
                    for metric in rounds[0]
                }
                for opponent, rounds in opponents.items()
            }
            for scenario, opponents in self.rounds.items()
        }

    def _values(self, scenario: str, opponent: str, metric: str) -> list[float]:
        rounds = self.rounds.get(scenario, {}).get(opponent, [])
        return [metrics[metric] for metrics in rounds if metric in metrics]


def _rounded(value: float) -> float:
    return float(f"{value:.4g}") if abs(value) < 10_000 else float(round(value))
