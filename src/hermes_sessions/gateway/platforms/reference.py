"""Print the table of a platform's own keys, as its page in docs has it; a test compares them."""

from __future__ import annotations

import sys

from hermes_sessions.config.derived_keys import derive_keys
from hermes_sessions.config.reference import reference_table
from hermes_sessions.gateway.platforms.registry import find_spec


def platform_table(name: str) -> str:
    """Return the Markdown table of the keys that only the platform *name* has."""
    keys, _ = derive_keys(find_spec(name).settings)
    return reference_table(keys)


if __name__ == "__main__":
    sys.stdout.write(platform_table(sys.argv[1]))
