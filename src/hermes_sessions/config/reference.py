"""The table of keys in the documentation, made from the declarations.

``python -m hermes_sessions.config.reference`` prints it; a test compares it with the page.
"""

from __future__ import annotations

import sys

from hermes_sessions.config.keys import KEYS


def reference_table() -> str:
    """Return the Markdown table of every key: name, default, what is allowed, what it does."""
    rows = ["| Key | Default | Allowed | Meaning |", "|---|---|---|---|"]
    for key in KEYS:
        # Words that are already marked up stay as they are.
        default = key.default_text if "`" in key.default_text else f"`{key.default_text}`"
        variables = "".join(f" Overridden by `{name}`." for name in key.environment)
        rows.append(f"| `{key.path}` | {default} | {key.kind.allowed} | {key.doc}{variables} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference_table())
