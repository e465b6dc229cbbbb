"""How good an order is: nDCG, the usual measure for graded judgements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def ndcg(ranked: Sequence[str], relevant: Mapping[str, int], k: int = 10) -> float:
    """Return how much of the best possible order of *relevant* the first *k* of *ranked* have.

    1.0 is a perfect order, 0.0 means that nothing relevant is among them. *relevant* gives grades;
    what is not in it has grade 0. A result that is listed twice counts once.
    """
    unique = list(dict.fromkeys(ranked))[:k]
    best = _gain(sorted(relevant.values(), reverse=True)[:k])
    return _gain([relevant.get(item, 0) for item in unique]) / best if best else 0.0


def _gain(grades: Sequence[int]) -> float:
    return sum(((1 << grade) - 1) / math.log2(place + 2) for place, grade in enumerate(grades))
