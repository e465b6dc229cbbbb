"""What is asked of a repair."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, NamedTuple

#: auto: the tool where there is one that can do it, row by row otherwise.
Way = Literal["auto", "tool", "rows"]
DEFAULT_KEEP: Final = 3


def _say_nothing(_step: str, _count: int) -> None:
    pass


class Errand(NamedTuple):
    """How a file is to be repaired."""

    #: Where the new file is to be; None: in the place of the damaged one, which is kept.
    to: Path | None = None
    #: How many damaged files are kept.
    keep: int = DEFAULT_KEEP
    way: Way = "auto"
    clock: Callable[[], float] = time.time
    on_progress: Callable[[str, int], None] = _say_nothing
