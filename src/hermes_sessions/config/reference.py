"""Print the table of keys in docs/configuration.md; a test compares it with the page."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from hermes_sessions.config.derived_keys import KEYS
from hermes_sessions.config.key_types import Key


def reference_table(keys: Iterable[Key] = KEYS) -> str:
    """Return the Markdown table of *keys*: name, default, allowed values, meaning."""
    rows = ["| Key | Default | Allowed | Meaning |", "|---|---|---|---|"]
    for key in keys:
        default = key.default_text
        is_words = "`" in default or default in {"not set", "required"}
        variables = "".join(f" Overridden by `{name}`." for name in key.environment)
        rows.append(
            f"| `{key.path}` | {default if is_words else f'`{default}`'} | {key.kind.allowed} "
            f"| {key.doc}{variables} |"
        )
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference_table())
