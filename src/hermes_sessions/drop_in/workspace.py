"""The workspace that hermes-agent shows for a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def workspace_key(row: Mapping[str, Any]) -> str | None:
    """Return the repository root of a session, else its directory, else None; blanks count as
    absent.
    """
    for name in ("git_repo_root", "cwd"):
        value = str(row.get(name) or "").strip()
        if value:
            return value
    return None
